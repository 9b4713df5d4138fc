"""Draws are held to drawing everything: the same law of items, of ranks and of scores.

Two samples are compared with fixed seeds. A wrong acceptance step (no C / B, no exp(λ(D − τ)), a
bound cut at 24 bits) fails here.
"""

import itertools
import math
import threading
from typing import Any

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.ranking import Filter, ItemTable, plain, rank_draws
from slatewise.ranking.filters import NO_FILTER

from . import naive
from .laws import (
    DRAWS,
    REQUESTS,
    Case,
    K,
    assert_draws_like_everything,
    assert_same_counts,
    engine,
    reference,
)


def case(
    scale: float = 0.2, bias: float = 0.0, around: float = 0.0, filter: Filter = NO_FILTER
) -> Case:
    world = naive.make_world(scale=scale, bias=bias)
    rng = np.random.default_rng(7)
    profiles = rng.normal(size=5) * 0.5 + around * rng.normal(size=(DRAWS, 5))
    return Case(world, profiles.astype(np.float32), filter)


def cold_items() -> Case:
    warm = case(0.1)
    scales = warm.world.scales.copy()
    scales[::10] = 1.5
    table = ItemTable.create(warm.world.means, scales, warm.world.biases, warm.world.groups)
    return warm._replace(world=warm.world._replace(scales=scales, table=table))


def certain_items() -> Case:
    original = case(0.5)
    scales = original.world.scales.copy()
    scales[::2] = 0
    scales[1::4, 2:] = 0
    table = ItemTable.create(
        original.world.means, scales, original.world.biases, original.world.groups
    )
    return original._replace(world=original.world._replace(scales=scales, table=table))


def unavailable_items() -> Case:
    all_ = case(0.3)
    gaps = np.square(all_.world.means - all_.profiles[0]).sum(1)
    all_.world.table.set_available(np.argsort(gaps)[:40], False)
    return all_


def known_items(filter: Filter = NO_FILTER) -> Case:
    original = case(0.3, around=0.1, filter=filter)
    gaps = np.square(original.world.means - original.profiles[0]).sum(1)
    known = np.argsort(gaps)[[0, 3, 8, 200]]
    vectors = np.random.default_rng(3).normal(original.world.means[known], 0.3, (DRAWS, 4, 5))
    return original._replace(known=known, vectors=vectors)


CASES = {
    "σ .05": case(0.05),
    "σ .2": case(0.2),
    "σ .5": case(0.5),
    "σ 1": case(1.0),
    "σ 4, everything is unsure": case(4.0),
    "cold items": cold_items(),
    "items without uncertainty": certain_items(),
    "biases": case(0.3, bias=0.6),
    "profiles that differ a little": case(0.2, around=0.02),
    "profiles that differ": case(0.3, bias=0.3, around=0.3),
    "profiles that differ much": case(0.1, around=1.0),
    "exclusions": case(0.3, filter=Filter(exclude=np.arange(0, 300, 2))),
    "a long allow list": case(0.3, filter=Filter(allow=np.arange(0, 300, 3), exclude=[3])),
    "a short allow list": case(0.8, filter=Filter(allow=[9, 4, 200, 77], exclude=[9])),
    "unavailable items": unavailable_items(),
    "caps": case(0.3, bias=0.3, filter=Filter(caps=[1, 2, 0, -1])),
    "caps below the size": case(0.5, around=0.2, filter=Filter(caps=[1, 0, 0, 2])),
    "known vectors": known_items(),
    "known vectors and caps": known_items(Filter(caps=[1, 1, 1, 1], exclude=[17])),
}
DOT = [
    "σ .05",
    "σ .5",
    "σ 4, everything is unsure",
    "cold items",
    "items without uncertainty",
    "biases",
    "profiles that differ a little",
    "profiles that differ much",
    "a long allow list",
    "a short allow list",
    "unavailable items",
    "caps below the size",
    "known vectors and caps",
]


@pytest.mark.parametrize("name", CASES)
def test_rankings_have_the_law_of_drawing_everything(name: str) -> None:
    assert_draws_like_everything(CASES[name])


