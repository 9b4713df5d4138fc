import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, logsumexp

from slatewise.model.assumed_density import choice_slopes, filtered

COUNT = 400_000


def exact_moments(
    mean: float, scale: float, no_click: float, *, click: bool
) -> tuple[float, float]:
    """Integrate the posterior of the utility of the only item of a slate."""

    def weighed(power: int) -> float:
        def density(u: float) -> float:
            chance = expit(u - no_click) if click else expit(no_click - u)
            return float(u**power * chance * np.exp(-0.5 * ((u - mean) / scale) ** 2))

        reach = (mean - 12 * scale, mean + 12 * scale)
        return float(quad(density, *reach, limit=200, epsabs=1e-13, epsrel=1e-12)[0])

    total = weighed(0)
    first = weighed(1) / total
    return first, weighed(2) / total - first**2


@pytest.mark.parametrize("click", [True, False])
@pytest.mark.parametrize("scale", [0.1, 0.7, 2.0])
@pytest.mark.parametrize("mean", [-6.0, 0.3, 4.0])
def test_one_item_is_filtered_as_an_integral_says(mean: float, scale: float, click: bool) -> None:
    found = choice_slopes(np.array([mean]), np.array([scale**2]), 0.5, 0 if click else None)
    wanted = exact_moments(mean, scale, 0.5, click=click)
    tolerance = 1e-4 if scale < 1 else 2e-3
    assert mean + scale**2 * found.first[0] == pytest.approx(wanted[0], abs=tolerance)
    assert scale**2 + scale**4 * found.second[0] == pytest.approx(wanted[1], abs=tolerance)


@pytest.mark.parametrize("clicked", [None, 0, 3])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_slate_is_filtered_nearly_as_weighted_draws_say(seed: int, clicked: int | None) -> None:
    rng = np.random.default_rng(seed)
    means, scales = rng.normal(-0.5, 1, 5), rng.uniform(0.2, 1.0, 5)
    draws = means + scales * rng.standard_normal((COUNT, 5))
    every = np.concatenate([np.full((COUNT, 1), 0.5), draws], axis=1)
    weights = np.exp(every[:, 0 if clicked is None else clicked + 1] - logsumexp(every, axis=1))
    first = np.average(draws, axis=0, weights=weights)
    second = np.average(np.square(draws - first), axis=0, weights=weights)
    found = choice_slopes(means, np.square(scales), 0.5, clicked)
    moved = means + np.square(scales) * found.first
    left = np.square(scales) + scales**4 * found.second
    # Draws leave .003; what a choice moves is .1 and more, what it takes of variances .05.
    np.testing.assert_allclose(moved, first, atol=0.012)
    np.testing.assert_allclose(left, second, atol=0.012)
    assert np.abs(first - means).max() > 0.1


def test_parameters_are_filtered_as_weighted_draws_of_them_say() -> None:
    rng = np.random.default_rng(5)
    means, scales = np.array([[0.4, -0.2, 0.1]]), np.array([[0.5, 0.8, 0.3]])
    gradients = np.array([[0.6, -0.8, 1.0]])
    slopes = choice_slopes(np.array([-0.3]), np.square(gradients * scales).sum(axis=1), 0.4, None)
    found = filtered(means, np.square(scales), gradients, slopes)
    draws = means + scales * rng.standard_normal((COUNT, 3))
    weights = expit(0.4 + 0.3 - (draws - means) @ gradients[0])
    first = np.average(draws, axis=0, weights=weights)
    np.testing.assert_allclose(found[0][0], first, atol=0.005)
    second = np.average(np.square(draws - first), axis=0, weights=weights)
    np.testing.assert_allclose(found[1][0], second, atol=0.005)


def test_a_choice_never_makes_anything_less_certain_and_stays_finite() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        count = int(rng.integers(1, 12))
        means = rng.normal(0, rng.choice([1.0, 30.0]), count)
        variances = rng.uniform(0, 9, count) * rng.integers(0, 2, count)
        clicked = None if rng.random() < 0.3 else int(rng.integers(count))
        slopes = choice_slopes(means, variances, float(rng.normal()), clicked)
        assert np.isfinite(slopes.first).all()
        gradients = rng.normal(0, 1, (count, 2))
        after = filtered(np.zeros((count, 2)), np.ones((count, 2)), gradients, slopes)
        assert np.isfinite(after[0]).all()
        assert (after[1] <= 1).all()
        assert (after[1] > 0).all()
        if clicked is not None:
            assert slopes.first[clicked] >= 0
            assert (np.delete(slopes.first, clicked) <= 0).all()
