"""Conversion of column values to ids, times and slates.

Each conversion leaves null where a value does not parse; `parse` compares the nulls before and
after, and names the row of the first value that was lost.
"""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from slatewise.data import time_text
from slatewise.data.tables import BYTES_PER_ITEM, ROW
from slatewise.errors import InputError

IdType = type[pl.Int64] | type[pl.String]

_DELIMITERS = ("|", ";", ",", "\t")
_MICROSECONDS = {"d": 86_400_000_000, "s": 1_000_000, "ms": 1_000, "us": 1}
ORDER: Final = "order"
"""The unit of integers that only grow with time."""
_EARLIEST, _LATEST = 631_152_000, 2_208_988_800
"""The beginnings of 1990 and 2040, in seconds since 1970: row numbers and days are far below, and
the same span in one unit is none in another."""
_PER_SECOND: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_INTEGER = r"^\s*-?\d+\s*$"
_WHOLE = r"^\s*(-?\d+)\.0\s*$"
_FIRST, _LAST = (
    (moment - datetime(1970, 1, 1)) // timedelta(microseconds=1)
    for moment in (datetime.min, datetime.max)
)


def parse(
    batch: pl.DataFrame,
    column: str,
    convert: Callable[[pl.Series], pl.Series],
    *,
    file: Path,
    wanted: str,
    remedy: str | Callable[[pl.Series], str],
) -> pl.Series:
    """Convert a column, or raise an error with the row of the first value that does not fit.

    A remedy may depend on the column's values.
    """
    before = batch[column]
    try:
        after = convert(before)
    except pl.exceptions.PolarsError as error:
        advice = remedy if isinstance(remedy, str) else remedy(before)
        raise InputError(
            f"values of type {before.dtype} are not {wanted}.", advice, file=file, column=column
        ) from error
    lost = _missing(after) > _missing(before)
    if lost.any():
        at = int(lost.arg_max() or 0)
        raise InputError(
            f"{_shown(before, at)} is not {wanted}.",
            remedy if isinstance(remedy, str) else remedy(before),
            file=file,
            row=int(batch[ROW][at]),
            column=column,
        )
    return after.alias(column)


def _shown(values: pl.Series, at: int) -> str:
    """Return a value as Python writes it; of dates that Python cannot hold, their number."""
    one = values.slice(at, 1)
    return repr((one.to_physical() if one.dtype.is_temporal() else one).to_list()[0])


def _missing(values: pl.Series) -> pl.Series:
    """Count the missing values of each row: 1 for a null, in a list the nulls inside it."""
    missing = values.is_null().cast(pl.UInt32)
    if values.dtype == pl.List and values.explode(empty_as_null=False).null_count():
        missing += values.list.eval(pl.element().is_null()).list.sum().fill_null(0)
    return missing


def parse_ids(batch: pl.DataFrame, column: str, target: IdType, file: Path) -> pl.Series:
    """Convert a column of ids."""
    return parse(
        batch,
        column,
        partial(ids, target=target),
        file=file,
        wanted="an integer id" if target == pl.Int64 else "an id",
        remedy="Ids are text or integers below 2^63, of one kind in the whole column; "
        "write larger numbers as text.",
    )


def id_type(dtype: pl.DataType) -> IdType:
    """Return how ids of this type are stored: numbers as integers, everything else as text."""
    inner = dtype.inner if isinstance(dtype, pl.List) else dtype
    return pl.Int64 if inner.is_numeric() else pl.String


def ids(values: pl.Series, target: IdType) -> pl.Series:
    """Turn a column of ids into the target type."""
    if values.dtype.is_nested():
        raise pl.exceptions.SchemaError
    if values.dtype == target:
        return values
    return pl.select(_as_id(pl.lit(values), values.dtype, target)).to_series()


def id_lists(values: pl.Series, target: IdType) -> pl.Series:
    """Turn a column of lists of ids into lists of the target type."""
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List):
        raise pl.exceptions.SchemaError
    if values.dtype.inner == target:
        return values
    as_id = _as_id(pl.element(), values.dtype.inner, target)  # type: ignore[arg-type]
    return values.list.eval(as_id)


def _as_id(value: pl.Expr, dtype: pl.DataType, target: IdType) -> pl.Expr:
    if dtype.is_float():
        # Integers with gaps often come as decimals: 17.0 is 17, and 17.5 is no id.
        whole = value.cast(pl.Int64, strict=False)
        value = pl.when(whole == value).then(whole)
    return value.cast(target, strict=False)


def count_items(slates: pl.Series) -> npt.NDArray[np.integer]:
    """Count the items of each list in a column; for lists in text, estimate it."""
    if slates.dtype == pl.List:
        lengths = slates.list.len()
    elif slates.dtype == pl.String:
        lengths = slates.str.len_bytes() // BYTES_PER_ITEM
    else:
        return np.ones(len(slates), dtype=np.int64)
    return lengths.fill_null(0).to_numpy()


def singletons(values: pl.Series) -> pl.Series:
    """Turn single values into lists of one; null stays null."""
    return pl.select(pl.when(values.is_not_null()).then(pl.concat_list(values))).to_series()


def lists(values: pl.Series, delimiter: str | None) -> pl.Series:
    """Turn text into lists of text: JSON where it starts with a bracket, else delimited.

    Without a delimiter, text that is not JSON is a single value.
    """
    text = values.str.strip_chars()
    # Python writes its lists with single quotes.
    single = ~text.str.contains('"', literal=True)
    quoted = text.zip_with(~single, text.str.replace_all("'", '"', literal=True))
    bracketed = text.str.starts_with("[")
    decoded = _json_lists(quoted.set(~bracketed, None))
    plain = text.set(bracketed | (text == ""), None)
    split = singletons(plain) if delimiter is None else plain.str.split(delimiter)
    split = split.list.eval(pl.element().str.strip_chars())
    empty = pl.Series([[]], dtype=pl.List(pl.String))
    return pl.select(
        pl.when(pl.lit(text == "")).then(pl.lit(empty)).otherwise(pl.coalesce(decoded, split))
    ).to_series()