@pytest.mark.parametrize("name", DOT)
def test_rankings_by_dot_product_have_the_law_of_drawing_everything(name: str) -> None:
    assert_draws_like_everything(CASES[name]._replace(relevance="dot"))


def test_items_of_one_ranking_are_drawn_independently() -> None:
    # Pairs that get in together: a shared random number would show here.
    found, wanted = (sample.items for sample in (engine(CASES["σ .5"]), reference(CASES["σ .5"])))
    common = np.argsort(-np.bincount(wanted.ravel(), minlength=300))[:12]
    for one, other in itertools.combinations(common, 2):
        counts = [((s == one).any(1) & (s == other).any(1)).sum() for s in (found, wanted)]
        assert abs(counts[0] - counts[1]) < 5 * math.sqrt(sum(counts) + 1)


def test_draws_of_one_request_are_independent() -> None:
    # Whether an item leads in draw j says nothing about draw j + 1.
    items = engine(CASES["σ .5"]).items[:, 0].reshape(REQUESTS, DRAWS)
    for item in np.argsort(-np.bincount(items.ravel()))[:6]:
        first = items == item
        share = first.mean()
        both = (first[:, :-1] & first[:, 1:]).mean()
        error = math.sqrt(share**2 * (1 - share**2) / first[:, 1:].size)
        assert abs(both - share**2) < 5 * error


def test_one_draw_has_the_law_of_many() -> None:
    many = CASES["σ .5"]
    single = many._replace(profiles=many.profiles[:1])
    assert_same_counts(engine(single, 5000).items, engine(many, 125).items)


def test_the_scores_are_those_of_the_vectors_known() -> None:
    case = CASES["known vectors"]
    found = rank_draws(case.world.table, case.profiles, 300, 0, Filter(), case.known, case.vectors)
    for c, item in enumerate(case.known):
        here = found.items == item
        assert (here.sum(1) == 1).all()
        wanted = -np.linalg.norm(case.profiles.astype(float) - case.vectors[:, c], axis=1)
        assert np.allclose(found.scores[here], wanted, rtol=1e-12)


def test_certain_items_are_ranked_as_means_are_and_ties_by_number() -> None:
    means = np.repeat(np.random.default_rng(0).normal(size=(200, 4)), 2, axis=0)
    table = ItemTable.create(means, np.zeros((400, 4)), np.zeros(400), np.zeros(400, int))
    profile = np.full(4, 0.25, np.float32)
    for relevance, function in naive.RELEVANCES.items():
        order = plain.rank_means(table, profile, 20, relevance=function).items
        found = rank_draws(table, np.tile(profile, (30, 1)), 20, 3, relevance=relevance)
        assert (found.items == order).all()


def test_fewer_items_than_asked_for_are_all_drawn() -> None:
    world = naive.make_world(12)
    world.table.set_available([0, 1], False)
    found = rank_draws(world.table, np.zeros((7, 5)), 20, 0, Filter(exclude=[5]))
    assert all(sorted(row[:9]) == [2, 3, 4, 6, 7, 8, 9, 10, 11] for row in found.items)
    assert (found.items[:, 9:] == -1).all()
    assert (found.scores[:, 9:] == -np.inf).all()
    assert (np.diff(found.scores[:, :9]) <= 0).all()


@pytest.mark.parametrize(
    ("scales_away", "items", "draws", "requests"),
    [(3.7, 2_000, 100, 10), (4.75, 50_000, 1000, 4), (5.6, 200_000, 1000, 80)],
)
def test_rare_items_come_as_often_as_they_should(
    scales_away: float, items: int, draws: int, requests: int
) -> None:
    # One certain item at distance 1, and others that come nearer with a probability of 1e-4, 1e-6
    # or 1e-8 each: about 200 times in all.
    means, scales = np.full((items, 1), 1 + 0.05 * scales_away), np.full((items, 1), 0.05)
    means[0], scales[0] = 1, 0
    table = ItemTable.create(means, scales, np.zeros(items), np.zeros(items, int))
    gap = np.float64(table.means_of([1])[0, 0]) - 1
    chance = math.erfc(gap / np.float64(table.scales_of([1])[0, 0]) / math.sqrt(2)) / 2
    seen = 0
    for seed in range(requests):
        seen += (rank_draws(table, np.zeros((draws, 1)), 1, seed).items != 0).sum()
    wanted = requests * draws * -math.expm1((items - 1) * math.log1p(-chance))
    assert wanted > 100
    assert abs(seen - wanted) < 4 * math.sqrt(wanted)


