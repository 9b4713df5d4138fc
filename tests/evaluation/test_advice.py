"""Advice: what a log says of its site, and which strategy pays where that is known."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.evaluation.advice import AdviceConfig, advise, predicted
from slatewise.evaluation.quality import quality_evidence
from slatewise.evaluation.site import SiteLog
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.ranking import Filter
from slatewise.training import runs

ITEMS, DAYS, SLATE = 60, 6, 5


def log_of(folder: Path, *, lives: float | None, quality: float = 0.0) -> SlateDataset:
    """Write slates of five over six days; items live for so many days, or for ever.

    Their qualities have a standard deviation; clicking nothing has the utility 2.
    """
    rng, rows = np.random.default_rng(0), []
    worth = quality * rng.standard_normal(ITEMS)
    born = np.linspace(-1, DAYS, ITEMS)
    for number in range(360):
        day = DAYS * number / 360
        alive = np.arange(ITEMS)
        if lives is not None:
            alive = alive[(born <= day) & (day < born + lives)]
        slate = rng.permutation(alive)[:SLATE].tolist()
        chances = np.exp(np.append(worth[slate], 2.0))
        choice = int(rng.choice(SLATE + 1, p=chances / chances.sum()))
        rows.append(
            {
                "user_id": number % 24,
                "time": 1_700_000_000_000_000 + int(day * 86_400e6),
                "slate": slate,
                "click": slate[choice] if choice < SLATE else None,
                "source": "search" if number % 4 == 0 else "page",
            }
        )
    table = pl.DataFrame(rows).with_columns(pl.col("time").cast(pl.Datetime("us")))
    table.write_parquet(folder / "log.parquet")
    groups = ["one" if item % 2 else "two" for item in range(ITEMS)]
    pl.DataFrame({"item_id": range(ITEMS), "group": groups}).write_parquet(folder / "items.parquet")
    return prepare(folder / "log.parquet", folder / "items.parquet", folder / "set")


def model_of(
    dataset: SlateDataset, scale: float, spread: float, terms: tuple[str, ...] = ("bias",)
) -> SlateModel:
    """Return a model whose items have biases with a spread, of which it is so uncertain."""
    config = ModelConfig(dimensions=2, dynamics="linear", terms=terms, sigma_max=4.0)
    groups = torch.from_numpy(dataset.item_groups).long()
    seeded = torch.Generator().manual_seed(0)
    sources = dataset.source_names
    posterior = Posterior(config, groups, dataset.group_names, 10, seeded, sources)
    with torch.no_grad():
        posterior.items.mean.zero_()
        drawn = torch.randn(len(groups), generator=seeded)
        posterior.items.mean[:, -1] = spread * drawn
        posterior.items.raw.fill_(float(torch.logit(torch.tensor(0.01))))
        posterior.items.raw[:, -1] = torch.logit(torch.tensor(scale / 4.0))
        posterior.shared["no_click"].mean.fill_(2.0)
        posterior.shared["initial_state"].mean.zero_()
    ids = dataset.item_ids.to_list()
    return SlateModel(posterior, ids, dataset.group_names, sources, torch.ones(len(ids)))


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return log_of(tmp_path_factory.mktemp("lasting"), lives=None)


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return log_of(tmp_path_factory.mktemp("passing"), lives=2.0)


@pytest.fixture(scope="module")
def differing(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return log_of(tmp_path_factory.mktemp("differing"), lives=None, quality=1.5)


def test_a_site_is_read_off_its_log(lasting: SlateDataset, passing: SlateDataset) -> None:
    stays = SiteLog.of(model_of(lasting, 0.5, 1.0), lasting).site
    assert (stays.source, stays.items, stays.leaving, stays.slate) == ("page", ITEMS, 0.0, SLATE)
    assert stays.days == pytest.approx(DAYS, abs=0.1)
    assert stays.slates_a_day == pytest.approx(270 / DAYS, rel=0.05)
    found = SiteLog.of(model_of(passing, 0.5, 1.0), passing)
    # An item lives for two days: about a third to a half of what is there leaves in a day.
    assert 0.3 < found.site.leaving < 0.8
    assert found.site.items < ITEMS / 2
    assert found.on_offer.min() > ITEMS / 2
    with pytest.raises(SlatewiseError, match="no slates from 'mail'"):
        SiteLog.of(model_of(lasting, 0.5, 1.0), lasting, "mail")


def test_exploring_pays_where_items_differ_and_not_where_they_are_alike(
    lasting: SlateDataset, differing: SlateDataset
) -> None:
    asked = AdviceConfig(
        strategies=("greedy", "thompson"), days=4, slates=45, repetitions=3, seed=1
    )
    unknown = advise(model_of(differing, 2.0, 0.0), differing, asked)
    assert unknown.best.strategy == "thompson"
    assert json.loads(json.dumps(unknown.to_json()))["sure"] is unknown.is_sure
    assert unknown.forecasts[1].last_day.value > 0.02
    known = advise(model_of(lasting, 0.05, 0.0), lasting, asked)
    assert known.forecasts[1].gain.value < 0.01
    assert unknown.forecasts[1].gain.value > known.forecasts[1].gain.value + 0.01


def test_an_interval_is_of_what_the_site_will_see_and_holds_one_value_more() -> None:
    # Student's quantile of two values is 12.706; one more lies √(1 + 1/2) of their spread away.
    found = predicted(np.array([0.1, 0.3]))
    assert found.value == pytest.approx(0.2)
    assert float(found.high) - 0.2 == pytest.approx(12.7062 * 0.141421 * 1.224745, rel=1e-4)
    rng = np.random.default_rng(0)
    drawn = rng.normal(size=(4_000, 6))
    held = [
        one.low < last < one.high for *five, last in drawn for one in [predicted(np.array(five))]
    ]
    assert np.mean(held) == pytest.approx(0.95, abs=0.01)
    assert np.isinf(predicted(np.ones(1)).high)


def test_the_same_seed_gives_the_same_advice(lasting: SlateDataset) -> None:
    asked = AdviceConfig(days=1, slates=5, repetitions=2)
    one, other = (advise(model_of(lasting, 0.5, 1.0), lasting, asked) for _ in range(2))
    assert one.to_json() == other.to_json()


def test_with_one_sure_item_the_forecast_is_its_probability(lasting: SlateDataset) -> None:
    model = model_of(lasting, 4e-4, 0.0, terms=())
    with torch.no_grad():
        model.posterior.items.mean.zero_()
        model.posterior.items.raw.fill_(-14.0)
        model.posterior.shared["initial_state"].mean.zero_()
        model.posterior.shared["initial_state"].raw.fill_(-14.0)
    found = advise(model, lasting, AdviceConfig(strategies=("greedy",), days=1, repetitions=2))
    # Five items with utility 0 against clicking nothing with utility 2, all of them seen.
    wanted = 5 / (5 + np.exp(2.0))
    assert found.forecasts[0].click_rate.value == pytest.approx(wanted, abs=1e-3)
    assert found.sentence == "Only greedy was asked for."
    assert found.quality is None
    assert "no item bias" in found.quality_note


@pytest.mark.parametrize(
    ("log", "least", "most"), [("differing", 1.0, 2.0), ("lasting", 0.2, 0.35)]
)
def test_the_log_says_how_much_items_differ_whatever_the_model_believes(
    log: str, least: float, most: float, request: pytest.FixtureRequest
) -> None:
    dataset: SlateDataset = request.getfixturevalue(log)
    for believed in (0.05, 1.0):
        found = quality_evidence(model_of(dataset, believed, believed), dataset)
        assert found is not None
        assert least <= found.scale <= most
        assert found.probabilities.sum() == pytest.approx(1.0)


def test_no_click_is_refitted_for_every_spread(lasting: SlateDataset) -> None:
    model = model_of(lasting, 0.5, 0.0)
    right = quality_evidence(model, lasting)
    with torch.no_grad():
        model.posterior.shared["no_click"].mean.fill_(3.0)
    wrong = quality_evidence(model, lasting)
    assert right is not None
    assert wrong is not None
    for one, other in zip(right.tried, wrong.tried, strict=True):
        assert other.no_click - one.no_click == pytest.approx(-1.0, abs=0.1)
        assert other.evidence == pytest.approx(one.evidence, abs=0.5)


def test_users_are_not_shown_again_what_they_clicked_in_the_simulation(
    lasting: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = model_of(lasting, 0.5, 0.0, terms=())
    with torch.no_grad():
        model.posterior.shared["no_click"].mean.fill_(-20.0)  # every slate is clicked
    excluded: list[int] = []

    def spied(exclude: np.ndarray) -> Filter:
        excluded.append(len(exclude))
        return Filter(exclude=exclude)

    monkeypatch.setattr("slatewise.evaluation.advice.Filter", spied)
    asked = AdviceConfig(strategies=("greedy",), days=1, slates=40, repetitions=1)
    advise(model, lasting, asked)
    clicked = np.asarray(lasting.clicks) >= 0
    users = np.repeat(np.arange(lasting.num_users), np.diff(lasting.user_offsets))
    assert max(excluded) > np.bincount(users[clicked]).max()


def test_items_come_and_go_at_the_pace_of_the_log(passing: SlateDataset) -> None:
    asked = AdviceConfig(
        days=3, slates=20, repetitions=2, strategies=("greedy", "in-slate-thompson")
    )
    found = advise(model_of(passing, 0.5, 0.5), passing, asked)
    assert len(found.forecasts) == 2
    assert all(0 < one.click_rate.value < 1 for one in found.forecasts)


def test_what_cannot_be_simulated_is_refused(lasting: SlateDataset, passing: SlateDataset) -> None:
    model = model_of(lasting, 0.5, 1.0)
    model.item_ids = model.item_ids[::-1]
    with pytest.raises(SlatewiseError, match="not those of the dataset"):
        advise(model, lasting)
    model = model_of(lasting, 0.5, 1.0)
    model.posterior.config = model.config.model_copy(update={"likelihood": "all-item"})
    with pytest.raises(SlatewiseError, match="no probability of a click"):
        advise(model, lasting)


def test_the_command_prints_the_advice(lasting: SlateDataset, tmp_path: Path) -> None:
    runs.save(model_of(lasting, 1.0, 0.5), tmp_path / "run")
    command = ["advise", str(tmp_path / "run"), str(lasting.path), "--days", "1", "--slates", "10"]
    command += ["--repetitions", "2", "--strategy", "greedy", "--strategy", "thompson"]
    shown = CliRunner().invoke(app, command)
    assert shown.exit_code == 0, shown.output
    assert "Advice: " in shown.output
    assert "60 items, of which 0.0% leave in a day" in shown.output
    assert "the quality of items has a standard deviation of 0." in shown.output
    printed = CliRunner().invoke(app, [*command, "--json"])
    assert json.loads(printed.output)["best"] in ("greedy", "thompson")
