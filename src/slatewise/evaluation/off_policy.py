"""The click rate of an arm that did not run, from slates that others made and logged.

Every slate of the log counts with a weight: how much likelier the target would have made it than
the arm that did. N slates of k positions, of users who may have several; a slate is clicked or not,
and where several of its items were, the first click counts.

- `ips` weights slates by π(slate) / μ(slate). Exact if the log could show every slate that the
  target would show.
- `self_normalised` makes those weights average 1. The same, once there are many slates.
- `doubly_robust` weights what a model of P(click) does not explain. The same, however bad that is.
- `per_position` weights each click by π(item at its position) / μ(item at its position). Exact if
  the log could show every item at every position where the target would, and whether an item is
  clicked depends on its position and itself, not on its neighbours.

All of them speak of the requests of the log: users with the histories that the logging arms gave
them. What the target would have made of these users in the long run is not in the log.

Weights average 1 if the log has what it takes. An average below says how much of what the target
would show the log cannot tell about; one above, that the propensities are wrong. Both are refused
in words (`OffPolicyEstimate.problem`), and so is a log in which a handful of users decide.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.evaluation.ab import Interval
from slatewise.evaluation.bootstrap import LEVEL
from slatewise.evaluation.rows import Floats, Integers

SUPPORT: Final = 0.05
"""How far from 1 the average weight may be for certain."""
CERTAIN: Final = 0.999
"""Level of the interval of the average weight: a log is refused only for good reason."""
LEAST_EFFECTIVE: Final = 30
"""Users' worth of data below which no estimate is given."""


@dataclass(frozen=True)
class OffPolicyEstimate:
    """What an estimator makes of a log, and how far to trust it."""

    estimator: str
    rate: Interval
    """Click rate of the target; nan where there is a problem."""
    support: Interval
    """Average weight, with its 99.9 % interval: 1, or the share of what the target shows that the
    log can tell about. Of several positions, that of the worst."""
    effective_users: float
    """As many users with equal weights would tell as much."""
    clipped: float
    """Share of the positive weights that were cut to √N, which lowers the estimate."""
    problem: str | None = None
    """Why there is no estimate."""


def ips(users: Integers, clicked: Floats, weights: Floats) -> OffPolicyEstimate:
    """Weight clicks [N] of users [N] with the slates' weights [N] (inverse propensity scores)."""
    kept, clipped = _clip(weights)
    value = [_Ratio.of(users, kept * clicked, np.ones(len(users)))]
    return _estimate("ips", value, [_Ratio.of(users, kept, np.ones(len(users)))], clipped)


def self_normalised(users: Integers, clicked: Floats, weights: Floats) -> OffPolicyEstimate:
    """Divide weighted clicks by the sum of weights: less variance, a bias that falls with N."""
    kept, clipped = _clip(weights)
    value = [_Ratio.of(users, kept * clicked, kept)]
    support = [_Ratio.of(users, kept, np.ones(len(users)))]
    return _estimate("self-normalised", value, support, clipped)


def doubly_robust(
    users: Integers, clicked: Floats, weights: Floats, predicted: Floats, expected: Floats
) -> OffPolicyEstimate:
    """Correct a model's predictions by the weighted errors that it makes.

    `predicted` [N] is the model's P(click) of the slate that was shown, `expected` [N] its mean
    over the slates that the target would have shown. Neither may look at what the user did then.
    """
    kept, clipped = _clip(weights)
    value = [_Ratio.of(users, expected + kept * (clicked - predicted), np.ones(len(users)))]
    support = [_Ratio.of(users, kept, np.ones(len(users)))]
    return _estimate("doubly robust", value, support, clipped)


def per_position(users: Integers, clicked: Floats, weights: Floats) -> OffPolicyEstimate:
    """Weight the click at each position by itself, and add up the positions.

    `clicked` [N, k] is 1 where the (first) click was; `weights` [N, k] are nan where a slate has no
    item. Normalised position by position, as `self_normalised` is.
    """
    kept, clipped = _clip(weights)
    filled = (~np.isnan(weights)).astype(np.float64)
    positions = [j for j in range(weights.shape[1]) if filled[:, j].any()]
    value = [_Ratio.of(users, kept[:, j] * clicked[:, j], kept[:, j]) for j in positions]
    support = [_Ratio.of(users, kept[:, j], filled[:, j]) for j in positions]
    return _estimate("per position", value, support, clipped)


