"""Maximum likelihood of a choice that is linear in a few numbers."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from slatewise.evaluation.predictions import Slates
from slatewise.evaluation.rows import Bools, Floats, log_normaliser, sum_rows

_STEPS: Final = 50
_ENOUGH: Final = 1e-10


@dataclass(frozen=True)
class LinearChoice:
    """Utilities x·θ of the items and of no click; P numbers θ under a Gaussian prior.

    The log-likelihood of a softmax of linear utilities is concave, and with the prior strictly so:
    Newton's method with step halving finds its one maximum.
    """

    slates: Slates
    items: Floats
    """[F, P]"""
    no_click: Floats
    """[N, P]"""
    mean: Floats
    """[P] of the prior"""
    sd: Floats
    """[P] of the prior"""

    def fit(self, least: float) -> Floats:
        """Return the θ [P] of greatest posterior density whose first number is `least` or more."""
        free = np.ones(len(self.mean), dtype=bool)
        best = self._newton(self.mean.copy(), free)
        if best[0] < least:
            # The density is concave: the constrained maximum lies on the boundary.
            free[0] = False
            best = self._newton(np.concatenate([[least], best[1:]]), free)
        return best

    def _newton(self, theta: Floats, free: Bools) -> Floats:
        if not free.any():
            return theta
        value = self.log_density(theta)
        for _ in range(_STEPS):
            slope, curvature = self._derivatives(theta)
            step = np.zeros_like(theta)
            step[free] = np.linalg.solve(curvature[np.ix_(free, free)], slope[free])
            gain = float(slope @ step)
            while (new := self.log_density(theta + step)) < value and gain > _ENOUGH:
                step /= 2
                gain /= 2
            if gain <= _ENOUGH * (1 + abs(value)):
                break
            theta, value = theta + step, new
        return theta

    def log_density(self, theta: Floats) -> float:
        """Return log-likelihood + log prior, up to a constant."""
        utilities, no_click = self.items @ theta, self.no_click @ theta
        chosen = no_click.copy()
        rows, cells = self.slates.clicked_cells
        chosen[rows] = utilities[cells]
        total = log_normaliser(utilities, no_click, self.slates.offsets)
        prior = ((theta - self.mean) / self.sd) ** 2
        return float((chosen - total).sum() - prior.sum() / 2)

    def _derivatives(self, theta: Floats) -> tuple[Floats, Floats]:
        """Return the slope [P] and the negative curvature [P, P] of the log-density."""
        slates = self.slates
        utilities, no_click = self.items @ theta, self.no_click @ theta
        total = log_normaliser(utilities, no_click, slates.offsets)
        share = np.exp(utilities - np.repeat(total, slates.scroll_lengths))  # [F]
        rest = np.exp(no_click - total)  # [N]
        weighted, waiting = self.items * share[:, None], self.no_click * rest[:, None]
        expected = sum_rows(weighted, slates.offsets) + waiting  # [N, P]
        rows, cells = slates.clicked_cells
        slope = self.items[cells].sum(axis=0) - expected.sum(axis=0)
        slope += self.no_click.sum(axis=0) - self.no_click[rows].sum(axis=0)
        slope -= (theta - self.mean) / self.sd**2
        curvature = weighted.T @ self.items + waiting.T @ self.no_click - expected.T @ expected
        return slope, curvature + np.diag(1 / self.sd**2)
