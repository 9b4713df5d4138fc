"""What the network adds to a utility, what it reads of items, and whom it is fitted to."""

from collections.abc import Iterator
from dataclasses import fields, replace
from datetime import date
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from torch import Tensor

from slatewise import ModelConfig
from slatewise.data import SlateDataset
from slatewise.features.past import PastFeatures, PastTable
from slatewise.model.network import fitting, inputs
from slatewise.model.network.architecture import SlateInputs, SlateNetwork, log_sums
from slatewise.model.network.candidates import ALWAYS
from slatewise.model.network.fitting import Choices
from slatewise.model.network.inputs import catalogue_rows, in_parts, log_to_fit, with_further
from slatewise.model.terms import network as module
from slatewise.model.terms.network import NetworkTerm, _fitted
from slatewise.training import trainer
from tests.contract.world import ITEMS, small_log
from tests.features.logs import random_log

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
        pl.Series("day", [date(2024, 1, 1)] * ITEMS),
        pl.Series("image", [[0.0] * 65] * ITEMS),
    )
    term = NetworkTerm.fit(quick, log)
    said = "\n".join(term.notes)
    assert "reads these columns of the items: price." in said
    assert "'day': values of type Date" in said
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
