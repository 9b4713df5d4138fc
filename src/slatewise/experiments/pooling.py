"""One number from several seeds, with an interval for users and seeds.

The value is the mean over the seeds. Its interval comes from the resamples of users within each
seed, averaged over the seeds, and is widened by what the seeds differ beyond that (random effects,
with the variance between seeds by moments). With few seeds that variance is itself uncertain: the
seeds are therefore also shown one by one.

Online, where every seed is a world with users of its own, Student's quantile for the number of
worlds makes up for that (`over_worlds`).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from slatewise.evaluation.bootstrap import LEVEL
from slatewise.words import counted

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PooledEstimate:
    """The mean over seeds, its interval, and the value of each seed."""

    value: float
    low: float
    high: float
    by_seed: tuple[float, ...]
    error: float = float("nan")
    """the standard error, of users and worlds"""

    def note(self, reference: float = 0.0) -> str:
        """Return on which side of the reference each seed is."""
        above = sum(value > reference for value in self.by_seed)
        return f"{above} of {counted(len(self.by_seed), 'seed')} above {reference:g}"


def pool(
    values: Sequence[float], replicates: Sequence[npt.ArrayLike], *, same_users: bool
) -> PooledEstimate:
    """Pool the value of each seed [N] and its resamples: [N, R].

    With `same_users` the seeds were judged on the same users with the same weights: what they
    differ by is then not due to users at all.
    """
    by_seed = np.asarray(values, dtype=np.float64)
    resampled = np.asarray(replicates, dtype=np.float64)  # [N, R]
    value, mean = float(by_seed.mean()), resampled.mean(axis=0)
    mean = mean[np.isfinite(mean)]
    if not len(mean):
        return PooledEstimate(value, float("nan"), float("nan"), tuple(by_seed.tolist()))
    tail = (1 - LEVEL) / 2
    low, high = np.quantile(mean, [tail, 1 - tail])
    factor = _widening(by_seed, resampled, mean, same_users=same_users)
    low, high = value + factor * (low - value), value + factor * (high - value)
    return PooledEstimate(value, float(low), float(high), tuple(by_seed.tolist()))


def _widening(by_seed: Floats, resampled: Floats, mean: Floats, *, same_users: bool) -> float:
    """Return by how much the spread of seeds widens the interval, at least 1."""
    within = float(mean.var())
    if len(by_seed) < 2 or within == 0:
        return 1.0
    between = float(by_seed.var(ddof=1))
    if not same_users:
        between -= float(np.nanvar(resampled, axis=1).mean())
    return float(np.sqrt(1 + max(0.0, between) / len(by_seed) / within))


def over_worlds(values: Sequence[float], replicates: Sequence[npt.ArrayLike]) -> PooledEstimate:
    """Pool the value of each world [N] and its resamples of users: [N, R].

    What worlds differ by contains what their users differ by, so the interval is that of a mean of
    N numbers, by Student's quantile; but never narrower than that of users alone, which is all that
    one world has.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 – a third of a second to load

    users = pool(values, replicates, same_users=False)
    worlds = len(values)
    if math.isnan(users.low):
        return users
    error = float(np.nanstd(np.asarray(replicates, dtype=np.float64).mean(axis=0)))
    if worlds < 2:
        return replace(users, error=error)
    apart = float(np.std(values, ddof=1)) / math.sqrt(worlds)
    reach = float(stdtrit(worlds - 1, (1 + LEVEL) / 2)) * apart
    return replace(
        users,
        low=min(users.low, users.value - reach),
        high=max(users.high, users.value + reach),
        error=max(error, apart),
    )
