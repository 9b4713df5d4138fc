"""Which item of a slate was clicked, given that one was: a softmax of few features."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array

Doubles = npt.NDArray[np.float64]

_STEPS: Final = 50
_ENOUGH: Final = 1e-8
_PRIOR_SD: Final = 10.0


@dataclass(frozen=True)
class ConditionalLogit:
    """M clicked slates; the utility of a cell is its features times P weights.

    The weights have a wide Gaussian prior (sd 10), so that there is one greatest density even
    where a feature is constant, and Newton's method with step halving finds it.
    """

    features: Doubles
    """[F, P]"""
    offsets: Int64Array
    """[M + 1] where each slate begins; none is empty"""
    chosen: Int64Array
    """[M] the cell clicked in each"""

    def fit(self) -> tuple[Doubles, float]:
        """Return the weights [P] of greatest density and the log-likelihood there."""
        weights = np.zeros(self.features.shape[1])
        value = self._log_density(weights)
        for _ in range(_STEPS):
            slope, curvature = self._derivatives(weights)
            step = np.linalg.solve(curvature, slope)
            gain = float(slope @ step)
            while (new := self._log_density(weights + step)) < value and gain > _ENOUGH:
                step, gain = step / 2, gain / 2
            if gain <= _ENOUGH * (1 + abs(value)):
                break
            weights, value = weights + step, new
        return weights, self.log_likelihood(weights)

    def log_likelihood(self, weights: Doubles) -> float:
        """Return the sum over slates of the log-probability of the click."""
        return float(np.log(self._shares(weights)[self.chosen]).sum())

    def _log_density(self, weights: Doubles) -> float:
        prior = float(weights @ weights) / (2 * _PRIOR_SD**2)
        return self.log_likelihood(weights) - prior

    def _shares(self, weights: Doubles) -> Doubles:
        utilities, lengths = self.features @ weights, np.diff(self.offsets)
        top = np.maximum.reduceat(utilities, self.offsets[:-1])
        parts = np.exp(utilities - np.repeat(top, lengths))
        shares: Doubles = parts / np.repeat(np.add.reduceat(parts, self.offsets[:-1]), lengths)
        return np.maximum(shares, np.finfo(np.float64).tiny)

    def _derivatives(self, weights: Doubles) -> tuple[Doubles, Doubles]:
        """Return the slope [P] and the negative curvature [P, P] of the log-density."""
        weighted = self.features * self._shares(weights)[:, None]
        expected = np.add.reduceat(weighted, self.offsets[:-1])  # [M, P]
        slope = self.features[self.chosen].sum(axis=0) - expected.sum(axis=0)
        curvature = weighted.T @ self.features - expected.T @ expected
        ridge = 1 / _PRIOR_SD**2
        return slope - ridge * weights, curvature + ridge * np.eye(len(weights))