def _clip(weights: Floats) -> tuple[Floats, float]:
    """Cut weights to √N, and return the share of them that was cut.

    Infinite ones stand for what was shown although it seemed impossible: too few draws.
    """
    if not len(weights):
        raise SlatewiseError(
            "there are no slates to estimate from.", "Give a log with slates that people saw."
        )
    most = math.sqrt(len(weights))
    positive = weights[weights > 0]
    clipped = float((positive > most).mean()) if len(positive) else 0.0
    return np.minimum(np.where(np.isnan(weights), 0.0, weights), most), clipped


@dataclass(frozen=True, eq=False)
class _Ratio:
    """A sum over users divided by another."""

    above: Floats
    """[U]"""
    below: Floats
    """[U]"""

    @classmethod
    def of(cls, users: Integers, above: Floats, below: Floats) -> "_Ratio":
        """Add up rows [N] by user."""
        _, index = np.unique(users, return_inverse=True)
        sums = [np.bincount(index, column).astype(np.float64) for column in (above, below)]
        return cls(*sums)

    @property
    def value(self) -> float:
        """The ratio; nan where there is nothing to divide by."""
        total = float(self.below.sum())
        return float(self.above.sum()) / total if total > 0 else math.nan

    @property
    def losses(self) -> Floats:
        """[U] what the ratio loses when a user is left out."""
        rest = self.below.sum() - self.below
        missing = self.above - self.value * self.below
        nothing = np.full_like(missing, np.nan)
        return np.asarray(np.divide(missing, rest, out=nothing, where=rest > 0))

    @property
    def effective_users(self) -> float:
        """How many users with equal sums above would be as many."""
        squares = float((self.above**2).sum())
        return float(self.above.sum()) ** 2 / squares if squares > 0 else 0.0


def _interval(ratios: Sequence[_Ratio], effective: float, level: float) -> Interval:
    """Return the sum of ratios with an interval by the jackknife over users.

    Student's quantile for as many users as the weights leave.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 – a third of a second to load

    value = sum(ratio.value for ratio in ratios)
    losses = np.sum([ratio.losses for ratio in ratios], axis=0)  # [U]
    error = math.sqrt(max(len(losses) - 1, 0) / len(losses) * float((losses**2).sum()))
    reach = error * float(stdtrit(max(effective - 1, 1), (1 + level) / 2))
    return Interval(value, value - reach, value + reach)


def _estimate(
    estimator: str, value: Sequence[_Ratio], support: Sequence[_Ratio], clipped: float
) -> OffPolicyEstimate:
    """Return the estimate, or why there is none; of several positions the worst decides."""
    effective = min(ratio.effective_users for ratio in support)
    averages = [_interval([ratio], ratio.effective_users, CERTAIN) for ratio in support]
    average = max(averages, key=_missing)
    problem = _problem(average, effective)
    rate = _interval(value, effective, LEVEL) if problem is None else Interval(*[math.nan] * 3)
    return OffPolicyEstimate(estimator, rate, average, effective, clipped, problem)


def _missing(average: Interval) -> float:
    """Return how far from 1 an average weight is at least."""
    return max(1 - average.high, average.low - 1)


def _problem(average: Interval, effective: float) -> str | None:
    if average.high < 1 - SUPPORT:
        return (
            f"the log can tell about {average.value:.0%} of what this arm would show: the rest was "
            "too unlikely to be shown, or to come up in the draws that were made. Let an arm with "
            "more chance in it run (in-slate Thompson, ε-mix), or draw more"
        )
    if average.low > 1 + SUPPORT:
        return (
            f"the weights average {average.value:.2f} where they should average 1: the "
            "propensities are not those of the arms that made these slates"
        )
    if effective < LEAST_EFFECTIVE:
        return (
            f"{effective:.0f} users' worth of slates are like those that this arm would show, and "
            f"{LEAST_EFFECTIVE} are the least: more of the log is needed, or arms that are closer"
        )
    return None
