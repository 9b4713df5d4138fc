"""Times that are written as text: which of the usual ways is meant, and what moment that is.

What a value says by itself is read without a question: ISO 8601 and its relatives, months by name,
and the year first. Numbers with the year last say it only together, as 3/4/2024 may be March or
April, so their format is found by all values of a column.
"""

import re
from typing import Final

import polars as pl

YEAR_LAST: Final = r"^\s*(\d{1,2})[./-](\d{1,2})[./-]\d{4}\b"
"""Two numbers before a year, for all values of a column."""
DAYS: Final = "%Y%m%d"
"""How integers such as 20240517 write a date."""

_YEAR_LAST: Final = re.compile(
    r"\s*(\d{1,2})([./-])(\d{1,2})\2\d{4}((,?) \d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( [APap][Mm])?)?\s*"
)
_DAY: Final = r"^(19[9]\d|20[0-3]\d)(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])$"
_ISO: Final = ("%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%d %H:%M", "%Y-%m-%d")
_ZONED: Final = ("%Y-%m-%d %H:%M:%S%.f%#z", "%Y-%m-%d %H:%M%#z")
_NAMED: Final = tuple(
    f"{date}{clock}"
    for date in ("%d-%B-%Y", "%B-%d-%Y")
    for clock in ("", " %H:%M", " %H:%M:%S%.f", " %I:%M %p", " %I:%M:%S %p")
)
_NAMED_ZONED: Final = ("%d-%B-%Y %H:%M:%S%.f%#z",)
_REWRITTEN: Final = (
    (r"(\d)T(\d)", "$1 $2"),
    (r"(?i)\s*(utc|gmt|z)$", "+00:00"),
    (r"\s+([+-]\d{2}:?\d{2})$", "$1"),
    (r"(:\d{2}),(\d+)", "$1.$2"),  # as Python writes logs
    (r"^(\d{4})[/.](\d{1,2})[/.](\d{1,2})\b", "$1-$2-$3"),
    (r"^(\d{4})(\d{2})(\d{2}) (\d{2}):?(\d{2}):?(\d{2})", "$1-$2-$3 $4:$5:$6"),
    (r"^[[:alpha:]]{3,9}, ", ""),  # the day of the week
    (r"^[[:alpha:]]{3} ([[:alpha:]]{3}) +(\d{1,2}) (\d{2}:\d{2}:\d{2}) (\d{4})$", "$1-$2-$4 $3"),
    (r"^(\d{1,2})[ /-]([[:alpha:]]{3,9})[ /-](\d{4})[ :]?", "$1-$2-$3 "),
    (r"^([[:alpha:]]{3,9}) (\d{1,2}),? (\d{4})\b,?", "$1-$2-$3"),
)
"""Ways to write the same that no format has; an offset becomes part of the time before it."""


def moments(values: pl.Series) -> pl.Series:
    """Read text that is clear by itself, UTC where it names no zone; null where it is none."""
    text = values.str.strip_chars()
    found = _read(text.str.replace("T", " ", literal=True), _ISO, _ZONED[:1])
    other = found.is_null() & text.is_not_null()
    if not other.any():
        return found
    rest = text.filter(other)
    for pattern, replacement in _REWRITTEN:
        rest = rest.str.replace(pattern, replacement)
    rest = _read(rest.str.strip_chars(), (*_ISO, *_NAMED), (*_ZONED, *_NAMED_ZONED))
    return found.scatter(other.arg_true(), rest)


def _read(text: pl.Series, formats: tuple[str, ...], zoned: tuple[str, ...]) -> pl.Series:
    value = pl.lit(text)
    local = [value.str.to_datetime(f, strict=False, time_unit="us") for f in formats]
    others = [
        value.str.to_datetime(
            f, strict=False, time_unit="us", time_zone="UTC"
        ).dt.replace_time_zone(None)
        for f in zoned
    ]
    return pl.select(pl.coalesce(*local, *others)).to_series()


def in_format(values: pl.Series, text_format: str) -> pl.Series:
    """Read text in the format given; times with a zone become UTC."""
    text = pl.lit(values.str.strip_chars())
    read = text.str.to_datetime(text_format, strict=False, time_unit="us")
    return pl.select(read.dt.replace_time_zone(None)).to_series()


def are_days(values: pl.Series) -> bool:
    """Return whether integers are all dates of 1990 to 2039 such as 20240517."""
    text = values.cast(pl.String).str.strip_chars().drop_nulls()
    return bool(len(text)) and bool(text.str.contains(_DAY).all())


def formats_of(times: pl.Series, greatest: tuple[int, int] | None = None) -> list[str]:
    """Return the formats that dates with the year last may have: day first, month first.

    There is one where a number above 12 leaves no choice, none where other times are written.
    `greatest` are the greatest numbers at both places of the column, where these are not all.
    """
    texts = times.drop_nulls().to_list() if times.dtype == pl.String else []
    dates = [found for text in texts if (found := _YEAR_LAST.fullmatch(text))]
    if not dates:
        return []
    first, second = greatest or (max(int(date[place]) for date in dates) for place in (1, 3))
    _, mark, _, clock, comma, seconds, fraction, half = dates[0].groups()
    whole = f"{'%I' if half else '%H'}:%M{':%S' if seconds else ''}{'%.f' if fraction else ''}"
    hours = f"{comma} {whole}{' %p' if half else ''}" if clock else ""
    orders = [("%d", "%m")] if second <= 12 else []
    orders += [("%m", "%d")] if first <= 12 else []
    return [f"{one}{mark}{two}{mark}%Y{hours}" for one, two in orders]


def format_of(times: pl.Series, greatest: tuple[int, int]) -> str | None:
    """Return the one format of dates with the year last, None where a choice is left.

    With full stops the day stands first, unless a number says otherwise.
    """
    formats = formats_of(times, greatest)
    if len(formats) == 1 or any("%d." in one for one in formats):
        return formats[0]
    return None
