"""Choices between options whose utilities are linear in a few weights, fitted by Newton's method.

Shapes: M choices, F options of all of them, P weights.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array, offsets_of

Doubles = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]

_STEPS: Final = 50
_ENOUGH: Final = 1e-10


@dataclass(frozen=True)
class LinearChoice:
    """A softmax over the options of each choice, with a Gaussian prior of the weights.

    The log-likelihood of a softmax of linear utilities is concave, and with the prior strictly so,
    even where a feature is constant: Newton's method with step halving finds its one maximum.
    """

    features: Doubles
    """[F, P]"""
    offsets: Int64Array
    """[M + 1] where the options of each choice begin; none is empty"""
    shares: Doubles
    """[F] probability that each option was chosen: 1 and 0 where the choice was seen"""
    mean: Doubles | float = 0.0
    """[P] of the prior"""
    sd: Doubles | float = 10.0
    """[P] of the prior"""
    known: Doubles | float = 0.0
    """[F] a part of each utility that no weight moves"""

    @classmethod
    def with_no_click(
        cls,
        offsets: Int64Array,
        clicks: npt.NDArray[np.integer],
        items: Doubles,
        no_click: Doubles,
        mean: Doubles | float = 0.0,
        sd: Doubles | float = 10.0,
        can_pass: Bools | None = None,
    ) -> "LinearChoice":
        """Add to each slate the option of no click, behind its items.

        Args:
            offsets: [M + 1] of the items of the slates, which may be empty.
            clicks: [M] position in the slate, −1 for no click.
            items: [number of items, P] features.
            no_click: [M, P] features.
            mean: [P] of the prior.
            sd: [P] of the prior.
            can_pass: [M] which slates have that option, without it all.
        """
        passes = np.ones(len(clicks), dtype=bool) if can_pass is None else can_pass
        ends = offsets + offsets_of(passes.astype(np.int64))
        added = ends[1:] - 1  # [M] of those that have it
        features = np.empty((int(ends[-1]), items.shape[1]))
        is_item = np.ones(len(features), dtype=bool)
        is_item[added[passes]] = False
        features[is_item], features[added[passes]] = items, no_click[passes]
        shares = np.zeros(len(features))
        shares[np.where(clicks < 0, added, ends[:-1] + clicks)] = 1
        return cls(features, ends, shares, mean, sd)

    def fit(self, least: float = -np.inf, start: Doubles | None = None) -> Doubles:
        """Return the weights [P] of greatest density whose first is `least` or more.

        `start` [P] are weights to begin with: nearer to the best ones, they save time.
        """
        weights = np.zeros(self.features.shape[1]) + (self.mean if start is None else start)
        free = np.ones(len(weights), dtype=bool)
        best = self._newton(weights, free)
        if (best[:1] < least).any():
            # The density is concave: the constrained maximum lies on the boundary.
            free[0] = False
            best = self._newton(np.concatenate([[least], best[1:]]), free)
        return best

    def log_likelihood(self, weights: Doubles) -> float:
        """Return the log-probability of what was chosen, summed over the choices."""
        return float(self.shares @ self._log_probabilities(weights))

    def precision(self, weights: Doubles) -> Doubles:
        """Return the negative curvature [P, P] of the log-density, by which Laplace has a normal.

        The inverse is the covariance of the weights where these are the best ones.
        """
        return self._derivatives(weights, np.exp(self._log_probabilities(weights)))[1]

    def _log_prior(self, weights: Doubles) -> float:
        return -float((((weights - self.mean) / self.sd) ** 2).sum()) / 2

    def _newton(self, weights: Doubles, free: Bools) -> Doubles:
        """Climb from these weights, moving only the `free` [P] ones."""
        if not free.any():
            return weights
        here = self._log_probabilities(weights)
        value = float(self.shares @ here) + self._log_prior(weights)
        for _ in range(_STEPS):
            slope, curvature = self._derivatives(weights, np.exp(here))
            step = np.zeros_like(weights)
            step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
            gain = float(slope @ step)
            while gain > _ENOUGH * (1 + abs(value)):
                # Kept for the next derivatives: half of the time goes into these.
                there = self._log_probabilities(weights + step)
                new = float(self.shares @ there) + self._log_prior(weights + step)
                if new >= value:
                    break
                step, gain = step / 2, gain / 2
            else:
                break
            weights, value, here = weights + step, new, there
        return weights

    def _log_probabilities(self, weights: Doubles) -> Doubles:
        utilities, starts = self.features @ weights + self.known, self.offsets[:-1]
        lengths = np.diff(self.offsets)
        utilities -= np.repeat(np.maximum.reduceat(utilities, starts), lengths)
        total = np.log(np.add.reduceat(np.exp(utilities), starts))
        out: Doubles = utilities - np.repeat(total, lengths)
        return out

    def _derivatives(self, weights: Doubles, probabilities: Doubles) -> tuple[Doubles, Doubles]:
        """Return the slope [P] and the negative curvature [P, P] of the log-density.

        `probabilities` [F] are those of the options under the weights [P].
        """
        weighted = self.features * probabilities[:, None]
        expected = np.add.reduceat(weighted, self.offsets[:-1])  # [M, P]
        precision = np.zeros(len(weights)) + 1 / np.square(self.sd)
        slope = (self.shares - probabilities) @ self.features - (weights - self.mean) * precision
        curvature = weighted.T @ self.features - expected.T @ expected
        return slope, curvature + np.diag(precision)
