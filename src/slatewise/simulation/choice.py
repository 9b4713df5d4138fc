"""How users scroll and choose: two truths about relevance, one rule for the choice.

Relevance is exp(utility). Having seen the first s items of a slate, the user takes item i with
probability relevance_i / (Σ relevance of the seen items + relevance of no click): eq. click-softmax
of the paper, whatever the utility.
"""

from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from slatewise.simulation.arrays import Doubles, Floats, Ints
from slatewise.simulation.config import OutsideConfig, PaperConfig
from slatewise.simulation.space import Space


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
        """Draw a scroll length for each of B users, [B]."""
        return 1 + np.searchsorted(self._cumulative, rng.random(users), side="right")


class Truth(Protocol):
    """What makes an item attractive, and what makes nothing attractive."""

    @property
    def no_click(self) -> Doubles:
        """Utility of clicking nothing after a scroll of 1..S items, [S]."""

    @property
    def quality(self) -> Floats | None:
        """Utility that an item has for every user, [I]; None if the truth has none."""

    def utility(self, state: Floats, slates: Ints) -> Floats:
        """Utility of the items in `slates` [B, S] to users in `state` [B, D]: [B, S]."""


class PaperTruth:
    """Utility −‖z − v‖ and no-click relevance β_s, increasing in s: the paper's own model."""

    quality: Floats | None = None

    def __init__(self, config: PaperConfig, space: Space, longest: int) -> None:
        s = np.arange(1, longest + 1)
        self.no_click: Doubles = config.no_click + config.no_click_growth * np.log(s)
        self._vectors = space.vectors

    def utility(self, state: Floats, slates: Ints) -> Floats:
        """Return −‖z − v‖, [B, S]."""
        return -distances(state, self._vectors[slates])


class OutsideTruth:
    """Utility sharpness · z·v + quality − position_bias · log j: no distance model can match it.

    Position enters as examination does in click models: a factor j^−bias of the relevance.
    """

    def __init__(
        self, config: OutsideConfig, space: Space, longest: int, rng: np.random.Generator
    ) -> None:
        quality = rng.standard_normal(len(space.vectors), dtype=np.float32)
        self.quality: Floats | None = quality * np.float32(config.quality_sd)  # [I]
        self.no_click: Doubles = np.full(longest, config.no_click)
        self._vectors = space.vectors
        self._sharpness = np.float32(config.sharpness)
        bias = config.position_bias * np.log(np.arange(1, longest + 1))
        self._position: Floats = bias.astype(np.float32)  # [S]

    def utility(self, state: Floats, slates: Ints) -> Floats:
        """Return the sum of the three terms, [B, S]."""
        assert self.quality is not None
        match = np.einsum("bd,bsd->bs", state, self._vectors[slates])
        return np.asarray(self._sharpness * match + self.quality[slates] - self._position)


def distances(state: Floats, vectors: Floats) -> Floats:
    """Euclidean distances from `state` [B, D] to `vectors` [B, S, D], which it overwrites."""
    vectors -= state[:, None]
    return np.asarray(np.sqrt(np.einsum("bsd,bsd->bs", vectors, vectors)))


class ChoiceProbabilities(NamedTuple):
    """Exact probabilities of what users do with the part of a slate they have seen."""

    items: Doubles
    """Probability of a click at each position, 0 where the user did not scroll, [B, S]."""

    no_click: Doubles
    """Probability of no click, [B]."""


def choice_probabilities(
    relevance: Doubles, no_click: Doubles, scroll: Ints
) -> ChoiceProbabilities:
    """Choice given the scroll length (eq. click-softmax).

    `relevance` [B, S] of the items, `no_click` [S] utility by scroll length, `scroll` [B].
    """
    seen = relevance * (np.arange(relevance.shape[1]) < scroll[:, None])  # [B, S]
    nothing = np.exp(no_click)[scroll - 1]  # [B]
    total = seen.sum(axis=1) + nothing
    return ChoiceProbabilities(seen / total[:, None], nothing / total)


def click_probability(relevance: Doubles, no_click: Doubles, scroll_pmf: Doubles) -> Doubles:
    """Probability of any click, the scroll length summed out exactly: [B].

    With R_s the summed relevance of the first s items, Σ_s P(s) · R_s / (R_s + β_s).
    """
    summed = np.cumsum(relevance, axis=1)  # [B, S]
    return np.asarray(summed / (summed + np.exp(no_click)) @ scroll_pmf)


def draw_positions(choice: ChoiceProbabilities, rng: np.random.Generator) -> Ints:
    """Draw the clicked position, −1 for no click, in one categorical draw per user: [B]."""
    click = np.cumsum(choice.items, axis=1)  # [B, S]
    passed = (click <= rng.random(len(click))[:, None]).sum(axis=1)
    # The sum over all items is 1 − P(no click): past it lies the no-click option.
    return np.where(passed < click.shape[1], passed, -1)
