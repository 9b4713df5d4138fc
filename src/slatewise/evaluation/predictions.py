"""What a recommender said before each interaction, about the options in front of the user."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of, ranges
from slatewise.errors import SlatewiseError
from slatewise.evaluation.rows import Floats, log_normaliser, row_numbers, sum_rows

TOLERANCE: Final = 1e-4
"""How far the probabilities of one interaction may add up from 1 (float32 models)."""


@dataclass(frozen=True)
class Slates:
    """N scored interactions: the items seen and the outcome."""

    users: Int64Array
    """[N] the user, numbered within the batch, or within the dataset once collected"""
    sources: npt.NDArray[np.uint8]
    """[N]"""
    clicks: npt.NDArray[np.int32]
    """[N] position in the slate, -1 for no click"""
    offsets: Int64Array
    """[N + 1] the slate of n is `items[offsets[n] : offsets[n + 1]]`"""
    items: npt.NDArray[np.int32]
    """[F]"""
    further: npt.NDArray[np.int32] | None = field(default=None, kw_only=True)
    """[N] clicks made before on the same slate; None where no slate has several"""

    @classmethod
    def of(cls, interactions: Interactions, scored: Tensor) -> "Slates":
        """Take the interactions that `scored` [N] bool marks, in their order.

        Of a slate that was clicked before, only the items that are left to choose from:
        `interactions.choices(scored)`.
        """
        several = interactions.several
        everything = Slates(
            users=row_numbers(interactions.user_offsets.numpy()),
            sources=interactions.sources.numpy(),
            clicks=interactions.clicks.numpy(),
            offsets=interactions.slate_offsets.numpy(),
            items=interactions.slate_items.numpy(),
            further=None if several is None else several.further.numpy(),
        )
        slates, cells = everything.take(np.flatnonzero(scored.numpy()))
        return slates if several is None else slates._without(several.taken.numpy()[cells])

    def _without(self, taken: npt.NDArray[np.bool_]) -> "Slates":
        """Leave out the items that `taken` [F] marks."""
        gone = offsets_of(taken.astype(np.int64))  # [F + 1] how many are left out before each
        own = gone[self.offsets[:-1] + self.clicks.clip(min=0)] - gone[self.offsets[:-1]]
        clicks = np.where(self.clicks >= 0, self.clicks - own, -1).astype(np.int32)
        offsets = self.offsets - gone[self.offsets]
        return replace(self, clicks=clicks, offsets=offsets, items=self.items[~taken])

    def take(self, rows: Int64Array) -> "tuple[Slates, Int64Array]":
        """Return the slates of the interactions `rows` [M], and which cells [F'] they hold."""
        starts, lengths = self.offsets[rows], self.scroll_lengths[rows]
        cells = ranges(starts, lengths)
        taken = Slates(
            self.users[rows],
            self.sources[rows],
            self.clicks[rows],
            offsets_of(lengths),
            self.items[cells],
            further=None if self.further is None else self.further[rows],
        )
        return taken, cells

    def __len__(self) -> int:
        """Return N, the number of interactions."""
        return len(self.clicks)

    @property
    def scroll_lengths(self) -> Int64Array:
        """[N] how many items of each slate were seen."""
        return np.diff(self.offsets)

    @property
    def first_choices(self) -> npt.NDArray[np.bool_]:
        """[N] whether an interaction is not a further click on a slate."""
        if self.further is None:
            return np.ones(len(self), dtype=np.bool_)
        first: npt.NDArray[np.bool_] = self.further == 0
        return first

    @property
    def clicked_cells(self) -> tuple[Int64Array, Int64Array]:
        """The interactions with a click [M], and the cell of each click [M]."""
        rows = np.flatnonzero(self.clicks >= 0)
        return rows, self.offsets[rows] + self.clicks[rows]


@dataclass(frozen=True)
class Predictions(Slates):
    """Log-probabilities of a click on each item and of no click, before each of N interactions.

    On a slate that was clicked before, no click means that the user leaves it. Over the items of a
    slate and no click together, the probabilities add up to 1.
    """

    log_probabilities: Floats
    """[F] of a click on each item seen"""
    no_click_log_probabilities: Floats
    """[N]"""

    def __post_init__(self) -> None:
        """Refuse what cannot be probabilities."""
        cells, rows = len(self.items), len(self.clicks)
        shapes = [len(self.users), len(self.sources), len(self.no_click_log_probabilities)]
        if shapes != [rows] * 3 or len(self.offsets) != rows + 1 or self.offsets[-1] != cells:
            raise SlatewiseError("predictions: the arrays over interactions differ in length.")
        if len(self.log_probabilities) != cells:
            raise SlatewiseError("predictions: there must be one log-probability per item seen.")
        for values in (self.log_probabilities, self.no_click_log_probabilities):
            if not np.isfinite(values).all():
                raise SlatewiseError(
                    "predictions: a log-probability is not finite.",
                    "Give every option some probability, and compute in logarithms.",
                )
        total = sum_rows(np.exp(self.log_probabilities), self.offsets)
        worst = np.abs(total + np.exp(self.no_click_log_probabilities) - 1).max(initial=0.0)
        if worst > TOLERANCE:
            raise SlatewiseError(
                f"predictions: the probabilities of an interaction add up to 1 ± {worst:.2g}.",
                "Let items and no click together have probability 1.",
            )

    @classmethod
    def from_utilities(
        cls, slates: Slates, utilities: npt.ArrayLike, no_click_utilities: npt.ArrayLike
    ) -> "Predictions":
        """Make probabilities by a softmax over the items of a slate [F] and no click [N]."""
        items = np.asarray(utilities, dtype=np.float64)
        no_click = np.asarray(no_click_utilities, dtype=np.float64)
        total = log_normaliser(items, no_click, slates.offsets)
        return Predictions(
            slates.users,
            slates.sources,
            slates.clicks,
            slates.offsets,
            slates.items,
            items - np.repeat(total, slates.scroll_lengths),
            no_click - total,
            further=slates.further,
        )

    @classmethod
    def concatenate(cls, batches: Sequence["Predictions"]) -> "Predictions":
        """Put batches one after the other; their user numbers must already be distinct."""
        lengths = np.concatenate([batch.scroll_lengths for batch in batches])
        columns = {
            name: np.concatenate([getattr(batch, name) for batch in batches])
            for name in (each.name for each in fields(cls))
            if name not in {"offsets", "further"}
        }
        several = any(batch.further is not None for batch in batches)
        further = [
            np.zeros(len(batch)) if batch.further is None else batch.further for batch in batches
        ]
        return cls(
            **columns,
            offsets=offsets_of(lengths),
            further=np.concatenate(further).astype(np.int32) if several else None,
        )

    def of_users(self, users: Int64Array) -> Self:
        """Return the same predictions with user b renamed to `users[b]`."""
        return replace(self, users=users[self.users])

    def log_likelihood(self) -> Floats:
        """Return the log-probability of what happened: [N].

        Of a further click on a slate, given that there was one: which of the items left it was.
        """
        out = self.no_click_log_probabilities.copy()
        rows, cells = self.clicked_cells
        out[rows] = self.log_probabilities[cells]
        if self.further is not None:
            more = np.flatnonzero(self.further > 0)
            out[more] -= np.log(np.maximum(self.click_probabilities()[more], np.exp(out[more])))
        return out

    def click_probabilities(self) -> Floats:
        """Return the probability of any click: [N]."""
        return -np.expm1(np.minimum(self.no_click_log_probabilities, 0.0))
