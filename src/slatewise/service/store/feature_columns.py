"""Features of many items, as they were given one by one, put into columns of one type each.

A value of another type than most of its column is unknown. R items.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import polars as pl

from slatewise.data.columns import Columns
from slatewise.features.item_dates import MISSING, read_dates
from slatewise.features.item_values import is_finite
from slatewise.service.store.features import Features


def feature_columns(
    pages: Iterable[Sequence[Features]], known: Mapping[str, pl.Series] | None = None
) -> list[pl.Series]:
    """Return the features of items, page after page, as columns [R] by their names.

    `known` columns have their type already, and are there whether they are given or not.
    """
    known, count = known or {}, 0
    given: dict[str, list[object]] = {name: [] for name in known}
    for page in pages:
        for name in {name for features in page for name in features} | known.keys():
            values = given.setdefault(name, [])
            values += [None] * (count - len(values))
            values += [features.get(name) for features in page]
        count += len(page)
    return [
        _typed(name, [*given[name], *[None] * (count - len(given[name]))], known.get(name))
        for name in sorted(given.keys() - {Columns.ITEM, Columns.GROUP})
    ]


def _typed(name: str, values: Sequence[object], known: pl.Series | None) -> pl.Series:
    """Return values as a column of the type that is known, or of the one that they suggest."""
    dtype = _suggested(values) if known is None else known.dtype
    if isinstance(dtype, pl.Datetime):
        times = pl.Series(name, read_dates(values)[0])
        return times.set(times == MISSING, None).cast(dtype)
    fitting = [_fitting(value, dtype) for value in values]
    if dtype == pl.List(pl.Float64):
        before = [] if known is None else known.drop_nulls().head(1).to_list()
        length = len(next(iter([*before, *(one for one in fitting if one is not None)]), []))
        fitting = [one if one is not None and len(one) == length else None for one in fitting]
    return pl.Series(name, fitting, dtype)


def _suggested(values: Sequence[object]) -> pl.DataType:
    """Return the type of most values."""
    known = [value for value in values if value is not None]
    lists = [value for value in known if isinstance(value, list)]
    if len(lists) * 2 > len(known):
        parts = [part for value in lists for part in value]
        return pl.List(pl.String if _are_texts(parts) else pl.Float64)
    if _are_texts(known):
        return pl.String()
    return pl.Int64() if all(isinstance(value, int) for value in known) else pl.Float64()


def _are_texts(values: Sequence[object]) -> bool:
    return sum(isinstance(value, str | bool) for value in values) * 2 > len(values)


def _fitting(value: Any, dtype: pl.DataType) -> Any:
    """Return a value as one of a type, None where it is none."""
    if isinstance(value, list) != isinstance(dtype, pl.List):
        return None
    if dtype == pl.List(pl.String):
        return [str(part) for part in value]
    if dtype == pl.List(pl.Float64):
        return [float(part) for part in value] if all(map(is_finite, value)) else None
    if dtype == pl.String and value is not None:
        return str(value).lower() if isinstance(value, bool) else str(value)
    fits = is_finite(value) and (dtype == pl.Float64 or abs(value) < 1 << 63)
    return (float(value) if dtype == pl.Float64 else int(value)) if fits else None
