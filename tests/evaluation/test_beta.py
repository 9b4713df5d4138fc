"""Quantiles against closed forms, tables and draws."""

import math

import numpy as np
import pytest

from slatewise.evaluation.beta import beta_cdf, beta_quantile, student_quantile

SHARES = (0.001, 0.025, 0.3, 0.5, 0.8, 0.975, 0.9999)


@pytest.mark.parametrize("share", SHARES)
@pytest.mark.parametrize("power", [0.25, 1.0, 7.0, 4_000.0])
def test_one_sided_betas_have_their_closed_form(share: float, power: float) -> None:
    assert beta_quantile(share, power, 1) == pytest.approx(share ** (1 / power), rel=1e-10)
    mirrored = -math.expm1(math.log1p(-share) / power)
    assert beta_quantile(share, 1, power) == pytest.approx(mirrored, rel=1e-10)


@pytest.mark.parametrize("share", SHARES)
def test_the_arcsine_law_has_its_closed_form(share: float) -> None:
    expected = math.sin(math.pi * share / 2) ** 2
    assert beta_quantile(share, 0.5, 0.5) == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize(("clicks", "misses"), [(1, 1), (3, 7), (1, 400), (150, 850)])
def test_whole_counts_agree_with_the_binomial(clicks: int, misses: int) -> None:
    """Beta(k, m) lies below x if at least k of k + m − 1 coins of chance x succeed."""
    n, x = clicks + misses - 1, clicks / (clicks + misses) * 1.1
    tail = sum(math.comb(n, j) * x**j * (1 - x) ** (n - j) for j in range(clicks, n + 1))
    assert beta_cdf(x, clicks, misses) == pytest.approx(tail, rel=1e-10)


@pytest.mark.parametrize(
    ("a", "b"), [(0.5, 200.5), (0.5, 1e7), (30.2, 0.5), (3e4, 5e5), (1e6, 2e6)]
)
@pytest.mark.parametrize("share", SHARES)
def test_quantiles_undo_the_distribution(a: float, b: float, share: float) -> None:
    assert beta_cdf(beta_quantile(share, a, b), a, b) == pytest.approx(share, rel=1e-7)


def test_draws_agree() -> None:
    drawn = np.random.default_rng(0).beta(20.5, 180.5, 200_000)
    found = [beta_quantile(share, 20.5, 180.5) for share in (0.025, 0.975)]
    below = [(drawn < x).mean() for x in found]
    assert below == pytest.approx([0.025, 0.975], abs=4 * math.sqrt(0.025 / 200_000))


@pytest.mark.parametrize(
    ("freedom", "expected"), [(1, 12.7062), (2, 4.3027), (10, 2.2281), (49, 2.0096), (1e9, 1.9600)]
)
def test_student_quantiles_are_those_of_the_tables(freedom: float, expected: float) -> None:
    assert student_quantile(0.975, freedom) == pytest.approx(expected, abs=5e-5)
    assert student_quantile(0.5, freedom) == 0


def test_outside_of_the_unit_interval_nothing_is_left() -> None:
    assert [beta_cdf(x, 2, 3) for x in (-1.0, 0.0, 1.0, 2.0)] == [0, 0, 1, 1]
