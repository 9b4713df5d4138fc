"""Models of others: each learns what is there to learn, from the strict past alone."""

import shutil
import sys
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError, install_remedy
from slatewise.evaluation import (
    COMPARATORS,
    Ranker,
    evaluate,
    fit_baselines,
    scored_interactions,
)
from slatewise.evaluation.baselines import boosting, encoders, sequences
from slatewise.evaluation.baselines.boosting import BoostedTrees
from slatewise.evaluation.baselines.encoders import NETWORKS, Settings
from slatewise.evaluation.baselines.sequences import NextClick, Windows
from tests.evaluation.contract import RecommenderContract
from tests.evaluation.drawing import random_interactions, toy_world
from tests.model.terms.logs import ITEMS, START, dataset_of


class NetworkContract(RecommenderContract):
    kind: ClassVar[str]
    tolerance = 1e-4  # single precision

    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        return NextClick.fit(NETWORKS[cls.kind], dataset)


class TestGRU4Rec(NetworkContract):
    kind, follows_clicks = "gru4rec", True


class TestSASRec(NetworkContract):
    kind, follows_clicks = "sasrec", True
    knows_items = False  # what does not come next is all the same to it


class TestBPR(NetworkContract):
    kind = "bpr"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return toy_world(tmp_path_factory.mktemp("toy") / "world", users=60)


def test_states_of_long_histories_look_back_at_least_half_a_window() -> None:
    world = random_interactions(np.random.default_rng(0), users=5, items=9)
    tiny = pytest.MonkeyPatch()
    with tiny.context() as patch:
        patch.setattr(sequences, "WINDOW", 4)
        windows = Windows.of(world)
    own = windows.lengths - windows.skipped
    assert own.sum() == len(windows.tokens)  # every state has one window
    assert windows.lengths.max() <= 4
    for number in np.flatnonzero(windows.skipped):
        assert windows.skipped[number] == 2
        assert (windows.tokens[windows.starts[number] :][: windows.lengths[number]] >= 0).all()
    clicks = (world.clicks >= 0).sum()
    assert (windows.tokens >= 0).sum() == clicks
    assert (windows.tokens < 0).sum() == world.num_users


