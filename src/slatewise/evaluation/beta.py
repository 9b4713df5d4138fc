"""Quantiles of the Beta and of Student's distribution, exact to rounding and without SciPy."""

import math
from functools import lru_cache
from itertools import count
from typing import Final

_TINY: Final = 1e-300
_CLOSE: Final = 1e-14


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return P(X ≤ x) of X ~ Beta(a, b): the regularised incomplete beta function."""
    if not 0 < x < 1:
        return float(x >= 1)
    # The continued fraction converges fast below the mean; above it, look from the other end.
    if x > (a + 1) / (a + b + 2):
        return 1 - _lower(1 - x, b, a)
    return _lower(x, a, b)


@lru_cache(maxsize=1_024)  # every comparison asks for the ends of both rates again
def beta_quantile(share: float, a: float, b: float) -> float:
    """Return the x with P(X ≤ x) = share, for 0 < share < 1, by Newton steps kept in a bracket."""
    low, high, x = 0.0, 1.0, a / (a + b)
    for _ in range(200):  # halvings alone would need about 50, or more for a quantile next to 0
        missing = share - beta_cdf(x, a, b)
        low, high = (x, high) if missing > 0 else (low, x)
        log_density = _log_weight(x, a, b) - math.log(x) - math.log1p(-x)
        step = missing * math.exp(-log_density) if abs(log_density) < 600 else math.inf
        following = x + step if low < x + step < high else (low + high) / 2
        if abs(following - x) <= 1e-14 * x:
            break
        x = following
    return x


def student_quantile(share: float, freedom: float) -> float:
    """Return the quantile of Student's distribution, for ½ ≤ share < 1.

    T² / (T² + freedom) is Beta(½, freedom / 2).
    """
    if share == 0.5:
        return 0.0
    y = beta_quantile(2 * share - 1, 0.5, freedom / 2)
    return math.sqrt(freedom * y / (1 - y))


def _log_weight(x: float, a: float, b: float) -> float:
    """Return log(x^a (1 − x)^b / B(a, b))."""
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return a * math.log(x) + b * math.log1p(-x) - log_beta


def _lower(x: float, a: float, b: float) -> float:
    """Return P(X ≤ x) by its continued fraction, 1 / (1 + d₁ / (1 + d₂ / (1 + …)))."""
    value, above, below = 1.0, 1.0, 0.0  # of 1 + d₁ / (1 + …), by Lentz's products of ratios
    for number in count(1):
        d = _coefficient(number, x, a, b)
        above = _kept(1 + d / above)
        below = 1 / _kept(1 + d * below)
        value *= above * below
        if abs(above * below - 1) < _CLOSE:
            break
    return math.exp(_log_weight(x, a, b)) / (a * value)


def _coefficient(number: int, x: float, a: float, b: float) -> float:
    """Return d₁, d₂, … of the continued fraction."""
    m, odd = divmod(number, 2)
    if odd:
        return -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
    return m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))


def _kept(value: float) -> float:
    """Keep a denominator away from zero."""
    return value if abs(value) > _TINY else _TINY
