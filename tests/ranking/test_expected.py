import math

import numpy as np
import pytest

from slatewise.ranking import Filter, ItemTable, rank_expected
from slatewise.ranking.expected import nodes

from . import naive


def relevance(world: naive.World, profiles: naive.Array, items: naive.Array) -> naive.Array:
    """Return the expected relevance of items [n] by 400,000 draws, in pairs of opposite sign."""
    rng = np.random.default_rng(0)
    normal = rng.normal(size=(200_000, world.means.shape[1]))
    normal = np.concatenate([normal, -normal])
    values = np.zeros(len(items))
    for n, item in enumerate(items):
        drawn = world.means[item] + world.scales[item] * normal
        for z in profiles:
            distances = np.sqrt(np.square(drawn - z).sum(1))
            values[n] += np.exp(world.biases[item] - distances).mean() / len(profiles)
    return values


def test_the_quadrature_gives_the_exponential_of_a_root() -> None:
    squares = np.concatenate([[0], np.geomspace(1e-6, 1600, 200)])
    for first, last, step, error in ((-3, 12, 0.125, 2e-6), (-2, 9, 0.4, 2.5e-3)):
        rates, weights = nodes(first, last, step)
        found = np.exp(-np.outer(squares, rates)) @ weights
        assert np.abs(found / np.exp(-np.sqrt(squares)) - 1).max() < error


@pytest.mark.parametrize("scale", [0.05, 0.5, 2.0])
def test_scores_are_expected_relevances(scale: float) -> None:
    world = naive.make_world(50, 4, scale, bias=0.3)
    profiles = np.random.default_rng(1).normal(size=(2, 4)).astype(np.float32)
    found = rank_expected(world.table, profiles, 6)
    # 400,000 draws: the error of a mean is below 0.3 %, and far less at small scales.
    assert np.allclose(found.scores, relevance(world, profiles, found.items), rtol=0.01)


def test_in_one_dimension_the_score_has_a_closed_form() -> None:
    mean, scale, z = 0.7, 0.4, 0.2
    table = ItemTable.create([[mean]], [[scale]], [0.0], [0])
    mean, scale = (np.float64(np.float32(value)) for value in (mean, scale))
    gap = mean - np.float64(np.float32(z))

    def side(sign: float) -> float:  # E exp(∓x) where ±x > 0, for x ~ N(gap, scale²)
        shifted = sign * gap - scale**2
        half = math.erfc(-shifted / scale / math.sqrt(2)) / 2
        return math.exp(-sign * gap + scale**2 / 2) * half

    assert rank_expected(table, [[z]], 1).scores[0] == pytest.approx(side(1) + side(-1), rel=1e-7)


def test_no_item_that_is_left_out_would_be_better() -> None:
    # Wide and narrow items at all distances: bounds that are off would lose some.
    rng = np.random.default_rng(2)
    means = rng.normal(size=(3000, 5))
    scales = np.exp(rng.uniform(-4, 0.7, (3000, 1))) * np.exp(0.3 * rng.normal(size=(3000, 5)))
    table = ItemTable.create(means, scales, 0.3 * rng.normal(size=3000), np.arange(3000) % 3)
    for filter in (Filter(), Filter(caps=[5, -1, 2]), Filter(exclude=np.arange(100))):
        for count in (1, 3):
            zs = rng.normal(size=(count, 5))
            room = {0: 5, 1: 3000, 2: 2} if filter.caps else dict.fromkeys(range(3), 3000)
            wanted = []
            for item in rank_expected(table, zs, 3000, Filter(exclude=filter.exclude)).items:
                if item >= 0 and room[item % 3]:
                    room[item % 3] -= 1
                    wanted.append(item)
            found = rank_expected(table, zs, 20, filter).items
            assert found.tolist() == wanted[:20]


def test_an_allow_list_and_missing_items_are_heeded() -> None:
    world = naive.make_world(200)
    found = rank_expected(world.table, np.zeros((1, 5)), 4, Filter(allow=[7, 150, 3], exclude=[3]))
    assert sorted(found.items[:2]) == [7, 150]
    assert found.items[2:].tolist() == [-1, -1]
    assert found.scores[2:].tolist() == [-np.inf, -np.inf]


def test_an_item_without_uncertainty_has_the_relevance_of_its_mean() -> None:
    means = np.array([[0.0, 0.0], [3.0, 4.0], [0.3, 0.4]])
    table = ItemTable.create(means, np.zeros((3, 2)), [0.0, 1.0, 0.0], [0, 0, 0])
    found = rank_expected(table, np.zeros((1, 2)), 3)
    assert found.items.tolist() == [0, 2, 1]
    assert np.allclose(found.scores, np.exp([0, -0.5, -4]), rtol=1e-5)


def closed_form(world: naive.World, profiles: naive.Array) -> naive.Array:
    """Return E exp(b + z · v) of every item, over the profiles."""
    means, scales = world.means.astype(float), world.scales.astype(float)
    logs = profiles @ means.T + np.square(profiles) @ np.square(scales).T / 2 + world.biases
    result: naive.Array = np.exp(logs).mean(0)
    return result


@pytest.mark.parametrize("scale", [0.0, 0.05, 0.5, 2.0])
@pytest.mark.parametrize("count", [1, 7])
def test_dot_products_have_the_expected_relevance_of_a_closed_form(
    scale: float, count: int
) -> None:
    world = naive.make_world(3000, 5, scale, bias=0.3)
    profiles = np.random.default_rng(1).normal(size=(count, 5)).astype(np.float32)
    found = rank_expected(world.table, profiles, 20, relevance="dot")
    wanted = closed_form(world, profiles.astype(float))
    assert found.items.tolist() == np.argsort(-wanted, kind="stable")[:20].tolist()
    assert np.allclose(found.scores, wanted[found.items], rtol=1e-12)
    capped = rank_expected(
        world.table, profiles, 20, Filter(exclude=found.items[:2], caps=[3] * 4), relevance="dot"
    )
    left = np.where(np.isin(np.arange(3000), found.items[:2]), -np.inf, wanted)
    best = naive.top(left[None], world.groups, 20, Filter(caps=[3] * 4), world.table.available)
    assert capped.items.tolist() == best.items[0].tolist()


def test_a_dot_product_beyond_the_range_of_floats_is_ranked() -> None:
    means = np.arange(40.0)[:, None] + 500
    table = ItemTable.create(means, np.zeros((40, 1)), np.zeros(40), np.zeros(40, int))
    found = rank_expected(table, [[1.0]], 3, relevance="dot")
    assert found.items.tolist() == [39, 38, 37]
    assert np.allclose(np.log(found.scores), [539, 538, 537], rtol=1e-12)
