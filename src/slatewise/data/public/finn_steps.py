"""FINN's padded arrays, turned into interactions: what is a step, an item, a click."""

from collections import Counter
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final

import numpy as np
import polars as pl
import pyarrow as pa
from numpy.typing import NDArray

from slatewise.data.columns import Columns
from slatewise.data.public.tally import Tally
from slatewise.errors import InputError

PAD, NO_CLICK, UNKNOWN, FIRST_ITEM = range(4)
"""The meaning of the smallest item ids; the no-click item stands in every slate, first."""

UNDEFINED: Final = 0
SOURCES: Final = {1: "search", 2: "recommendation"}
"""Values of `interaction_type`."""

PER_STEP: Final = ("click", "click_idx", "slate_lengths", "interaction_type")
DOUBT_LIMIT: Final = 0.01
"""Share of interactions whose auxiliary arrays may disagree before the file counts as damaged."""

Array = NDArray[Any]


@dataclass(frozen=True)
class Steps:
    """Some steps of some users; all arrays run over the steps."""

    number: Array
    """Position among all steps of the block: user in the block × T + step of the user."""

    slate: Array
    click: Array
    click_idx: Array
    slate_lengths: Array
    interaction_type: Array

    @classmethod
    def of_block(cls, block: dict[str, Array]) -> "Steps":
        """Flatten arrays that run over users and steps."""
        slate = block["slate"].reshape(-1, block["slate"].shape[2])
        return cls(np.arange(len(slate)), slate, *(block[name].reshape(-1) for name in PER_STEP))

    def where(self, mask: NDArray[np.bool_]) -> "Steps":
        """Return the steps chosen by `mask`."""
        return Steps(*(getattr(self, field.name)[mask] for field in fields(self)))

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Whether any item, known or not, was shown."""
        return np.asarray((self.slate >= UNKNOWN).any(axis=1))

    @property
    def padding(self) -> NDArray[np.bool_]:
        """Whether the step only fills the array up to the longest user."""
        blank = (self.click == PAD) | (self.interaction_type == UNDEFINED)
        return np.asarray(blank & ~self.shown)

    @property
    def missing(self) -> Array:
        """How many items the recorded length counts that the slate does not have.

        One in eight slates was published with an item taken out of it, now and then the clicked
        one; their recorded length is one too large. The slate itself is the authority.
        """
        return np.asarray(self.slate_lengths - (self.slate != PAD).sum(axis=1))

    @property
    def click_in_slate(self) -> NDArray[np.bool_]:
        """Whether the click is a choice the slate offered; not clicking always is."""
        offered = (self.slate == self.click[:, None]).any(axis=1)
        return np.asarray(offered | (self.click == NO_CLICK))

    @property
    def click_at_index(self) -> NDArray[np.bool_]:
        """Whether `click_idx` points at the click."""
        last = self.slate.shape[1] - 1
        pointed = self.slate[np.arange(len(self.slate)), np.clip(self.click_idx, 0, last)]
        in_range = (self.click_idx >= 0) & (self.click_idx <= last)
        return np.asarray(in_range & (pointed == self.click))


def require_range(file: Path, block: dict[str, Array], start: int, items: int) -> None:
    """Raise for ids that do not exist: the first sign of a file that is something else."""
    for name, end in (("slate", items), ("click", items), ("interaction_type", len(SOURCES) + 1)):
        array = block[name]
        if array.size and not (array.min() >= 0 and array.max() < end):
            where = tuple(np.argwhere((array < 0) | (array >= end))[0].tolist())
            problem = f"found {array[where]} at step {where[1]}, expected 0 to {end - 1:,}."
            raise damaged(file, name, problem, row=start + where[0])


def interactions(
    file: Path, block: dict[str, Array], start: int, tally: Tally, doubts: Counter[str]
) -> pl.DataFrame:
    """Return the interactions of a block of users that has `start` users before it.

    `doubts` counts, over all blocks, interactions whose auxiliary arrays contradict the slate.
    """
    length = block["slate"].shape[1]
    steps = Steps.of_block(block)
    tally.looked_at += len(steps.number)
    tally.note("padding steps, which are no interactions", int(steps.padding.sum()))
    steps = steps.where(~steps.padding)
    tally.read += len(steps.number)
    for name, disagrees in _disagreements(steps).items():
        doubts[name] += int(disagrees.sum())
        if doubts[name] > DOUBT_LIMIT * tally.read:
            user, step = divmod(int(steps.number[disagrees.argmax()]), length)
            problem = f"at step {step} it does not agree with the slate."
            raise damaged(file, name, problem, row=start + user)
        tally.note(f"interactions whose {name} disagrees with the slate", int(disagrees.sum()))
    steps = _usable(steps, tally)
    tally.note("unknown items taken out of slates", int((steps.slate == UNKNOWN).sum()))
    tally.note("slates published with one item missing", int((steps.missing == 1).sum()))
    return _frame(steps, block["userId"], length)


def _disagreements(steps: Steps) -> dict[str, NDArray[np.bool_]]:
    # Undefined steps are left out anyway, and shortened slates have every right to disagree.
    judged = (steps.interaction_type != UNDEFINED) & steps.shown & (steps.missing != 1)
    clicked = judged & (steps.click >= FIRST_ITEM)
    return {
        "slate_lengths": judged & (steps.missing != 0),
        "click": clicked & ~steps.click_in_slate,
        "click_idx": judged & (steps.click != PAD) & steps.click_in_slate & ~steps.click_at_index,
    }


def _usable(steps: Steps, tally: Tally) -> Steps:
    kept = np.ones(len(steps.number), dtype=bool)
    for reason, applies in {
        "interaction type undefined": steps.interaction_type == UNDEFINED,
        "no item shown": ~steps.shown,
        "neither a click nor a no-click recorded": steps.click == PAD,
        "click on an unknown item": steps.click == UNKNOWN,
        "the clicked item is missing from the slate": ~steps.click_in_slate,
        "every item shown is unknown": ~(steps.slate >= FIRST_ITEM).any(axis=1),
    }.items():
        tally.leave_out(reason, int((kept & applies).sum()))
        kept &= ~applies
    return steps.where(kept)


def _frame(steps: Steps, users: Array, length: int) -> pl.DataFrame:
    return pl.DataFrame(
        {
            Columns.USER: users[steps.number // length].astype(np.int64),
            Columns.TIME: (steps.number % length).astype(np.int64),
            Columns.SLATE: _lists(steps.slate, steps.slate >= FIRST_ITEM),
            Columns.CLICK: steps.click.astype(np.int64),
            Columns.SOURCE: steps.interaction_type.astype(np.int64),
        }
    ).with_columns(
        pl.col(Columns.CLICK).replace(NO_CLICK, None),
        pl.col(Columns.SOURCE).replace_strict(SOURCES, return_dtype=pl.String),
    )


def _lists(values: Array, chosen: NDArray[np.bool_]) -> pl.Series:
    """Return one list per row of the `chosen` values, in their order."""
    ends = np.concatenate([[0], np.cumsum(chosen.sum(axis=1))]).astype(np.int64)
    flat = pa.array(values[chosen].astype(np.int64))
    return pl.Series(pl.from_arrow(pa.LargeListArray.from_arrays(pa.array(ends), flat)))


def damaged(file: Path, column: str, problem: str, row: int | None = None) -> InputError:
    """Return the error for a published array that cannot be right; `row` counts from 0."""
    row = None if row is None else row + 1
    return InputError(problem, "Fetch the file again.", file=file, row=row, column=column)
