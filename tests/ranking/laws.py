"""Whether rankings of draws have the law of drawing everything: two samples are compared.

Counts by item give Σ (a − b)² / (a + b), which has a mean of one for each item when both have the
same law; six standard deviations above that mean are refused.
"""

import math
from typing import Any, NamedTuple

import numpy as np

from slatewise.ranking import Additions, Filter, Ranking, rank_draws
from slatewise.ranking.additions import NO_ADDITIONS
from slatewise.ranking.filters import NO_FILTER

from . import naive

K, DRAWS, REQUESTS = 5, 40, 250


class Case(NamedTuple):
    """A request that is repeated."""

    world: naive.World
    profiles: naive.Array
    filter: Filter = NO_FILTER
    known: Any = ()
    vectors: Any = None
    additions: Additions = NO_ADDITIONS
    relevance: str = "distance"


def engine(case: Case, requests: int = REQUESTS) -> Ranking:
    """Return the rankings of many requests, [requests * J, K]."""
    world, profiles, *request, relevance = case
    found = [
        rank_draws(world.table, profiles, K, seed, *request, relevance=relevance)
        for seed in range(requests)
    ]
    return Ranking(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def reference(case: Case) -> Ranking:
    """Return as many rankings by drawing everything."""
    world, rng, found = case.world, np.random.default_rng(1), []
    for _ in range(REQUESTS):
        scores = naive.draw_scores(world, case.profiles, rng, *case[3:])
        found.append(naive.top(scores, world.groups, K, case.filter, world.table.available))
    return Ranking(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def assert_same_counts(found: naive.Array, wanted: naive.Array) -> None:
    a, b = (np.bincount(items[items >= 0], minlength=300) for items in (found, wanted))
    assert ((a == 0) | (b > 0) | (a < 20)).all()
    seen = a + b >= 20
    excess = (np.square(a - b)[seen] / (a + b)[seen]).sum() - seen.sum()
    assert excess <= 6 * math.sqrt(2 * seen.sum())


def assert_same_law(found: naive.Array, wanted: naive.Array) -> None:
    """Compare two samples by Kolmogorov and Smirnov's distance; it fails one time in 10,000."""
    points = np.sort(np.concatenate([found, wanted]))
    shares = [np.searchsorted(np.sort(sample), points, "right") for sample in (found, wanted)]
    distance = np.abs(shares[0] / len(found) - shares[1] / len(wanted)).max()
    assert distance < 2.23 * math.sqrt(1 / len(found) + 1 / len(wanted))


def assert_draws_like_everything(case: Case) -> None:
    """Compare items, items at each rank, and the best and last score with drawing everything."""
    found, wanted = engine(case), reference(case)
    assert_same_counts(found.items, wanted.items)
    for rank in range(K):
        assert_same_counts(found.items[:, rank], wanted.items[:, rank])
    last = (wanted.items[0] >= 0).sum() - 1
    for rank in (0, last):  # rounded, for a known score comes again and again
        assert_same_law(found.scores[:, rank].round(9), wanted.scores[:, rank].round(9))
    assert ((found.items >= 0).sum(1) == last + 1).all()
