"""Uncertain biases, weights and offsets are held to drawing and sorting everything too."""

import math
from typing import Any

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.ranking import (
    Additions,
    Filter,
    ItemTable,
    plain,
    rank_draws,
    rank_expected,
    rank_means,
    rank_means_many,
)
from slatewise.ranking.filters import NO_FILTER

from . import naive
from .laws import DRAWS, Case, K, assert_draws_like_everything

ITEMS = 300


def case(
    bias_sd: Any = 0.0,
    scale: float = 0.2,
    bias: float = 0.3,
    around: float = 0.0,
    filter: Filter = NO_FILTER,
) -> Case:
    """Make a request among items that are bias_sd of their biases, [I] or all alike."""
    world = naive.with_bias_scales(naive.make_world(scale=scale, bias=bias), bias_sd)
    rng = np.random.default_rng(7)
    profiles = rng.normal(size=5) * 0.5 + around * rng.normal(size=(DRAWS, 5))
    return Case(world, profiles.astype(np.float32), filter)


def cold_items() -> Case:
    bias_sd = np.full(ITEMS, 0.05)
    bias_sd[::10], bias_sd[1::10] = 1.5, 0
    return case(bias_sd, 0.1)


def hopeless_biases() -> Case:
    """Make items most of which have a bias below any score that gets in, but might not."""
    world = naive.make_world(scale=0.2)
    biases = np.where(np.arange(ITEMS) % 20, -6, 0).astype(np.float32)
    bias_sd = np.where(np.arange(ITEMS) % 3, 1.2, 0.3)
    world = naive.with_bias_scales(world._replace(biases=biases), bias_sd)
    return Case(world, np.zeros((DRAWS, 5), np.float32))


def features(seed: int = 5, count: int = 3) -> naive.Array:
    """Return features [I, P] of both signs, the last of them rare."""
    values = np.random.default_rng(seed).normal(size=(ITEMS, count))
    values[:, -1] *= np.arange(ITEMS) % 7 == 0
    return values.astype(np.float32)


def weighted(case: Case, spread: float, filter: Filter = NO_FILTER) -> Case:
    """Give the items features and the draws weights that differ so much."""
    case.world.table.set_features(features())
    weights = [0.5, -0.4, 0.8] + spread * np.random.default_rng(6).normal(size=(DRAWS, 3))
    return case._replace(additions=Additions(weights), filter=filter)


def with_offsets(case: Case) -> Case:
    """Know some vectors and offset some items: known, excluded, unavailable, near and far."""
    gaps = np.square(case.world.means - case.profiles[0]).sum(1)
    order, rng = np.argsort(gaps), np.random.default_rng(3)
    known = order[[0, 3, 8, 200]]
    vectors = rng.normal(case.world.means[known], 0.3, (DRAWS, 4, 5))
    items = order[[3, 200, 1, 2, 5, 6, 60, 250, 299]]
    case.world.table.set_available(order[[2]], False)
    excluded = np.concatenate([np.asarray(case.filter.exclude, int), order[[5]]])
    offsets = rng.normal([0.5, 1.5, -0.5, 3, 3, -4, 0.6, 1.2, 2.5], 0.3, (DRAWS, 9))
    return case._replace(
        filter=Filter(excluded, case.filter.allow, case.filter.caps),
        known=known,
        vectors=vectors,
        additions=Additions(case.additions.weights, items, offsets),
    )


CASES = {
    "biases hardly unsure": case(0.02),
    "biases a little unsure": case(0.1),
    "biases as unsure as vectors": case(0.4),
    "biases unsure above all": case(2.0, 0.05),
    "cold items": cold_items(),
    "certain vectors": case(0.3, 0.0),
    "biases below all that gets in": hopeless_biases(),
    "profiles that differ": case(0.2, around=0.3),
    "caps": case(0.3, filter=Filter(caps=[1, 2, 0, -1])),
    "equal weights": weighted(case(), 0.0),
    "weights that differ": weighted(case(), 0.3),
    "offsets": with_offsets(case()),
    "all terms": with_offsets(weighted(case(0.3, around=0.1), 0.2)),
    "all terms and caps": with_offsets(weighted(case(0.3), 0.2, Filter(caps=[1, 1, 1, 1]))),
    "all terms, a long allow list": with_offsets(
        weighted(case(0.3, around=0.1), 0.2, Filter(allow=np.arange(0, ITEMS, 2)))
    ),
    "all terms, a short allow list": weighted(
        case(0.4, 0.6), 0.3, Filter(allow=[9, 4, 200, 77], exclude=[9])
    ),
}


