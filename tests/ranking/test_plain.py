"""Ranking by any function is held to scoring, drawing and sorting everything at once."""

from typing import Any

import numpy as np
import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.ranking import (
    Additions,
    Filter,
    plain,
    rank_draws,
    rank_expected,
    rank_means,
    rank_means_many,
)
from slatewise.ranking.filters import NO_FILTER

from . import naive
from .laws import DRAWS, Case, K, assert_same_counts, reference


def steps(profiles: naive.Array, vectors: naive.Array) -> naive.Array:
    """Return a relevance that no loop knows: the number of steps along the axes, less than 0."""
    result: naive.Array = -np.abs(profiles[:, None] - vectors).sum(-1)
    return result


def make_world() -> naive.World:
    world = naive.with_bias_scales(naive.make_world(bias=0.5, scale=0.4), 0.3)
    world.table.set_features(np.random.default_rng(5).normal(size=(300, 2)))
    world.table.set_available([12], False)
    return world


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let 300 items be several blocks, the last of them not full."""
    monkeypatch.setattr(plain, "_BLOCK", 64)


@pytest.mark.parametrize(
    "filter", [NO_FILTER, Filter([5], None, [2, 3, 1, -1]), Filter([8], [8, 20, 24, 60])]
)
def test_means_are_ranked_by_sorting_all_scores(filter: Filter) -> None:
    world, rng = make_world(), np.random.default_rng(0)
    profiles = rng.normal(size=(3, 5)).astype(np.float32)
    given = [Additions([0.3, -1], [20, 8], [2, 1]), Additions(), Additions([0.5, 0.5])]
    many = rank_means_many(world.table, profiles, 10, filter, given, relevance=steps)
    for j, additions in enumerate(given):
        scores = steps(profiles[j : j + 1].astype(float), world.means) + world.biases
        scores = scores + naive.added_scores(world, additions, 1)
        wanted = naive.top(scores, world.groups, 10, filter, world.table.available)
        alone = rank_means(world.table, profiles[j], 10, filter, additions, relevance=steps)
        assert alone.items.tolist() == many.items[j].tolist() == wanted.items[0].tolist()
        assert np.allclose(alone.scores, wanted.scores[0], rtol=1e-12)


def test_of_equal_scores_the_lower_number_comes_first() -> None:
    world = naive.make_world(20)
    found = plain.rank_means(
        world.table, np.zeros(5), 4, relevance=lambda z, v: np.zeros((len(z), len(v)))
    )
    assert found.items.tolist() == [0, 1, 2, 3]


def test_draws_have_the_law_of_drawing_everything_at_once() -> None:
    world, rng = make_world(), np.random.default_rng(7)
    profiles = (rng.normal(size=5) + 0.1 * rng.normal(size=(DRAWS, 5))).astype(np.float32)
    known = np.array([3, 100, 299])
    vectors = np.asarray(profiles[:, None] + rng.normal(size=(DRAWS, 3, 5)), np.float64)
    more = Additions(rng.normal(size=(DRAWS, 2)), [7], np.ones((DRAWS, 1)))
    case = Case(world, profiles, Filter(caps=[2, 2, 1, -1]), known, vectors, more, "dot")
    request = profiles, K, case.filter, known, vectors, more
    found = [
        rank_draws(world.table, *request[:2], seed, *request[2:], relevance=naive.dots).items
        for seed in range(100)
    ]
    assert_same_counts(np.concatenate(found), reference(case).items[: 100 * DRAWS])


def test_the_same_seed_gives_the_same_draws_and_another_one_others() -> None:
    world, profiles = make_world(), np.ones((3, 5))
    one, again, other = (
        rank_draws(world.table, profiles, K, seed, relevance=steps) for seed in (5, 5, 6)
    )
    assert one.scores.tolist() == again.scores.tolist()
    assert one.scores.tolist() != other.scores.tolist()
    assert len(np.unique(one.scores[:, 0])) == 3  # every draw is one of its own


def test_expected_relevance_is_the_mean_over_draws() -> None:
    world, profiles = make_world(), np.full((2, 5), [[0.5], [0.2]])
    given = Additions(np.full((2, 2), 0.1), [4], [[1.0], [2.0]])
    exact = rank_expected(world.table, profiles, 300, additions=given, relevance="dot")
    found = rank_expected(world.table, profiles, 300, additions=given, relevance=naive.dots)
    order = np.argsort(exact.items[:299]), np.argsort(found.items[:299])
    # 100 draws of a standard deviation up to about .5, in the log: errors of a few percent.
    ratios = found.scores[order[1]] / exact.scores[order[0]]
    assert abs(np.log(ratios).mean()) < 0.01
    assert np.log(ratios).std() < 0.1
    assert found.items[299] == exact.items[299] == -1


def test_a_function_of_tensors_ranks_arrays() -> None:
    world, profile = make_world(), np.full(5, 0.3)
    function: Any = lambda z, v: -torch.cdist(z, v, p=1)  # noqa: E731
    found = rank_means(world.table, profile, 10, relevance=plain.of_tensors(function))
    assert (
        found.items.tolist() == rank_means(world.table, profile, 10, relevance=steps).items.tolist()
    )


@pytest.mark.parametrize(
    ("function", "problem"),
    [
        (lambda z, v: np.zeros(len(v)), r"has the shape \[64\]"),
        (lambda z, v: np.full((len(z), len(v)), np.nan), "not a number"),
    ],
)
def test_a_function_that_cannot_rank_is_refused(function: Any, problem: str) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        rank_means(make_world().table, np.zeros(5), 3, relevance=function)
