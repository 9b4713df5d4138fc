"""The plane of the map, against a singular value decomposition."""

import numpy as np
import pytest

from slatewise.service.insight.projection import Projection, sample


def vectors(count: int, scales: tuple[float, ...]) -> np.ndarray:
    rng = np.random.default_rng(0)
    turned, _ = np.linalg.qr(rng.standard_normal((len(scales), len(scales))))
    spread = rng.standard_normal((count, len(scales))) * scales
    return np.asarray(spread @ turned + 3.0, np.float32)


def test_the_plane_holds_as_much_as_the_first_two_singular_values() -> None:
    given = vectors(500, (3.0, 2.0, 0.5, 0.1))
    found = Projection.fit(given)
    values = np.linalg.svd(given - given.mean(0), compute_uv=False) ** 2
    np.testing.assert_allclose(found.explained, values[:2] / values.sum(), rtol=1e-4)
    points = found.of(given)
    np.testing.assert_allclose((points**2).sum(0), values[:2], rtol=1e-3)
    np.testing.assert_allclose(points.mean(0), 0, atol=1e-3)
    np.testing.assert_allclose(found.axes.T @ found.axes, np.eye(2), atol=1e-5)


def test_the_axes_point_the_same_way_whichever_items_come_first() -> None:
    given = vectors(300, (3.0, 2.0, 0.5))
    np.testing.assert_allclose(
        Projection.fit(given).axes, Projection.fit(given[::-1]).axes, atol=1e-3
    )


@pytest.mark.parametrize("shape", [(0, 3), (1, 3), (5, 1)], ids=["none", "one", "flat"])
def test_few_items_or_dimensions_have_a_plane_too(shape: tuple[int, int]) -> None:
    given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = Projection.fit(given)
    assert found.of(given).shape == (shape[0], 2)
    assert np.isfinite(found.of(given)).all()


def test_a_sample_is_the_same_every_time_and_has_every_row_once() -> None:
    rows = np.arange(1_000)
    chosen = sample(rows, 100)
    assert len(np.unique(chosen)) == 100
    np.testing.assert_array_equal(chosen, sample(rows, 100))
    np.testing.assert_array_equal(sample(rows[:50], 100), rows[:50])