DOT = [
    "biases hardly unsure",
    "biases unsure above all",
    "biases below all that gets in",
    "certain vectors",
    "weights that differ",
    "offsets",
    "all terms",
    "all terms and caps",
    "all terms, a short allow list",
]


@pytest.mark.parametrize("name", CASES)
def test_rankings_have_the_law_of_drawing_everything(name: str) -> None:
    assert_draws_like_everything(CASES[name])


@pytest.mark.parametrize("name", DOT)
def test_rankings_by_dot_product_have_the_law_of_drawing_everything(name: str) -> None:
    assert_draws_like_everything(CASES[name]._replace(relevance="dot"))


@pytest.mark.parametrize("behind", [True, False])
def test_rare_items_come_as_often_as_they_should(behind: bool) -> None:
    # One certain item with the score -1 or 0, and others that exceed it with a probability of
    # 1e-6 each, by their bias and their vector together or, in the same place, by the bias alone.
    items, draws, requests, away = 50_000, 1000, 4, 4.75
    scales, bias_sd = (0.03, 0.04) if behind else (0.0, 0.05)
    means, biases = np.full((items, 1), 1 + 0.05 * away if behind else 0.0), np.zeros(items)
    wide, sure = np.full((items, 1), scales), np.full(items, bias_sd)
    means[0], wide[0], sure[0] = float(behind), 0, 0
    biases[1:] = 0 if behind else -0.05 * away
    table = ItemTable.create(means, wide, biases, np.zeros(items, int), bias_scales=sure)
    gap = np.float64(table.means_of([1])[0, 0]) - behind - np.float64(table.biases_of([1])[0])
    total = math.hypot(table.scales_of([1])[0, 0], table.bias_scales_of([1])[0])
    chance = math.erfc(gap / total / math.sqrt(2)) / 2
    seen = sum(
        (rank_draws(table, np.zeros((draws, 1)), 1, seed).items != 0).sum()
        for seed in range(requests)
    )
    wanted = requests * draws * -math.expm1((items - 1) * math.log1p(-chance))
    assert wanted > 100
    assert abs(seen - wanted) < 4 * math.sqrt(wanted)


def test_what_adds_nothing_changes_nothing() -> None:
    plain = naive.make_world(scale=0.4, bias=0.3)
    table = naive.with_bias_scales(plain, 0.0).table
    table.set_features(features())
    profiles = np.random.default_rng(0).normal(size=(DRAWS, 5)) * 0.1
    for seed in range(20):
        alone, found = (
            rank_draws(plain.table, profiles, K, seed),
            rank_draws(table, profiles, K, seed),
        )
        assert alone.items.tolist() == found.items.tolist()
        assert alone.scores.tolist() == found.scores.tolist()


def test_ties_are_ranked_by_number_whatever_made_the_score() -> None:
    # Means [I] at -x, biases, features and offsets of powers of two: sums without rounding.
    count = 64
    quarter = np.arange(count) % 4
    table = ItemTable.create(
        np.zeros((count, 2)), np.zeros((count, 2)), quarter == 0, np.zeros(count)
    )
    table.set_features(((quarter == 1) * 2.0)[:, None])
    apart = np.flatnonzero(quarter == 2)
    for k in (5, 48, count):
        one = Additions([0.5], apart, np.ones(len(apart)))
        greedy = rank_means(table, np.zeros(2), k, additions=one)
        each = Additions(np.full((6, 1), 0.5), apart, np.ones((6, len(apart))))
        found = rank_draws(table, np.zeros((6, 2)), k, 0, additions=each)
        best = [*np.flatnonzero(quarter < 3), *np.flatnonzero(quarter == 3)][:k]
        assert greedy.items.tolist() == best
        assert (found.items == best).all()


