import threading

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.ranking import Filter, ItemTable, Ranking, plain, rank_means, rank_means_many

from . import naive

FILTERS = {
    "none": Filter(),
    "exclusions": Filter(exclude=np.arange(0, 300, 3)),
    "a long allow list": Filter(allow=np.arange(0, 300, 2), exclude=[0, 2, 4]),
    "a short allow list": Filter(allow=[7, 3, 250, 3], exclude=[3]),
    "caps": Filter(caps=[1, 2, 0, -1]),
    "caps below k": Filter(caps=[1, 2, 0, 1]),
}


def expected(
    world: naive.World, profile: naive.Array, k: int, filter: Filter, relevance: str = "distance"
) -> Ranking:
    function = naive.RELEVANCES[relevance]
    spread = naive.SPREADS[relevance]
    return plain.rank_means(world.table, profile, k, filter, relevance=function, spread=spread)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("bias", [0.0, 1.0])
@pytest.mark.parametrize("relevance", naive.RELEVANCES)
def test_the_ranking_is_that_of_sorting_all_scores(name: str, bias: float, relevance: str) -> None:
    world = naive.make_world(bias=bias)
    world.table.set_available([5, 8, 100], False)
    for profile in np.random.default_rng(1).normal(size=(5, 5)):
        wanted = expected(world, profile, 12, FILTERS[name], relevance)
        found = rank_means(world.table, profile, 12, FILTERS[name], relevance=relevance)
        assert found.items.tolist() == wanted.items.tolist()
        assert np.allclose(found.scores, wanted.scores, rtol=1e-12)


@pytest.mark.parametrize("dimensions", [1, 2, 16, 25, 70])
@pytest.mark.parametrize("num_items", [1, 15, 16, 17, 1000])
@pytest.mark.parametrize("relevance", naive.RELEVANCES)
def test_any_number_of_dimensions_and_items_will_do(
    dimensions: int, num_items: int, relevance: str
) -> None:
    world = naive.make_world(num_items, dimensions)
    profile = np.full(dimensions, 0.3)
    found = rank_means(world.table, profile, 20, relevance=relevance)
    wanted = expected(world, profile, 20, Filter(), relevance)
    assert found.items.tolist() == wanted.items.tolist()


@pytest.mark.parametrize("relevance", naive.RELEVANCES)
def test_a_batch_is_ranked_as_each_profile_alone(relevance: str) -> None:
    world = naive.make_world(bias=0.5)
    profiles = np.random.default_rng(1).normal(size=(len(FILTERS) + 5, 5))
    filters = [*FILTERS.values(), *[Filter()] * 5]
    together = rank_means_many(world.table, profiles, 9, filters, relevance=relevance)
    for b, (profile, filter) in enumerate(zip(profiles, filters, strict=True)):
        alone = rank_means(world.table, profile, 9, filter, relevance=relevance)
        assert together.items[b].tolist() == alone.items.tolist()
        assert together.scores[b].tolist() == alone.scores.tolist()
    same = rank_means_many(world.table, profiles, 9, Filter(exclude=[1]), relevance=relevance)
    first = rank_means(world.table, profiles[0], 9, Filter(exclude=[1]), relevance=relevance)
    assert same.items[0].tolist() == first.items.tolist()


def test_an_empty_batch_has_no_rankings() -> None:
    world = naive.make_world(20)
    assert rank_means_many(world.table, np.empty((0, 5)), 3).items.shape == (0, 3)


def test_of_equal_scores_the_lower_number_comes_first() -> None:
    means = np.repeat(np.random.default_rng(0).normal(size=(50, 3)), 8, axis=0)[::-1]
    table = ItemTable.create(means, np.zeros((400, 3)), np.zeros(400), np.zeros(400, int))
    found = rank_means(table, [0.1, 0.2, 0.3], 12).items.tolist()
    first = found[0]
    assert first % 8 == 0
    assert found[:8] == list(range(first, first + 8))
    assert found[8:] == list(range(found[8], found[8] + 4))
    assert found[8] % 8 == 0


