"""Confidence intervals by resampling users.

Interactions of one user are not independent, so users are drawn. Each user gets a Poisson(1)
weight per resample: sums over users become one matrix product, and nothing but the sums is kept,
however many users there are. The weights depend on the seed and on the user's index among the
scored users only; two recommenders judged on the same users share them, which makes differences
paired.

Where a few users bring most of the rows, resamples spread too little: their spread is itself
estimated, from few users. Replicates are moved away from the value accordingly (`EffectiveUsers`).
"""

import hashlib
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.evaluation.metrics import Metric, T_contra
from slatewise.evaluation.rows import Floats

RESAMPLES: Final = 1_000
LEVEL: Final = 0.95
_BLOCK: Final = 1_024


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; subtract two of the same users for a paired difference."""

    value: float
    low: float
    high: float
    count: int
    """Rows (interactions, clicks or users) that the value rests on."""
    replicates: Floats = field(repr=False, compare=False)
    """[R] the value in each resample"""
    sample: str = field(repr=False, compare=False)
    """Names the users and the weights drawn for them."""

    @classmethod
    def of(cls, value: float, replicates: Floats, count: int, sample: str) -> "Estimate":
        """Take the interval from the quantiles of the resamples, where any is defined."""
        defined = replicates[np.isfinite(replicates)]
        tail = (1 - LEVEL) / 2
        low, high = np.quantile(defined, [tail, 1 - tail]) if len(defined) else (np.nan, np.nan)
        return cls(value, float(low), float(high), count, replicates, sample)

    def __sub__(self, other: "Estimate") -> "Estimate":
        """Return the paired difference."""
        if self.sample != other.sample:
            raise SlatewiseError(
                "the two estimates are of different users or resamples.",
                "Compare evaluations of the same dataset, part and seed.",
            )
        replicates = self.replicates - other.replicates
        return Estimate.of(self.value - other.value, replicates, self.count, self.sample)

    def to_json(self) -> dict[str, Any]:
        """Return value, interval and count; None stands for a value that is not defined."""
        numbers = {"value": self.value, "low": self.low, "high": self.high}
        return {
            name: number if np.isfinite(number) else None for name, number in numbers.items()
        } | {"count": self.count}


class Resampler:
    """Adds up sums per user, as they are and in every resample, batch after batch of users."""

    def __init__(self, seed: int = 0, resamples: int = RESAMPLES, about: str = "") -> None:
        self.seed, self.resamples = seed, resamples
        self.users = 0
        named = f"{seed} {resamples} {about}"
        self._digest = hashlib.blake2b(named.encode(), digest_size=16)
        self._totals: Floats = np.zeros(0)
        self._resampled: Floats = np.zeros((resamples, 0))

    def add(self, users: Int64Array, sums: Floats) -> None:
        """Add the sums [U, P] of the next users [U]; a user must come once."""
        if not self.users:
            self._totals = np.zeros(sums.shape[1])
            self._resampled = np.zeros((self.resamples, sums.shape[1]))
        done = 0
        while done < len(users):
            block, index = divmod(self.users, _BLOCK)
            here = slice(done, done + _BLOCK - index)
            rows = sums[here]
            weights = _weights(self.seed, block, index + len(rows), self.resamples)[index:]
            self._resampled += weights.T.astype(np.float64) @ rows
            self._totals += rows.sum(axis=0)
            self.users += len(rows)
            done += len(rows)
        self._digest.update(np.ascontiguousarray(users, dtype=np.int64).data)

    @property
    def sample(self) -> str:
        """A digest of the seed, of what the users are from, and of the users so far."""
        return self._digest.copy().hexdigest()

    @property
    def totals(self) -> Floats:
        """[P] the sums over all users."""
        return self._totals

    @property
    def resampled(self) -> Floats:
        """[R, P] the weighted sums of each resample."""
        return self._resampled


class EffectiveUsers:
    """How many users' worth of data numbers rest on, from how many rows each user has.

    If users differ, the variance of a mean over rows is a sum of squares weighted by m², and known
    as well as from (Σm²)² / Σm⁴ equal users (Satterthwaite). Of 200 users whose activity is
    lognormal with σ = 2, that is about 5.
    """

    def __init__(self) -> None:
        self._squares: Floats = np.zeros(())
        self._fourths: Floats = np.zeros(())

    def add(self, counts: Floats) -> None:
        """Add the rows [U, ...] of the next users."""
        squares = np.square(counts.astype(np.float64))
        self._squares = self._squares + squares.sum(axis=0)
        self._fourths = self._fourths + np.square(squares).sum(axis=0)

    @property
    def widening(self) -> Floats:
        """By how much intervals from resamples are too narrow, at least 1: [...].

        Student's quantile over the normal one. Below two degrees of freedom it grows beyond all
        use: there, coverage is more than enough with two.
        """
        from scipy.special import ndtri, stdtrit  # noqa: PLC0415 – a third of a second to load

        share = (1 + LEVEL) / 2
        known = self._fourths > 0
        users = np.square(self._squares) / np.where(known, self._fourths, 1)
        wide = stdtrit(np.maximum(users - 1, 2), share) / ndtri(share)
        return np.where(known, wide, 1.0)


@lru_cache(maxsize=128)
def _weights(seed: int, block: int, users: int, resamples: int) -> npt.NDArray[np.uint8]:
    """Return the weights of the first users of a block: [users, R].

    Kept for the other metrics of the same users, and for who is judged beside them or later:
    drawing costs more than adding up. In one byte: none of 10^60 draws is above 50.
    """
    # Row after row, so that how many are drawn does not change the first.
    rng = np.random.default_rng([seed, block])
    return rng.poisson(1.0, size=(users, resamples)).astype(np.uint8)


def estimate(
    metric: Metric[Any], totals: Floats, resampled: Floats, sample: str, widening: float = 1.0
) -> Estimate:
    """Turn sums [P] and resampled sums [R, P] into a value with its interval.

    Resamples are spread by `widening`, that of the users' `EffectiveUsers`.
    """
    value, replicates = float(metric.value(totals)), metric.value(resampled)
    if metric.noise_raises and np.isfinite(replicates).any():
        replicates = replicates - (np.nanmean(replicates) - value)
    replicates = value + widening * (replicates - value)
    return Estimate.of(value, replicates, int(metric.count(totals)), sample)


def bootstrap(
    metric: Metric[T_contra], observed: T_contra, *, seed: int = 0, resamples: int = RESAMPLES
) -> Estimate:
    """Return the metric with its interval over users."""
    users, sums = metric.per_user(observed)
    resampler = Resampler(seed, resamples)
    resampler.add(users, sums)
    effective = EffectiveUsers()
    effective.add(metric.count(sums))
    return estimate(
        metric,
        resampler.totals,
        resampler.resampled,
        resampler.sample,
        float(effective.widening),
    )


def difference(metric: Metric[T_contra], first: T_contra, second: T_contra) -> Estimate:
    """Return the metric of `first` minus that of `second`, paired by user."""
    return bootstrap(metric, first) - bootstrap(metric, second)
