"""What the network adds to a utility, what it reads of items, and whom it is fitted to."""

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import date
from functools import partial
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from slatewise import ModelConfig
from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.preparation import prepare
from slatewise.data.ragged import Int64Array
from slatewise.features.past import PastFeatures, PastTable
from slatewise.features.popularity_index import PopularityIndex
from slatewise.features.user_history import Histories
from slatewise.model.network import fitting, inputs
from slatewise.model.network.architecture import SlateInputs, SlateNetwork, log_sums
from slatewise.model.network.candidates import ALWAYS
from slatewise.model.network.fitting import Choices
from slatewise.model.network.inputs import catalogue_rows, in_parts, log_to_fit, with_further
from slatewise.model.terms import network as module
from slatewise.model.terms.known import ListMoment
from slatewise.model.terms.network import NetworkTerm, _fitted
from slatewise.model.terms.term import Floats, Lookup
from slatewise.training import trainer
from tests.contract.world import END, ITEMS, small_log
from tests.features.logs import random_log, slate

DAY = 86_400_000_000
PAST = PastFeatures(popularity=None, rates=(0.5, 0.7), rate=0.6)


@pytest.mark.parametrize("can_pass", [False, True])
def test_items_stand_far_above_no_click_where_every_slate_has_a_click(can_pass: bool) -> None:
    log = random_log(4)
    table = PAST.table(log, np.zeros(8, np.int64))
    network = SlateNetwork(table.items.shape[1], table.slates.shape[1], 1, 4)
    term = NetworkTerm(past=PAST, can_pass=can_pass, groups=1, units=4, validation=(-1.0, -1.0))
    tensors = {"item_groups": torch.zeros(8, dtype=torch.int32)}
    for name, values in (("items", table.items), ("slates", table.slates)):
        tensors |= {f"{name}_mean": values.mean(0), f"{name}_sd": torch.ones(values.shape[1])}
    found = term._columns(log, table, network, tensors)[:, 0]
    level = log_sums(found, log.slate_offsets)
    if can_pass:
        assert (level - level[0]).abs().max() > 1e-4
    else:
        torch.testing.assert_close(level, torch.full_like(level, ALWAYS))
    again = term._columns(replace(log, clicks=log.clicks * 0), table, network, tensors)[:, 0]
    assert torch.equal(again, found)  # of clicks nothing is read


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return small_log(tmp_path_factory.mktemp("network"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelConfig]:
    """A configuration whose network is fitted for one epoch, and forgotten."""
    monkeypatch.setattr(fitting, "EPOCHS", 1)
    yield ModelConfig(terms=("bias", "network"), network_units=4, network_members=1)
    _fitted.clear()


def with_columns(dataset: SlateDataset, folder: Path, *columns: pl.Series) -> SlateDataset:
    """Return the dataset with other columns of its items."""
    path = folder / "set"
    path.mkdir()
    for file in dataset.path.iterdir():
        (path / file.name).write_bytes(file.read_bytes())
    dataset.items.select("item_id", "group").with_columns(*columns).write_parquet(
        path / "items.parquet"
    )
    return SlateDataset.open(path)


def test_it_reads_the_columns_of_items_and_names_those_that_it_cannot(
    dataset: SlateDataset, quick: ModelConfig, tmp_path: Path
) -> None:
    log = with_columns(
        dataset,
        tmp_path,
        pl.Series("price", np.arange(ITEMS) / 7),
        pl.Series("day", [date(1969, 1, 1)] * ITEMS),
        pl.Series("ends", ["2090-01-01"] * ITEMS),
        pl.Series("image", [[0.0] * 65] * ITEMS),
    )
    term = NetworkTerm.fit(quick, log)
    said = "\n".join(term.notes)
    assert "reads these columns of the items: price." in said
    assert "reads 'day' as the age of an item." in said
    assert "'ends': a date before the slate for 0% of the items seen only." in said
    assert "'image': a vector of 65 numbers" in said
    matrix = term._tensors["item_columns"]
    assert matrix.shape == (ITEMS + 1, 1)
    numbers, _ = catalogue_rows(term._tensors, torch.tensor([3, ITEMS + 40]))
    assert numbers is not None
    assert numbers.tolist() == [3, ITEMS]
    assert matrix[-1, 0] == pytest.approx(0, abs=1e-6)  # a new item has the mean
    assert NetworkTerm.fit(quick, log) is term
    other = tmp_path / "other"
    other.mkdir()
    changed = with_columns(dataset, other, pl.Series("price", np.arange(ITEMS) % 2))
    assert NetworkTerm.fit(quick, changed) is not term


def test_columns_of_items_count_nothing_before_they_are_learned(
    dataset: SlateDataset, quick: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    learned = NetworkTerm.fit(quick, dataset)
    assert learned.network.of_item.weight[:, -4:].all(0).all()  # a price, and three brands
    log = dataset.interactions()
    said = learned.describe_in(dataset)(log)
    learned._tensors["item_columns"] = learned._tensors["item_columns"].flip(0)
    assert not torch.allclose(learned.describe_in(dataset)(log), said)
    _fitted.clear()
    monkeypatch.setattr(fitting, "EPOCHS", 0)
    weights = NetworkTerm.fit(quick, dataset).network.of_item.weight
    assert not weights[:, -4:].any()
    assert weights[:, -5].any()


def test_it_is_fitted_on_the_device_that_a_fit_is_given(
    dataset: SlateDataset, quick: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The device `meta` has shapes alone, and every computer has it."""

    class ReachedError(Exception):
        pass

    def begin(choices: Choices, training: Tensor, validation: Tensor, **settings: object) -> None:
        given = [getattr(choices.inputs, field.name) for field in fields(SlateInputs)]
        found = {part.device.type for part in (*given, choices.clicks, training, validation)}
        raise ReachedError(found)

    monkeypatch.setattr(module, "fit_network", begin)
    monkeypatch.setattr(trainer, "require_device", lambda device: None)
    with pytest.raises(ReachedError, match=r"^{'cpu'}$"):
        trainer.fit(dataset, quick)
    with pytest.raises(ReachedError, match=r"^{'meta'}$"):
        trainer.fit(dataset, quick, device="meta")


def test_a_large_log_is_fitted_to_users_drawn_by_chance(
    dataset: SlateDataset, quick: ModelConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 300)
    term = NetworkTerm.fit(quick, dataset)
    fitted, everybody = term.users
    assert 0 < fitted < everybody
    assert f"fitted to {fitted:,} of {everybody:,} users" in "\n".join(term.notes)
    log, users = log_to_fit(dataset, 300)
    assert len(users) == fitted
    assert len(log.slate_items) <= 300


def test_features_computed_for_some_users_at_a_time_are_those_of_all(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, users = log_to_fit(dataset, 10**9)
    past = PastFeatures.fit(dataset).in_log(dataset)
    monkeypatch.setattr(inputs, "PART", 40)
    found, wanted = in_parts(lambda some, _: past(some), log, users), past(log)
    assert torch.equal(found.items, wanted.items)
    assert torch.equal(found.slates, wanted.slates)


def test_a_further_click_knows_where_the_last_one_was(dataset: SlateDataset) -> None:
    log = dataset.interactions()
    assert log.several is not None
    empty = PastTable(torch.zeros(len(log.slate_items), 0), torch.zeros(len(log.clicks), 0))
    items, slates = with_further(empty, log)
    further = log.several.further
    torch.testing.assert_close(slates[:, 0], further.float().log1p())
    for n in range(len(further)):
        own = items[log.slate_offsets[n] : log.slate_offsets[n + 1], 0].tolist()
        last = int(log.clicks[n - 1])
        wanted = [1 / (at - last) if further[n] and at != last else 0 for at in range(len(own))]
        assert own == pytest.approx(wanted)
    none = with_further(empty, None)
    assert not none.items.any()
    assert not none.slates.any()


def test_a_date_is_read_as_the_age_of_an_item_whoever_asks(
    dataset: SlateDataset, quick: ModelConfig, tmp_path: Path
) -> None:
    """Against plain arithmetic: in training, in predictions, and for a list to be ranked."""
    begin, log = int(dataset.times.min()), dataset.interactions()
    made = begin + np.random.default_rng(1).integers(-DAY, 2 * DAY, ITEMS)
    dates = pl.Series("made", made).cast(pl.Datetime("us")).scatter(3, None)
    dated = with_columns(dataset, tmp_path, dates)
    term = NetworkTerm.fit(quick, dated)
    past = PastFeatures.fit(dated)
    known = past.in_log(dated)(log).items
    assert past.popularity is not None
    first_seen, views = (
        known[:, past.popularity.names.index(name)].tolist() for name in ("age", "views_1000h")
    )
    times = torch.repeat_interleave(log.times, log.scroll_lengths)
    cells = zip(log.slate_items.tolist(), times.tolist(), first_seen, views, strict=True)
    usual = float(term._tensors["usual_ages"][0])
    wanted = [
        np.log1p((time - int(made[item])) / 3.6e9)
        if item != 3 and made[item] <= time
        else (seen if shown else usual)
        for item, time, seen, shown in cells
    ]
    assert 0.2 < np.mean(np.isin(wanted, [*first_seen, usual])) < 0.8
    assert 0.01 < np.mean(np.array(wanted) == usual) < 0.2
    asked: list[PastTable] = []

    def listen(tensors: object, table: PastTable) -> tuple[Tensor, Tensor]:
        asked.append(table)
        return torch.zeros(table.items.shape), torch.zeros(table.slates.shape)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inputs, "standardised", listen)
        patch.setattr(module, "standardised", listen)
        term.describe_in(dated)(log)
        index, histories = term.at_times(dated), Histories(log)
        shown = torch.nonzero(log.first_choices).squeeze(1)[::7].contiguous()
        for history, n in zip(histories.before(shown), shown.tolist(), strict=True):
            items = np.array(slate(log, n), np.int64)
            time = int(log.times[n])
            moment = ListMoment(time, partial(at_time, index, time))
            term.in_list(history, items, int(log.sources[n]), moment, len(items))
    place = known.shape[1] + 1  # after the mark of a further click
    np.testing.assert_allclose(asked[0].items[:, place], wanted, rtol=1e-6)
    for n, table in zip(shown.tolist(), asked[1:], strict=True):
        own = asked[0].items[log.slate_offsets[n] : log.slate_offsets[n + 1]]
        assert torch.equal(table.items, own)
    # What it was fitted to has the same column.
    seen = zip(wanted, in_training(log), strict=True)
    own = torch.tensor([age for age, fitted_to in seen if fitted_to])
    assert float(term._tensors["items_mean"][place]) == pytest.approx(float(own.mean()), rel=1e-4)


def at_time(index: Lookup, time: int, items: Int64Array) -> Floats:
    return index(items, np.full(len(items), time))


def in_training(log: Interactions) -> list[bool]:
    """Return which items were seen in the training part."""
    users = torch.repeat_interleave(log.user_offsets.diff())
    index = torch.arange(len(users)) - log.user_offsets[:-1][users]
    training = index < log.train_end[users]
    return torch.repeat_interleave(training, log.scroll_lengths).tolist()


def test_dates_say_nothing_where_times_are_only_an_order(
    quick: ModelConfig, tmp_path: Path
) -> None:
    rows = [
        {
            "user_id": user,
            "time": step,
            "source": "home",
            "slate": [f"i{step % 5}", "i9"],
            "click": "i9",
        }
        for user in range(30)
        for step in range(12)
    ]
    pl.DataFrame(rows).write_parquet(tmp_path / "log.parquet")
    ids = [f"i{number}" for number in range(10)]
    pl.DataFrame({"item_id": ids, "group": ids, "made": ["2024-05-17"] * 10}).write_parquet(
        tmp_path / "items.parquet"
    )
    log = prepare(tmp_path / "log.parquet", tmp_path / "items.parquet", tmp_path / "set")
    term = NetworkTerm.fit(quick, log)
    assert term.dates == ()
    assert "'made': an age takes a log with clock times." in "\n".join(term.notes)


def without_last(
    term: NetworkTerm, dataset: SlateDataset, *facts: dict[str, object]
) -> NetworkTerm:
    """Return the term as if the last two items had come after its fit, with these features."""
    rest = np.arange(ITEMS - 2)
    less = term.on_items(rest, dataset.item_groups[rest])
    assert len(less._tensors["item_groups"]) == ITEMS - 2
    return less.with_items(dataset.item_groups[-2:], less.facts_of(facts)[0])


@pytest.mark.parametrize("one_by_one", [False, True])
def test_an_item_that_comes_later_is_what_it_would_have_been(
    dataset: SlateDataset, quick: ModelConfig, one_by_one: bool
) -> None:
    term = NetworkTerm.fit(quick, dataset)
    rates = term._tensors["item_rates"] = term._tensors["item_rates"].clone()
    rates[-2:] = term._tensors["items_mean"][-1]  # how often a new item is clicked nobody knows
    seeded = torch.Generator().manual_seed(1)
    for name in ("of_item", "of_group"):  # one epoch taught it next to nothing
        weight = term._tensors[f"net.{name}.weight"]
        term._tensors[f"net.{name}.weight"] = torch.randn(weight.shape, generator=seeded)
    assert term.dates == ("made",)
    assert term.reads_items == ("price", "brand", "made")
    rows = dataset.items.tail(2).rows(named=True)
    told = without_last(term, dataset, *rows)
    if one_by_one:
        told = term.on_items(np.arange(ITEMS - 2), dataset.item_groups[:-2])
        for row, group in zip(rows, dataset.item_groups[-2:], strict=True):
            told = told.with_items(np.array([group]), told.facts_of([row])[0])
    silent = without_last(term, dataset, {}, {})
    (history,) = Histories(dataset.interactions()).whole(torch.tensor([3]))
    items = np.arange(ITEMS - 6, ITEMS)
    popular = PopularityIndex.of(term.past.popularity, dataset)
    moment = ListMoment(END, lambda some: popular.features(some, np.full(len(some), END)))

    def said(by: NetworkTerm) -> Floats:
        return by.in_list(history, items, 0, moment, 3).mean(np.arange(3))

    np.testing.assert_allclose(said(told), said(term), atol=1e-5)
    assert np.abs(said(silent)[-2:] - said(term)[-2:]).max() > 1e-3


def test_to_a_night_only_new_items_are_what_the_shop_says_now(
    dataset: SlateDataset, quick: ModelConfig
) -> None:
    """A service goes on with what it knows of the others, and it is the one that is judged."""
    term = NetworkTerm.fit(quick, dataset)
    known, told = np.append(np.arange(ITEMS), -1), {"price": 7, "brand": "b1", "made": END // 10**6}
    facts, misfits = term.facts_of([told, told])
    assert misfits == 0
    groups = np.append(dataset.item_groups, 1)
    moved = term.on_items(known, groups, np.array([3, ITEMS]), facts)
    for name in ("item_columns", "item_dates"):
        old, new = term._tensors[name], moved._tensors[name]
        if name == "item_dates":  # [K, I]
            old, new = old.T, new.T
        assert torch.equal(new[:ITEMS], old[:ITEMS])
        assert torch.equal(new[ITEMS], torch.from_numpy(facts[name][1]))