def test_fewer_items_than_asked_for_leave_positions_empty() -> None:
    world = naive.make_world(10)
    world.table.set_available(np.arange(4), False)
    found = rank_means(world.table, np.zeros(5), 8)
    assert sorted(found.items[:6]) == list(range(4, 10))
    assert found.items[6:].tolist() == [-1, -1]
    assert found.scores[6:].tolist() == [-np.inf, -np.inf]
    world.table.set_available(np.arange(10), False)
    assert rank_means(world.table, np.zeros(5), 2).items.tolist() == [-1, -1]


def test_floats_only_screen_and_doubles_decide() -> None:
    # The 200 items differ by less than a float can tell.
    means = np.zeros((200, 2), np.float32)
    means[:, 0] = 1000
    means[:, 1] = np.random.default_rng(0).permutation(200) * 1e-3
    table = ItemTable.create(means, np.zeros((200, 2)), np.zeros(200), np.zeros(200, int))
    found = rank_means(table, [0.0, 0.0], 200).items
    assert (np.diff(means[found, 1]) > 0).all()


def test_the_screen_of_dot_products_lets_pass_what_doubles_would_rank() -> None:
    # Sums of floats lose the last digits of 1000 and -1000, in which the products differ.
    rng = np.random.default_rng(0)
    means = rng.normal(size=(4000, 24)).astype(np.float32)
    means[:, :12] = 1000 + 1e-4 * rng.normal(size=(4000, 1))
    means[:, 12:] = -means[:, :12] + 1e-3 * rng.normal(size=(4000, 12)).astype(np.float32)
    table = ItemTable.create(means, np.zeros((4000, 24)), np.zeros(4000), np.zeros(4000, int))
    scores = means.astype(np.float64).sum(1)
    found = rank_means(table, np.ones(24), 20, relevance="dot")
    assert found.items.tolist() == np.argsort(-scores, kind="stable")[:20].tolist()


def test_a_profile_of_zero_leaves_biases_to_rank_and_ties_to_the_number() -> None:
    world = naive.make_world()
    rows = np.array([250, 40])
    world.table.put(rows, world.table.means_of(rows), world.table.scales_of(rows), [1.0, 1.0])
    found = rank_means(world.table, np.zeros(5), 5, relevance="dot")
    assert found.items.tolist() == [40, 250, 0, 1, 2]


def test_an_unknown_relevance_is_refused() -> None:
    with pytest.raises(SlatewiseError, match="the relevance 'cosine'"):
        rank_means(naive.make_world(20).table, np.zeros(5), 3, relevance="cosine")


def test_two_threads_get_what_one_gets() -> None:
    world = naive.make_world(3000)
    profiles = np.random.default_rng(2).normal(size=(40, 5))
    alone = [rank_means(world.table, profile, 10).items.tolist() for profile in profiles]
    found: dict[int, list[int]] = {}

    def serve(start: int) -> None:
        for b in range(start, 40, 2):
            found[b] = rank_means(world.table, profiles[b], 10).items.tolist()

    threads = [threading.Thread(target=serve, args=(start,)) for start in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [found[b] for b in range(40)] == alone


@pytest.mark.parametrize(
    ("profile", "k", "filter", "problem"),
    [
        ([0, 0, np.nan, 0, 0], 3, Filter(), "not finite"),
        ([0, 0], 3, Filter(), "shape"),
        (np.zeros(5), 0, Filter(), "ranking of 0"),
        (np.zeros(5), 3, Filter(exclude=[20]), "no item 20"),
        (np.zeros(5), 3, Filter(allow=[-1]), "no item -1"),
        (np.zeros(5), 3, Filter(exclude=[1.5]), "whole numbers"),
        (np.zeros(5), 3, Filter(caps=[1, 2]), "caps for 2 groups"),
        (np.zeros(5), 3, Filter(caps=[1, 2, -2, 3]), "Caps must be"),
    ],
)
def test_what_cannot_be_ranked_is_refused(
    profile: naive.Array, k: int, filter: Filter, problem: str
) -> None:
    world = naive.make_world(20)
    with pytest.raises(SlatewiseError, match=problem):
        rank_means(world.table, profile, k, filter)


def test_a_batch_needs_a_filter_for_each_profile() -> None:
    world = naive.make_world(20)
    with pytest.raises(SlatewiseError, match="2 filters for 3 profiles"):
        rank_means_many(world.table, np.zeros((3, 5)), 2, [Filter(), Filter()])