def test_a_large_catalogue_is_learned_by_negatives(
    toy: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(encoders, "EXACT", 10)
    monkeypatch.setattr(encoders, "NEGATIVES", 12)
    found = fit_baselines(toy, ["popularity", "gru4rec"])
    scores = {name: evaluate(one, toy, resamples=20) for name, one in found.items()}
    assert list(scores) == ["popularity", "gru4rec"]
    gain = scores["gru4rec"]["mrr@20"].value - scores["popularity"]["mrr@20"].value
    assert gain > 0.15


def test_the_same_seed_gives_the_same_network(
    toy: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences, "EPOCHS", 2)
    before = torch.random.get_rng_state()
    one, two, other = (NextClick.fit(NETWORKS["bpr"], toy, seed=seed) for seed in (3, 3, 4))
    vectors = [model.encoder.targets().detach() for model in (one, two, other)]
    assert torch.equal(vectors[0], vectors[1])
    assert not torch.equal(vectors[0], vectors[2])
    assert torch.equal(torch.random.get_rng_state(), before)


def test_the_validation_part_chooses_among_settings(
    toy: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    hardly = Settings(pace=1e-6)
    good = Settings(32)
    monkeypatch.setattr(sequences, "TRIALS", (hardly, good, hardly))
    monkeypatch.setattr(sequences, "EPOCHS", 4)
    heard: list[tuple[int, int]] = []
    found = [
        NextClick.fit(NETWORKS["bpr"], toy, trials=trials, progress=lambda *one: heard.append(one))
        for trials in (1, 3)
    ]
    assert [one.encoder.settings for one in found] == [hardly, good]
    assert heard[-1] == (12, 12)


def test_trials_are_of_every_comparator(toy: SlateDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    """None is left at settings that hardly learn, if one of two is better."""
    good = Settings(32)
    monkeypatch.setattr(sequences, "TRIALS", (Settings(pace=1e-6), good))
    monkeypatch.setattr(sequences, "EPOCHS", 3)
    monkeypatch.setattr(boosting, "TRIALS", ({"learning_rate": 1e-6}, {"learning_rate": 0.1}))
    monkeypatch.setattr(boosting, "ROUNDS", 5)
    found = fit_baselines(toy, ["base rate", *COMPARATORS], trials=2)
    chosen = {n: one.encoder.settings for n, one in found.items() if isinstance(one, NextClick)}
    assert chosen == dict.fromkeys(["gru4rec", "sasrec", "bpr"], good)
    (trees,) = (one for one in found.values() if isinstance(one, BoostedTrees))
    assert trees.settings["learning_rate"] == 0.1


def test_more_settings_than_there_are_are_refused(toy: SlateDataset) -> None:
    with pytest.raises(SlatewiseError, match="9 settings") as refused:
        fit_baselines(toy, ["bpr"], trials=9)
    assert refused.value.remedy == "Ask for 1 to 8 trials."


def test_epochs_are_reported(toy: SlateDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sequences, "EPOCHS", 2)
    heard: list[tuple[str, int, int]] = []
    fit_baselines(toy, ["base rate", "bpr"], progress=lambda *one: heard.append(one))
    assert heard == [("bpr", 0, 2), ("bpr", 1, 2), ("bpr", 2, 2)]


def test_without_a_validation_click_no_network_is_trained(tmp_path: Path) -> None:
    small = toy_world(tmp_path / "world", users=2)
    with pytest.raises(SlatewiseError, match="no validation click"):
        fit_baselines(small, ["base rate", "sasrec"])


def test_a_comparator_that_is_not_there_is_refused(toy: SlateDataset) -> None:
    assert set(COMPARATORS) == {"gru4rec", "sasrec", "bpr", "lightgbm"}
    with pytest.raises(SlatewiseError, match=r"no baseline 'gru'"):
        fit_baselines(toy, ["gru"])


@pytest.fixture(scope="module")
def turned(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    """Return a log in which one source is clicked at the top, and the other at the bottom."""
    rng, rows = np.random.default_rng(0), []
    for user in range(150):
        for time in range(15):
            slate, source = rng.permutation(ITEMS)[:2].tolist(), int(rng.integers(2))
            click = slate[source] if rng.random() < 0.9 else None
            rows.append(
                {
                    "user_id": user,
                    "time": START + 60 * (15 * user + time),
                    "slate": slate,
                    "click": click,
                    "source": "ab"[source],
                }
            )
    return dataset_of(tmp_path_factory.mktemp("turned") / "log", rows)


@pytest.fixture(scope="module")
def trees(turned: SlateDataset) -> BoostedTrees:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(boosting, "ROUNDS", 120)
        return BoostedTrees.fit(turned)


def test_trees_find_what_no_sum_of_features_says(turned: SlateDataset, trees: BoostedTrees) -> None:
    logit = fit_baselines(turned, ["all features"])["all features"]
    grown, summed = (
        evaluate(one, turned, resamples=20)["log_likelihood"] for one in (trees, logit)
    )
    assert grown.value > -0.7  # of −.325, if they grew on
    assert summed.value < -0.8
    assert not isinstance(trees, Ranker)


def test_trees_begin_with_the_click_rate_where_clicks_are_rare(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    slates = [rng.permutation(ITEMS)[:2].tolist() for _ in range(2_400)]
    rows = [
        {
            "user_id": number // 12,
            "time": START + 60 * number,
            "slate": slate,
            "click": slate[0] if number % 80 == 7 else None,
            "source": "web",
        }
        for number, slate in enumerate(slates)
    ]
    rare = dataset_of(tmp_path / "log", rows)
    base, trees = (
        evaluate(one, rare, resamples=20)["log_likelihood"].value
        for one in fit_baselines(rare, ["base rate", "lightgbm"]).values()
    )
    assert base - 0.01 < trees  # of −.08; −1.1 where they never began to grow


def test_trees_read_columns_and_dates_of_items(turned: SlateDataset, tmp_path: Path) -> None:
    """As the network of a model does."""
    shutil.copytree(turned.path, tmp_path / "set")
    made = np.where(np.arange(turned.num_items) % 2, START - 3_600, START + 10**6)
    turned.items.with_columns(
        price=pl.Series(np.arange(turned.num_items) / 7), made=pl.Series(made)
    ).write_parquet(tmp_path / "set" / "items.parquet")
    log = SlateDataset.open(tmp_path / "set").interactions()
    rows = torch.ones(len(log.clicks), dtype=torch.bool)
    plain = BoostedTrees(turned, 0)._described(log, rows, None)
    found = BoostedTrees(SlateDataset.open(tmp_path / "set"), 0)._described(log, rows, None)
    # An age, how far it is below the best of its slate, and the price.
    assert found.columns.shape[1] == plain.columns.shape[1] + 3
    prices = found.slates.items / 7
    prices = (prices - prices.mean()) / prices.std()
    assert any(abs(np.corrcoef(prices, one)[0, 1]) > 0.999 for one in found.columns.T if one.std())
    times = torch.repeat_interleave(log.times, log.scroll_lengths).numpy()
    ages = np.log1p((times / 1e6 - START) / 3_600 + 1)
    odd = found.slates.items % 2 == 1
    assert any(np.allclose(one[odd], ages[odd], rtol=1e-5) for one in found.columns.T)


def test_trees_see_nothing_at_or_after_an_interaction(
    turned: SlateDataset, trees: BoostedTrees
) -> None:
    log = turned.interactions().of_users(torch.arange(20))
    whole = trees.predict(log, torch.ones(len(log.clicks), dtype=torch.bool))
    short = log.of_users(torch.arange(20), torch.full((20,), 6))
    short.clicks[5::6] = -1 - short.clicks[5::6].clamp(max=0)  # other outcomes of the last slates
    scored = torch.arange(len(short.clicks)) % 6 == 5
    rows = np.flatnonzero(np.arange(len(log.clicks)) % 15 == 5)
    expected = whole.no_click_log_probabilities[rows]
    assert np.allclose(trees.predict(short, scored).no_click_log_probabilities, expected)
    nothing = torch.zeros(len(log.clicks), dtype=torch.bool)
    assert len(trees.predict(log, nothing)) == 0


def test_the_same_seed_grows_the_same_trees(
    turned: SlateDataset, trees: BoostedTrees, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boosting, "ROUNDS", 5)
    scored, log = scored_interactions(turned, "test"), turned.interactions()
    again = [BoostedTrees.fit(turned, seed=seed).predict(log, scored) for seed in (1, 1, 2)]
    utilities = [one.log_probabilities for one in again]
    assert np.array_equal(utilities[0], utilities[1])
    assert not np.array_equal(utilities[0], utilities[2])


def test_the_validation_part_chooses_the_settings_of_trees(
    turned: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boosting, "ROUNDS", 5)
    monkeypatch.setattr(boosting, "TRIALS", ({"learning_rate": 1e-6}, {}, {"num_leaves": 2}))
    hardly, chosen = (BoostedTrees.fit(turned, trials=trials) for trials in (1, 3))
    scores = [evaluate(one, turned, resamples=20)["log_likelihood"] for one in (hardly, chosen)]
    assert scores[1].value > scores[0].value + 0.02


def test_what_is_not_installed_is_said_before_anything_is_fitted(
    toy: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "lightgbm", None)
    with pytest.raises(SlatewiseError, match="not installed") as refused:
        fit_baselines(toy, ["sasrec", "lightgbm"])
    assert refused.value.remedy == install_remedy("compare")