def test_rare_dot_products_come_as_often_as_they_should() -> None:
    # One certain item with the score 1, and others that exceed it with a probability of 1e-6 each;
    # half of the profiles are twice as long, for which the certain item scores 2.
    items, draws, requests, away = 50_000, 1000, 4, 4.75
    means, scales = np.full((items, 2), 1 - 0.05 * away), np.full((items, 2), 0.05)
    means[0], scales[0] = 1, 0
    table = ItemTable.create(means, scales, np.zeros(items), np.zeros(items, int))
    gap = 1 - np.float64(table.means_of([1])[0, 0])
    chance = math.erfc(gap / np.float64(table.scales_of([1])[0, 0]) / math.sqrt(2)) / 2
    profiles = np.zeros((draws, 2))
    profiles[:, 0] = 1 + np.arange(draws) % 2
    seen = sum(
        (rank_draws(table, profiles, 1, seed, relevance="dot").items != 0).sum()
        for seed in range(requests)
    )
    wanted = requests * draws * -math.expm1((items - 1) * math.log1p(-chance))
    assert wanted > 100
    assert abs(seen - wanted) < 4 * math.sqrt(wanted)


def test_a_hundred_thousand_draws_all_have_an_answer() -> None:
    world = naive.make_world(60, 3, 0.4, bias=0.2)
    rng = np.random.default_rng(0)
    profiles = rng.normal(size=(500, 1, 3)).astype(np.float32) * 2
    filters = [Filter(), Filter(exclude=[3, 9]), Filter(caps=[1, 1, 1, 0])]
    for seed in range(10_000):
        asked = np.repeat(profiles[seed % 500], 10, axis=0)
        found = rank_draws(world.table, asked, 4, seed, filters[seed % 3])
        assert (found.scores[:, 2] > -np.inf).all()


def test_the_same_seed_gives_the_same_rankings_and_another_one_others() -> None:
    case = CASES["σ .5"]
    one, again, other = (rank_draws(case.world.table, case.profiles, K, seed) for seed in (5, 5, 6))
    assert one.items.tolist() == again.items.tolist()
    assert one.scores.tolist() == again.scores.tolist()
    assert one.scores.tolist() != other.scores.tolist()


def test_two_threads_get_what_one_gets() -> None:
    case = CASES["profiles that differ"]

    def serve(seeds: range) -> list[list[list[int]]]:
        return [rank_draws(case.world.table, case.profiles, K, s).items.tolist() for s in seeds]

    alone, found = serve(range(60)), {}

    def half(start: int) -> None:
        found[start] = serve(range(start, 60, 2))

    threads = [threading.Thread(target=half, args=(start,)) for start in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[seed % 2][seed // 2] for seed in range(60)] == alone


def test_no_profiles_make_no_rankings() -> None:
    assert rank_draws(naive.make_world(20).table, np.empty((0, 5)), 3, 0).items.shape == (0, 3)


@pytest.mark.parametrize(
    ("request_", "problem"),
    [
        ({"profiles": [[0, np.nan, 0, 0, 0]]}, "not finite"),
        ({"profiles": np.zeros(5)}, "shape"),
        ({"known_items": [1]}, "missing or have another shape"),
        ({"known_items": [1], "known_vectors": np.zeros((1, 2, 5))}, "another shape"),
        ({"known_items": [1, 1], "known_vectors": np.zeros((1, 2, 5))}, "named twice"),
        ({"seed": -1}, "seed"),
    ],
)
def test_what_cannot_be_drawn_is_refused(request_: dict[str, Any], problem: str) -> None:
    given = {"profiles": np.zeros((1, 5)), "k": 3, "seed": 0} | request_
    with pytest.raises(SlatewiseError, match=problem):
        rank_draws(naive.make_world(20).table, **given)
