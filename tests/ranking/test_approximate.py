import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.ranking import ItemTable, rank_means

from . import naive

pytest.importorskip("faiss", reason="faiss is not installed: the approximate index is not tested")

from slatewise.ranking.approximate import ApproximateIndex


@pytest.mark.parametrize("relevance", naive.RELEVANCES)
def test_the_index_finds_nearly_what_exact_ranking_finds(relevance: str) -> None:
    world = naive.make_world(20_000, 8)
    index = ApproximateIndex(world.table, lists=100, relevance=relevance)
    profiles = np.random.default_rng(1).normal(size=(50, 8)) * 0.5
    exact = [set(rank_means(world.table, z, 10, relevance=relevance).items) for z in profiles]

    def recall(probes: int) -> float:
        found = [set(index.rank_means(z, 10, probes).items) for z in profiles]
        return float(np.mean([len(a & b) / 10 for a, b in zip(exact, found, strict=True)]))

    assert recall(100) == 1
    assert recall(20) > 0.9
    assert recall(1) < recall(20)


@pytest.mark.parametrize("relevance", naive.RELEVANCES)
def test_its_scores_are_those_of_exact_ranking(relevance: str) -> None:
    world, profile = naive.make_world(5_000, 8), np.full(8, 0.1)
    index = ApproximateIndex(world.table, lists=20, relevance=relevance)
    found = index.rank_means(profile, 6, probes=20)
    wanted = rank_means(world.table, profile, 6, relevance=relevance)
    assert found.items.tolist() == wanted.items.tolist()
    assert np.allclose(found.scores, wanted.scores, rtol=1e-5)


def test_what_is_unavailable_is_left_out() -> None:
    world = naive.make_world(5_000, 8)
    index = ApproximateIndex(world.table, lists=20)
    best = index.rank_means(np.zeros(8), 6, probes=20).items
    world.table.set_available(best[:2], False)
    left = index.rank_means(np.zeros(8), 6, probes=20)
    assert left.items.tolist() == [*best[2:], -1, -1]
    assert left.scores[4:].tolist() == [-np.inf, -np.inf]


@pytest.mark.parametrize(
    ("bias", "lists", "problem"), [(0.5, 5, "knows no biases"), (0, 500, "too few")]
)
def test_what_it_cannot_do_is_refused(bias: float, lists: int, problem: str) -> None:
    world = naive.make_world(1_000, 4, bias=bias)
    table: ItemTable = world.table
    with pytest.raises(SlatewiseError, match=problem):
        ApproximateIndex(table, lists=lists)


def test_a_relevance_that_no_index_knows_is_refused() -> None:
    with pytest.raises(SlatewiseError, match="relevance 'cosine'"):
        ApproximateIndex(naive.make_world(1_000, 4).table, lists=5, relevance="cosine")
