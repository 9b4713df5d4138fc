"""Diversity: cases made by hand, and each definition written out in plain Python."""

import math
from itertools import combinations

import numpy as np
import pytest

import slatewise.evaluation.diversity as module
from slatewise.errors import SlatewiseError
from slatewise.evaluation.diversity import (
    Diversity,
    coverage,
    distinct_groups,
    exposure,
    exposure_share,
    gini,
    intra_list_distance,
    little_seen,
)

GROUPS = np.array([0, 0, 1, 2, 2])
VECTORS = np.array([[0.0, 0.0], [3.0, 4.0], [6.0, 8.0], [0.0, 0.0], [0.0, 1.0]])


def some_slates(rng: np.random.Generator) -> np.ndarray:
    """Slates of eight distinct items of fifty, with empty places here and there."""
    slates = rng.permuted(np.tile(np.arange(50), (40, 1)), axis=1)[:, :8]
    return np.where(rng.random(slates.shape) < 0.2, -1, slates)


def test_slates_by_hand() -> None:
    slates = np.array([[0, 1, 2], [3, 4, -1], [2, -1, -1], [-1, -1, -1]])
    assert distinct_groups(slates, GROUPS).tolist() == [2, 1, 1, 0]
    distance = intra_list_distance(slates, VECTORS)
    assert distance[:2].tolist() == pytest.approx([20 / 3, 1.0])
    assert np.isnan(distance[2:]).all()
    assert exposure(slates, 5).tolist() == [1, 1, 2, 1, 1]


def test_slates_agree_with_the_definitions() -> None:
    rng = np.random.default_rng(0)
    slates, groups = some_slates(rng), rng.integers(5, size=50)
    vectors = rng.standard_normal((50, 3)).astype(np.float32)
    for row, slate in enumerate(slates):
        items = [i for i in slate.tolist() if i >= 0]
        assert distinct_groups(slates, groups)[row] == len({groups[i] for i in items})
        away = [
            math.dist(vectors[i].tolist(), vectors[j].tolist()) for i, j in combinations(items, 2)
        ]
        found = intra_list_distance(slates, vectors)[row]
        assert found == pytest.approx(sum(away) / len(away)) if away else np.isnan(found)


def test_distances_do_not_depend_on_how_many_fit_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    slates, vectors = some_slates(rng), rng.standard_normal((50, 3))
    whole = intra_list_distance(slates, vectors)
    monkeypatch.setattr(module, "_CELLS", 100)
    np.testing.assert_array_equal(intra_list_distance(slates, vectors), whole)


def test_exposure_by_hand() -> None:
    assert coverage(np.array([3, 0, 1, 0])) == 0.5
    assert gini(np.array([7, 7, 7])) == 0
    assert gini(np.array([0, 0, 0, 5])) == 0.75
    assert exposure_share(np.array([3, 0, 1]), np.array([False, True, True])) == 0.25


def test_gini_is_half_the_relative_mean_difference() -> None:
    shown = np.random.default_rng(2).integers(0, 30, size=60)
    difference = np.abs(shown[:, None] - shown[None]).mean()
    assert gini(shown) == pytest.approx(difference / (2 * shown.mean()))


def test_little_seen_items_are_the_least_seen_quarter_or_those_below_a_number() -> None:
    views = np.array([9, 1, 5, 30, 2, 7, 80, 6])
    assert np.flatnonzero(little_seen(views)).tolist() == [1, 4]
    assert np.flatnonzero(little_seen(views, below=6)).tolist() == [1, 2, 4]
    assert not little_seen(views, below=1).any()
    # Half of the items were never seen: all of them are little seen.
    assert np.flatnonzero(little_seen(np.array([0, 4, 0, 9]))).tolist() == [0, 2]


def test_the_measures_stand_together() -> None:
    slates = np.array([[0, 1, 2], [3, 4, -1], [2, -1, -1]])
    found = Diversity.of(slates, GROUPS, VECTORS, np.array([9, 8, 0, 7, 6]))
    expected = [4 / 3, (20 / 3 + 1) / 2, 1.0, 4 / 30, 3 / 6]
    assert list(vars(found).values()) == pytest.approx(expected)


def test_few_views_can_be_a_number() -> None:
    slates, views = np.array([[0, 1, 2], [3, 4, 2]]), np.array([9, 8, 0, 7, 6])
    assert Diversity.of(slates, GROUPS, VECTORS, views, below=5).little_seen == 2 / 6


def test_one_item_slates_have_no_distance() -> None:
    found = Diversity.of(np.array([[0], [1]]), GROUPS, VECTORS, np.arange(5))
    assert np.isnan(found.intra_list_distance)
    assert found.distinct_groups == 1
    assert found.coverage == 0.4


def test_no_slates_are_no_error() -> None:
    found = Diversity.of(np.zeros((0, 3), dtype=np.int64), GROUPS, VECTORS, np.arange(5))
    assert found.coverage == 0
    assert all(np.isnan(value) for value in (found.distinct_groups, found.gini, found.little_seen))


@pytest.mark.parametrize("slates", [np.array([[0, 5]]), np.array([[0, -2]])])
def test_items_that_do_not_exist_are_refused(slates: np.ndarray) -> None:
    for measure in (
        lambda: distinct_groups(slates, GROUPS),
        lambda: intra_list_distance(slates, VECTORS),
        lambda: exposure(slates, 5),
    ):
        with pytest.raises(SlatewiseError, match="outside"):
            measure()
