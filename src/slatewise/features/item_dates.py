"""Dates of items, such as that of publication, read as the age of an item when a slate is shown.

    age = log(1 + hours from the date to the slate)

A date that lies after the slate was not known then, and counts as missing. An item without a date
is as old as its popularity says, log(1 + hours since it was first seen); one that was not seen
either has the mean. Were it new, a network that has learned to like what is new would bring up all
items of a log that are yet to come.

Shapes: F items seen, I items, K columns of dates.
"""

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Final

import numpy as np
import numpy.typing as npt
import polars as pl

from slatewise.data import parsing
from slatewise.data.columns import Columns
from slatewise.data.ragged import Int64Array
from slatewise.errors import InputError
from slatewise.features.popularity import SECOND

Floats = npt.NDArray[np.float32]

MISSING: Final = np.iinfo(np.int64).min
"""Stands for a date that is not known."""
LEAST_KNOWN: Final = 0.1
"""Share of the items seen of which a date must be past, for a column to be read."""
_HOUR: Final = 3_600 * SECOND
_EPOCH: Final = datetime(1970, 1, 1)
_WHOLE: Final = re.compile(r"-?[0-9]{1,19}")


def date_columns(items: pl.DataFrame) -> dict[str, Int64Array]:
    """Return the columns of a table that are dates: [I] microseconds since 1970, or `MISSING`.

    Of types of dates, as text of which most is a date, or as integers that are all times of 1990 to
    2040 in one unit. Ids and groups are none.
    """
    found = {}
    for name in items.columns:
        dates = None if name in (Columns.ITEM, Columns.GROUP) else _dates(items[name])
        if dates is not None and dates.count():
            found[name] = dates.fill_null(MISSING).to_numpy().astype(np.int64)
    return found


def _dates(values: pl.Series) -> pl.Series | None:
    """Return a column as microseconds, None where it is no date."""
    if values.dtype == pl.String:
        given = values.str.strip_chars().replace("", None)
        if not parsing.are_integers(given):
            dates = parsing.times(given, None)
            return dates if dates.count() * 2 > given.count() else None
        whole = given.cast(pl.Int64, strict=False)
        values = whole if whole.count() == given.count() else pl.Series([0])
    if values.dtype.is_integer() and values.count():
        first, last = (int(bound) for bound in (values.min(), values.max()))  # type: ignore[arg-type]
        unit = parsing.plausible_unit(first, last) if first < last else None
        return None if unit is None else parsing.times(values, unit)
    if isinstance(values.dtype, pl.Datetime | pl.Date):
        return parsing.times(values, None)
    return None


def read_dates(values: Sequence[object]) -> tuple[Int64Array, int]:
    """Read dates of single items, None where unknown: [R], and how many values are no dates.

    As in a column: dates and times, ISO text, integers that are times of 1990 to 2040.
    """
    texts = [_text_of(value) for value in values]
    written = parsing.times(pl.Series(texts, dtype=pl.String), None).to_list()
    plain, wrong = np.full(len(values), MISSING, np.int64), 0
    for number, (value, text) in enumerate(zip(values, texts, strict=True)):
        if value is None:
            continue
        time = written[number] if text is not None else _date(value)
        wrong += time is None
        plain[number] = MISSING if time is None else time
    return plain, wrong


def require_date(value: object, column: str, row: int | None = None) -> None:
    """Refuse what is no date."""
    if read_dates([value])[1]:
        raise InputError(
            f"{str(value)[:40]!r} is no date.",
            "Write it as 2024-05-17T12:30:00Z or in seconds since 1970, or leave it out.",
            row=row,
            column=column,
        )


def _text_of(value: object) -> str | None:
    """Return text that is no whole number, None for all else."""
    text = value.strip() if isinstance(value, str) else None
    return None if text is None or _WHOLE.fullmatch(text) else text


def _date(value: object) -> int | None:
    """Return a value that is no such text as microseconds since 1970, None where it is no date."""
    if isinstance(value, str):
        value = int(value)
    if isinstance(value, datetime):
        plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
        return (plain - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, date):
        return (datetime.combine(value, _EPOCH.time()) - _EPOCH) // timedelta(microseconds=1)
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        return None
    unit = parsing.plausible_unit(int(value), int(value))
    return None if unit is None else int(parsing.times(pl.Series([int(value)]), unit)[0])


def known_ages(dates: Int64Array, items: Int64Array, times: Int64Array) -> Floats:
    """Return the ages of items [F] seen at times [F] by one column of dates [I]; NaN if unknown.

    Items beyond I came after the table was read.
    """
    inside = items < len(dates)
    own = np.where(inside, dates[np.where(inside, items, 0)], MISSING)
    known = (own != MISSING) & (own <= times)
    hours = np.where(known, times - np.where(known, own, 0), 0) / _HOUR
    return np.where(known, np.log1p(hours), np.nan).astype(np.float32)


def ages(
    dates: Int64Array, items: Int64Array, times: Int64Array, instead: Floats, means: Floats
) -> Floats:
    """Return the ages of items [F] seen at times [F] by their dates [K, I]: [F, K].

    Where one is unknown, `instead` [F] has log(1 + hours since the item was first seen), NaN if it
    was not; `means` [K] stand in for these.
    """
    columns = []
    for own, mean in zip(dates, means, strict=True):
        age = known_ages(own, items, times)
        age = np.where(np.isnan(age), instead, age)
        columns.append(np.where(np.isnan(age), mean, age))
    return np.stack(columns, 1)


def usual_ages(
    dates: Mapping[str, Int64Array], items: Int64Array, times: Int64Array
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the mean age of items [F] seen at times [F] by each column, and why others have none.

    As when an offer ends, which lies ahead whenever it is shown.
    """
    means, reasons = {}, {}
    for name, own in dates.items():
        age = known_ages(own, items, times)
        known = age[~np.isnan(age)]
        share = len(known) / max(1, len(age))
        if share < LEAST_KNOWN:
            reasons[name] = f"a date before the slate for {share:.0%} of the items seen only."
        else:
            means[name] = float(known.mean())
    return means, reasons
