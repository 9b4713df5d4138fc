"""Features of single new items, encoded after an encoder was fitted.

A table is refused as a whole for one bad row. An item that comes later may miss some values, and a
value that does not fit is reported at once.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeGuard

import numpy as np
import polars as pl

from slatewise.errors import InputError
from slatewise.features.item_features import (
    CategoryColumn,
    Column,
    EmbeddingColumn,
    Floats,
    ItemEncoder,
    NumberColumn,
    TagsColumn,
)

FARTHEST: Final = 1_000.0
"""Standard deviations from the mean beyond which a value is a mistake: none of a million values can
be farther from their own mean."""

_TYPES: Final = {
    "number": pl.Float64(),
    "category": pl.String(),
    "tags": pl.List(pl.String()),
    "embedding": pl.List(pl.Float64()),
}


def encode_values(
    encoder: ItemEncoder, items: Sequence[Mapping[str, object]]
) -> tuple[Floats, int]:
    """Encode items with values by column, [R, Q], and count the values that do not fit.

    Those count as missing, as do columns that an item does not have; columns that the encoder does
    not know are ignored.
    """
    if not encoder.columns:
        return np.empty((len(items), 0), np.float32), 0
    columns, misfits = {}, 0
    for column in encoder.columns:
        values = [item.get(column.name) for item in items]
        fitting = [value if misfit(column, value) is None else None for value in values]
        misfits += fitting.count(None) - values.count(None)
        plain = [None if value is None else _plain(column, value) for value in fitting]
        columns[column.name] = pl.Series(column.name, plain, dtype=_TYPES[column.kind])
    return encoder.encode(pl.DataFrame(columns)), misfits


def refuse_misfits(
    encoder: ItemEncoder, values: Mapping[str, object], *, row: int | None = None
) -> None:
    """Refuse values of an item that do not fit their columns; ignore other columns."""
    for column in encoder.columns:
        problem = misfit(column, values.get(column.name))
        if problem is not None:
            raise InputError(
                f"{problem}.",
                "Correct it, or leave it out where it is unknown.",
                row=row,
                column=column.name,
            )


def misfit(column: Column, value: object) -> str | None:
    """Return why a value does not fit a column, or None if it fits. Missing values always fit."""
    if value is None:
        return None
    if isinstance(column, NumberColumn):
        return _of_number(column, value)
    if isinstance(column, CategoryColumn):
        fits = isinstance(value, str) or is_finite(value)
        return None if fits else "a category is one text"
    if isinstance(column, TagsColumn):
        fits = _is_list(value) and all(isinstance(tag, str) or is_finite(tag) for tag in value)
        return None if fits else "tags are a list of texts"
    return _of_vector(column, value)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str)


def _of_number(column: NumberColumn, value: object) -> str | None:
    if not is_finite(value):
        return f"{str(value)[:40]!r} is no number"
    far = abs(float(value) - column.mean) / column.sd
    if far <= FARTHEST:
        return None
    return f"{value:g} is {far:,.0f} standard deviations from the mean of training"


def _of_vector(column: EmbeddingColumn, value: object) -> str | None:
    if not (isinstance(value, Sequence) and all(map(is_finite, value))):
        return "an embedding is a list of numbers, all of them known"
    vector, mean = np.array(value, np.float64), np.array(column.mean)
    if len(vector) != len(mean):
        return f"the vector has {len(vector):,} numbers, those of training have {len(mean):,}"
    if (np.abs(vector - mean) > FARTHEST * column.scale).any():
        return f"the vector is over {FARTHEST:,.0f} times as far out as those of training"
    return None


def is_finite(value: object) -> TypeGuard[float]:
    """Return whether a value is a finite number."""
    try:
        return isinstance(value, int | float) and math.isfinite(value)
    except OverflowError:  # a whole number of hundreds of digits
        return False


def _plain(column: Column, value: Any) -> object:
    """Return a value that fits its column in the column's own type."""
    if isinstance(column, NumberColumn):
        return float(value)
    if isinstance(column, EmbeddingColumn):
        return [float(number) for number in value]
    if isinstance(column, TagsColumn):
        return [str(tag) for tag in value]
    # Truth values as polars writes them where it reads a column of them as a category.
    return str(value).lower() if isinstance(value, bool) else str(value)