@pytest.mark.parametrize(
    "filter", [NO_FILTER, Filter([5], None, [2, 3, 1, -1]), Filter([8], [8, 20, 24, 60])]
)
@pytest.mark.parametrize("relevance", naive.RELEVANCES)
def test_greedy_rankings_are_those_of_sorting(filter: Filter, relevance: str) -> None:
    world, rng = naive.make_world(bias=0.5, seed=4), np.random.default_rng(0)
    world.table.set_features(features())
    world.table.set_available([12], False)
    profiles, weights = rng.normal(size=(6, 5)), rng.normal(size=(6, 3))
    items = np.array([20, 8, 5, 12, 60, 61])
    offsets = rng.normal(size=(6, 6)) * 2
    additions = [Additions(w, items, o) for w, o in zip(weights[:4], offsets[:4], strict=True)]
    additions += [Additions(), Additions(weights[5])]
    many = rank_means_many(world.table, profiles, 10, filter, additions, relevance=relevance)
    function, spread = naive.RELEVANCES[relevance], naive.SPREADS[relevance]
    for b, given in enumerate(additions):
        request = world.table, profiles[b], 10, filter, given
        wanted = plain.rank_means(*request, relevance=function, spread=spread).items.tolist()
        assert many.items[b].tolist() == wanted
        assert rank_means(*request, relevance=relevance).items.tolist() == wanted


def test_expected_relevance_counts_biases_weights_and_offsets_in_full() -> None:
    world, rng = naive.with_bias_scales(naive.make_world(bias=0.3), 0.7), np.random.default_rng(0)
    world.table.set_features(features())
    profiles, weights = rng.normal(size=(3, 5)) * 0.3, 0.5 * rng.normal(size=(3, 3))
    given = Additions(weights, [4, 7, 250], rng.normal(size=(3, 3)) * 2)
    found = rank_expected(world.table, profiles, ITEMS, additions=given)
    plain = np.empty((3, ITEMS))
    for m in range(3):  # the distance alone, from a table without biases
        bare = ItemTable.create(world.means, world.scales, np.zeros(ITEMS), world.groups)
        alone = rank_expected(bare, profiles[m : m + 1], ITEMS)
        plain[m, alone.items] = alone.scores
    logs = world.biases + 0.7**2 / 2 + naive.added_scores(world, given, 3)
    wanted = (plain * np.exp(logs)).mean(0)
    assert found.items.tolist() == np.argsort(-wanted, kind="stable").tolist()
    assert np.allclose(found.scores, wanted[found.items], rtol=1e-6)
    few = rank_expected(world.table, profiles, 12, Filter(exclude=[7]), given)
    assert few.items.tolist() == [item for item in found.items if item != 7][:12]


def test_features_are_replaced_whole_or_by_rows_and_follow_the_items() -> None:
    world = naive.make_world(40)
    table, values = world.table, np.arange(80.0).reshape(40, 2)
    before = table.snapshot()[1]
    table.set_features(values)
    assert before.features.size == 0  # a request under way keeps what it began with
    table.set_features([[7, 8]], [3])
    values[3] = 7, 8
    table.append(world.means[:30], world.scales[:30], world.biases[:30], world.groups[:30])
    assert (table.features_of(np.arange(40)) == values).all()
    assert (table.features_of(np.arange(40, 70)) == 0).all()
    assert (table.take([3, 1, 50]).features_of([0, 1, 2]) == [[7, 8], values[1], [0, 0]]).all()


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (Additions([1.0]), "Weights have the shape"),
        (Additions(np.zeros((2, 3))), "Weights have the shape"),
        (Additions([1.0, np.nan, 0.0]), "not finite"),
        (Additions(items=[1]), "no offsets"),
        (Additions(items=[1, 2], offsets=[1.0]), "Offsets have the shape"),
        (Additions(items=[1, 1], offsets=[1.0, 2.0]), "two offsets"),
        (Additions(items=[ITEMS], offsets=[1.0]), "no item 300"),
    ],
)
def test_additions_that_do_not_fit_are_refused(given: Additions, problem: str) -> None:
    world = naive.make_world()
    world.table.set_features(features())
    with pytest.raises(SlatewiseError, match=problem):
        rank_means(world.table, np.zeros(5), 3, additions=given)


@pytest.mark.parametrize(
    ("values", "items"),
    [(np.zeros((5, 2)), None), (np.zeros(ITEMS), None), (np.zeros((1, 2)), [4]), ([[np.inf]], [4])],
)
def test_features_that_do_not_fit_are_refused(values: Any, items: Any) -> None:
    world = naive.make_world()
    world.table.set_features(features())
    with pytest.raises(SlatewiseError, match=r"feature|Features"):
        world.table.set_features(values, items)
