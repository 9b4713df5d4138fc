"""A slate as it was shown, with the numbers that a model needs to learn from its answer.

Histories, popularity and the network's utilities are those of the moment at which the slate was
made. They are reduced to a few numbers, so that learning needs none of them again.

Shapes: k items, D dimensions.
"""

import base64
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.features.user_history import UserHistory
from slatewise.model.fitted import SlateModel
from slatewise.model.parameters import Parameters
from slatewise.model.terms.position import RETURNS
from slatewise.slates.exact import ExactRanker

Floats = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


class ShownSlate(NamedTuple):
    """The items of a slate, and what stood in their utilities beside relevance and bias."""

    rows: Ints
    """[k] the items, as rows of the model's table"""
    profile: Floats
    """[D] where the user was, by the posterior mean"""
    no_click: float
    """what source and user add to the utility of clicking nothing"""
    offsets: Floats
    """[k] what terms and positions add to the utilities of items"""

    def packed(self) -> str:
        """Return all numbers as text, in 4 bytes each, for a log."""
        parts = (
            self.rows.astype("<i4").tobytes(),
            self.profile.astype("<f4").tobytes(),
            np.array([self.no_click], "<f4").tobytes(),
            self.offsets.astype("<f4").tobytes(),
        )
        return base64.b64encode(b"".join(parts)).decode("ascii")

    @classmethod
    def unpacked(cls, text: str, dimensions: int) -> "ShownSlate":
        """Take over what `packed` wrote; ValueError if that is something else."""
        numbers = base64.b64decode(text, validate=True)
        count = len(numbers) // 4 - dimensions - 1
        if count < 0 or count % 2 or len(numbers) % 4:
            raise ValueError("these are not the numbers of a slate")
        k = count // 2
        values = np.frombuffer(numbers, "<f4", offset=4 * k)
        return cls(
            np.frombuffer(numbers, "<i4", k).astype(np.int64),
            values[:dimensions].astype(np.float32),
            float(values[dimensions]),
            values[dimensions + 1 :].astype(np.float32),
        )


class SlateView:
    """Computes the numbers that a model keeps of a slate when it is shown."""

    def __init__(self, model: SlateModel, ranker: ExactRanker) -> None:
        self._ranker = ranker
        parameters: Parameters = model.posterior.mean()
        self._of_no_click = {
            name: term for name, term in model.terms.by_name.items() if term.acts_on == "no click"
        }
        shared = model.posterior.shared
        self._weights = {
            name: shared[name].mean.detach().cpu().numpy() for name in self._of_no_click
        }
        self._positions, self._factors, self._sources = (
            None if one is None else one.detach().cpu().numpy().astype(np.float64)
            for one in (
                parameters.positions,
                parameters.position_factors,
                parameters.source_no_click,
            )
        )

    def of(
        self, history: UserHistory, rows: Ints, source: int, time: int | None = None
    ) -> ShownSlate:
        """Return a slate of items at rows [k], shown to a user with a history, from a source.

        At a time, or without it, at the moment at which terms last learned of items.
        """
        offsets = self._ranker.terms.in_slate(history, rows, source, time)
        if self._positions is not None:
            last = len(self._positions) - 1
            added = self._positions[np.minimum(np.arange(len(rows)), last)]
            offsets = offsets + self._position_factor(len(history), source) * added
        no_click = 0.0 if self._sources is None else float(self._sources[source])
        for name, term in self._of_no_click.items():
            no_click += float(term.before_slate(history) @ self._weights[name])
        profile = self._ranker.mean_profile(history)
        return ShownSlate(rows, profile, no_click, offsets.astype(np.float32))

    def _position_factor(self, slates_before: int, source: int) -> float:
        if self._factors is None:
            return 1.0
        own, returns = self._factors[: -len(RETURNS)], self._factors[-len(RETURNS) :]
        seen = slates_before >= np.array(RETURNS)
        return float(np.exp(own[source] + (seen * returns).sum()))
