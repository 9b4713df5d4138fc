"""How far a user scrolls."""

from functools import cached_property

import numpy as np

from slatewise.simulation.arrays import Doubles, Ints


class Scroll:
    """A Poisson scroll length truncated to 1..S, the same for every user and source.

    The paper's P(s) = Poisson(s; λ_s), which has mass outside the slate; here that mass is shared
    out in proportion.
    """

    def __init__(self, rate: float, longest: int) -> None:
        s = np.arange(1, longest + 1)
        log_mass = s * np.log(rate) - np.cumsum(np.log(s))
        mass = np.exp(log_mass - log_mass.max())
        self.pmf: Doubles = mass / mass.sum()
        """Probability of the scroll lengths 1..S, [S]."""

    @cached_property
    def mean(self) -> float:
        """Mean scroll length, in items."""
        return float(self.pmf @ np.arange(1, len(self.pmf) + 1))

    @cached_property
    def _cumulative(self) -> Doubles:
        return np.cumsum(self.pmf)[:-1]

    def draw(self, users: int, rng: np.random.Generator) -> Ints:
        """Draw a scroll length for each of so many users, [B]."""
        return 1 + np.searchsorted(self._cumulative, rng.random(users), side="right")
