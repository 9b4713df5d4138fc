"""The baselines: the contract, their counts, and how they order."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from hypothesis import given

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import (
    COUNTING,
    BaseRate,
    CoClick,
    Popularity,
    Predictions,
    SmoothedCTR,
    evaluate,
    fit_baselines,
    target_ranks,
    top_items,
)
from slatewise.evaluation import counts as counts_module
from slatewise.evaluation.baselines import counting as counting_module
from slatewise.evaluation.baselines.counting import Choice
from slatewise.evaluation.counts import Counts, Successions, last_clicked
from slatewise.evaluation.predictions import Slates
from slatewise.features import threads
from slatewise.features.item_rates import beta_by_moments
from slatewise.simulation import load_config, write_log
from tests.evaluation.contract import RecommenderContract
from tests.evaluation.drawing import random_interactions, seeds


class TestBaseRate(RecommenderContract):
    knows_items: ClassVar[bool] = False

    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        return BaseRate.fit(dataset)


class TestPopularity(RecommenderContract):
    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        return Popularity.fit(dataset)


class TestSmoothedCTR(RecommenderContract):
    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        return SmoothedCTR.fit(dataset)


class TestCoClick(RecommenderContract):
    follows_clicks: ClassVar[bool] = True

    @classmethod
    def fit(cls, dataset: SlateDataset) -> Any:
        return CoClick.fit(dataset)


@given(seed=seeds)
def test_the_last_click_is_strictly_before(seed: int) -> None:
    data = random_interactions(np.random.default_rng(seed))
    found = last_clicked(data)
    for user in range(data.num_users):
        last = -1
        for n in range(int(data.user_offsets[user]), int(data.user_offsets[user + 1])):
            assert found[n] == last
            last = int(data.clicked_items[n]) if data.clicks[n] >= 0 else last


def test_training_alone_is_counted(toy: SlateDataset) -> None:
    counts = Counts.of(toy, np.arange(toy.num_users))
    clicks, views, pairs = np.zeros(24, dtype=int), np.zeros(24, dtype=int), {}
    for user in range(toy.num_users):
        last = None
        for n in range(toy.train_end[user]):
            at = toy.user_offsets[user] + n
            slate = toy.slate_items[toy.slate_offsets[at] : toy.slate_offsets[at + 1]]
            views[slate] += 1
            if toy.clicks[at] >= 0:
                item = int(slate[toy.clicks[at]])
                clicks[item] += 1
                if last is not None:
                    pairs[last * 24 + item] = pairs.get(last * 24 + item, 0) + 1
                last = item
    assert (counts.clicks.tolist(), counts.views.tolist()) == (clicks.tolist(), views.tolist())
    kept = counts.successions
    assert dict(zip(kept.keys.tolist(), kept.counts.tolist(), strict=True)) == pairs
    half, other = (Counts.of(toy, users) for users in np.split(np.arange(toy.num_users), [100]))
    left = counts - half
    assert np.array_equal(left.clicks, other.clicks)
    assert np.array_equal(left.views, other.views)
    for name in ("keys", "counts", "starts"):
        found, wanted = (getattr(one.successions, name) for one in (left, other))
        assert np.array_equal(found, wanted)


@given(seed=seeds)
def test_co_click_ranks_agree_with_scoring_every_item(seed: int) -> None:
    """Many ties: small counts over few items."""
    rng = np.random.default_rng(seed)
    items = 9
    keys = rng.integers(0, items * items, 25)
    successions = Successions.of(keys, items)
    clicks = rng.integers(0, 3, items)
    model = CoClick(Counts(clicks, clicks * 2, successions), Choice(1.0, 0.0, np.zeros(2)))
    data = random_interactions(rng, items=items)
    clicked = data.clicks >= 0
    last = last_clicked(data)[clicked.numpy()]
    targets = data.clicked_items[clicked]
    order = torch.from_numpy(model.order)
    index = torch.from_numpy(model.rank_of)

    def score(rows: slice) -> torch.Tensor:
        every = np.tile(model.order, (len(last[rows]), 1))
        return torch.from_numpy(
            np.stack(
                [
                    model._joint(np.full(items, one), row)
                    for one, row in zip(last[rows], every, strict=True)
                ]
            )
        )

    everything = torch.ones_like(clicked)
    ranks = model.target_ranks(data, everything)
    if len(targets):
        direct = target_ranks(score, index[targets.long()], items, cells=30)
        assert ranks.tolist() == direct.tolist()
        best = order[top_items(score(slice(None)), 4)]
        users = np.repeat(np.arange(data.num_users), np.diff(data.user_offsets.numpy()))
        rows = np.flatnonzero(clicked.numpy())
        steps = torch.from_numpy(rows) - data.user_offsets[users[rows]]
        before = data.of_users(torch.from_numpy(users[rows]), steps)
        assert model.rank(before, 4).tolist() == best.tolist()


def test_counting_in_threads_changes_nothing(
    toy: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    users, before = np.arange(toy.num_users), torch.get_num_threads()
    whole = Counts.of(toy, users)
    for module in (counts_module, threads):
        monkeypatch.setattr(module, "ROWS", 100)
    torch.set_num_threads(3)
    try:
        divided = Counts.of(toy, users)
    finally:
        torch.set_num_threads(before)
    assert np.array_equal(divided.views, whole.views)
    assert np.array_equal(divided.clicks, whole.clicks)
    assert np.array_equal(divided.successions.counts, whole.successions.counts)


def test_co_clicks_rank_the_same_in_threads(
    toy: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, before = toy.interactions(), torch.get_num_threads()
    model, everything = CoClick.fit(toy), torch.ones(len(data.clicks), dtype=torch.bool)
    ranks, best = model.target_ranks(data, everything), model.rank(data, 3)
    monkeypatch.setattr(counting_module, "_ROWS", 10)
    torch.set_num_threads(3)
    try:
        assert len(counting_module._parts(len(best))) == 3
        assert torch.equal(model.target_ranks(data, everything), ranks)
        assert torch.equal(model.rank(data, 3), best)
    finally:
        torch.set_num_threads(before)


@given(seed=seeds)
def test_the_beta_prior_is_recovered(seed: int) -> None:
    """Mean within 10 %, strength within a factor 1.5, from 3,000 items of 1 to 200 views."""
    rng = np.random.default_rng(seed)
    mean, strength = rng.uniform(0.05, 0.4), rng.uniform(5, 60)
    views = rng.integers(1, 200, 3_000)
    clicks = rng.binomial(views, rng.beta(mean * strength, (1 - mean) * strength, 3_000))
    found, found_strength = beta_by_moments(clicks, views)
    assert found == pytest.approx(mean, rel=0.1)
    assert strength / 1.5 < found_strength < strength * 1.5


def test_priors_of_hardly_any_data_are_finite() -> None:
    for clicks, views in (([0, 0], [0, 0]), ([1, 0], [1, 0]), ([0, 0], [5, 5]), ([1, 1], [1, 1])):
        mean, strength = beta_by_moments(np.array(clicks), np.array(views))
        assert 0 < mean < 1
        assert 0 < strength < np.inf


def test_a_choice_is_recovered() -> None:
    """Scale, growth and offsets within 0.1 from 40,000 simulated choices."""
    rng = np.random.default_rng(4)
    lengths = rng.integers(1, 9, 40_000)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    slates = Slates(
        users=np.arange(len(lengths)),
        sources=rng.integers(0, 2, len(lengths)).astype(np.uint8),
        clicks=np.full(len(lengths), -1, dtype=np.int32),
        offsets=offsets,
        items=np.zeros(offsets[-1], dtype=np.int32),
    )
    scores = rng.normal(size=offsets[-1])
    truth = Choice(0.7, 0.5, np.array([0.3, -0.8]))
    utilities = 0.7 * scores + rng.gumbel(size=len(scores))
    no_click = truth.offsets[slates.sources] + 0.5 * np.log(lengths) + rng.gumbel(size=len(lengths))
    for n in range(len(lengths)):
        row = utilities[offsets[n] : offsets[n + 1]]
        slates.clicks[n] = row.argmax() if row.max() > no_click[n] else -1
    found = Choice.fit(slates, scores, 2)
    assert found.scale == pytest.approx(truth.scale, abs=0.1)
    assert found.growth == pytest.approx(truth.growth, abs=0.1)
    assert np.allclose(found.offsets, truth.offsets, atol=0.1)
    assert Choice.fit(slates, -scores, 2).scale == 0


@pytest.mark.parametrize("truth", ["paper", "outside"])
def test_baselines_order_sensibly_in_the_simulator(tmp_path: Path, truth: str) -> None:
    """Clicks per view tell more than nothing, where items differ in quality and where not.

    Popularity is what the marketplace exposes: best of the static ones at naming next clicks, and
    inside a slate worth little or nothing.
    """
    write_log(load_config("tiny", truth=truth, users=900), tmp_path / "log")
    dataset = prepare(
        tmp_path / "log" / "log.parquet",
        tmp_path / "log" / "items.parquet",
        tmp_path / "set",
        division=SplitConfig(test_share=0.2, valid_share=0.05),
    )
    results = {name: evaluate(one, dataset) for name, one in fit_baselines(dataset).items()}
    gain = results["smoothed CTR"]["log_likelihood"] - results["base rate"]["log_likelihood"]
    assert gain.low > 0
    # A fitted scale can lose a little out of sample, not more.
    for name in ("popularity", "co-click"):
        less = results[name]["log_likelihood"] - results["base rate"]["log_likelihood"]
        assert less.value > -0.005
    recall = {kind.name: results[kind.name]["recall@20"].value for kind in COUNTING}
    assert recall["co-click"] > recall["popularity"] > recall["base rate"]
    assert results["base rate"]["in_slate_auc"].value == 0.5


def test_one_user_is_enough(write_log: Any, tmp_path: Path) -> None:
    rows = [
        {"user_id": 1, "time": t, "slate": [1, 2], "click": 1, "source": "search"} for t in range(4)
    ]
    log, items = write_log(rows)
    dataset = prepare(
        log, items, tmp_path / "set", division=SplitConfig(test_share=0, valid_share=0)
    )
    for baseline in fit_baselines(dataset).values():
        result = evaluate(baseline, dataset, part="training", resamples=10)
        assert np.isfinite(result["log_likelihood"].value)


class Peeking(CoClick):
    """Takes the click that is to be predicted for the last one."""

    def predict(self, interactions: Interactions, scored: torch.Tensor) -> Predictions:
        slates = Slates.of(interactions, scored)
        last = interactions.clicked_items[scored].numpy().astype(np.int64)
        return self.choice.predict(slates, np.log(self.slate_scores(slates, last)))


def test_the_contract_finds_a_leak(toy: SlateDataset) -> None:
    contract = RecommenderContract()
    world = random_interactions(np.random.default_rng(11), users=12, items=24, sources=1)
    with pytest.raises(AssertionError):
        contract.test_nothing_at_or_after_an_interaction_changes_its_prediction(
            Peeking.fit(toy), world
        )