def _json_lists(text: pl.Series) -> pl.Series:
    kind = pl.List(pl.String)
    try:
        return text.str.json_decode(kind)
    except pl.exceptions.ComputeError:
        # Somewhere in the column is damaged JSON: only then is each value tried by itself.
        whole = [_is_json(value) for value in text]
        return text.set(~pl.Series(whole), None).str.json_decode(kind)


def _is_json(value: str | None) -> bool:
    try:
        return value is None or isinstance(json.loads(value), list)
    except ValueError:
        return False


def guess_delimiter(values: pl.Series) -> str | None:
    """Return the first of the usual delimiters that occurs in a slate that is not JSON, if any."""
    text = values.drop_nulls().str.strip_chars()
    text = text.filter(~text.str.starts_with("["))
    for delimiter in _DELIMITERS:
        if text.str.contains(delimiter, literal=True).any():
            return delimiter
    return None


def whole_numbers(values: pl.Series) -> pl.Series:
    """Turn numbers into integers; the text 3.0, as pandas writes integers with gaps, is 3."""
    if values.dtype == pl.String:
        values = values.str.replace(_WHOLE, "$1")
    return ids(values, pl.Int64)


def clicks_without_decimals(clicks: pl.Series, slates: pl.Series) -> pl.Series:
    """Read the text 11.0, as pandas writes integers with gaps, as 11, in a column of lists.

    Where the slate itself has an item 11.0, that is what was clicked.
    """
    if not clicks.explode(empty_as_null=False).str.contains(_WHOLE).any():
        return clicks
    whole = clicks.list.eval(pl.element().str.replace(_WHOLE, "$1"))
    if slates.dtype != clicks.dtype:
        return whole
    shown = pl.select(pl.lit(slates).list.contains(pl.lit(clicks).list.first())).to_series()
    return clicks.zip_with(shown.fill_null(value=False), whole)


def times(values: pl.Series, unit: str | None, text_format: str | None = None) -> pl.Series:
    """Turn times into int64: microseconds since 1970, or an integer order as it is."""
    if values.dtype in (pl.Duration, pl.Time):
        raise pl.exceptions.SchemaError
    if text_format is not None and not values.dtype.is_temporal():
        moments = time_text.in_format(names(values), text_format).to_physical()
    elif are_clock_times(values, unit):
        moments = _clock_times(values, unit)
    else:
        return whole_numbers(values)
    # A time before the year 1 or after 9999 was given in the wrong unit.
    return moments.set(~moments.is_between(_FIRST, _LAST), None)


def _clock_times(values: pl.Series, unit: str | None) -> pl.Series:
    if values.dtype == pl.String:
        if unit is not None:
            return _clock_times(values.cast(pl.Float64, strict=False), unit)
        return time_text.moments(values).to_physical()
    if values.dtype.is_temporal():
        unit = values.dtype.time_unit if isinstance(values.dtype, pl.Datetime) else "d"
        values = values.to_physical()
        if unit == "ns":
            return values // 1_000
    elif not values.dtype.is_numeric():
        raise pl.exceptions.SchemaError
    if unit == "ns" or values.dtype.is_float():
        factor = 1e-3 if unit == "ns" else _MICROSECONDS[unit or "s"]
        return (values * float(factor)).round().cast(pl.Int64, strict=False)
    return _in_microseconds(values, _MICROSECONDS[unit or "s"])


def _in_microseconds(values: pl.Series, factor: int) -> pl.Series:
    """Multiply whole numbers by the microseconds of their unit; null where that would overflow."""
    whole = values.cast(pl.Int64, strict=False)
    return whole.set(~whole.is_between(_FIRST // factor, _LAST // factor), None) * factor


def are_clock_times(values: pl.Series, unit: str | None) -> bool:
    """Return whether a column holds clock times and not only an order."""
    if values.dtype.is_temporal():
        return True
    if unit is not None:
        return unit != ORDER
    return not are_integers(values)


def are_integers(values: pl.Series) -> bool:
    """Return whether a column holds integers, as far as the first value shows."""
    if values.dtype == pl.String:
        return bool(values.drop_nulls().head(1).str.contains(_INTEGER).any())
    return values.dtype.is_integer() or values.dtype.is_decimal()


def plausible_unit(first: int, last: int) -> str | None:
    """Return the unit in which integers from `first` to `last` are times of 1990 to 2040, if any.

    No two units fit: the spans of 50 years do not meet.
    """
    for unit, per_second in _PER_SECOND.items():
        if _EARLIEST * per_second <= first and last < _LATEST * per_second:
            return unit
    return None


def names(values: pl.Series) -> pl.Series:
    """Turn a column of single values into text."""
    if values.dtype.is_nested():
        raise pl.exceptions.SchemaError
    return values.cast(pl.String)


def flags(values: pl.Series) -> pl.Series:
    """Turn true/false, 1/0 or their text into booleans."""
    if values.dtype == pl.Boolean:
        return values
    if values.dtype.is_numeric():
        values = values.cast(pl.Float64)
        return values.replace_strict({0.0: False, 1.0: True}, default=None, return_dtype=pl.Boolean)
    words = dict.fromkeys(("true", "1", "1.0", "yes"), True)
    words |= dict.fromkeys(("false", "0", "0.0", "no"), False)
    lowered = values.cast(pl.String).str.strip_chars().str.to_lowercase()
    return lowered.replace_strict(words, default=None, return_dtype=pl.Boolean)
