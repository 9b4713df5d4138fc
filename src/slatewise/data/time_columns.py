"""How the times of a table are written, where its format does not say: read off all of them."""

from collections.abc import Sequence

import polars as pl

from slatewise.data import parsing, time_text
from slatewise.data.formats import LogFormat
from slatewise.data.tables import Table


def guessed(tables: Sequence[Table], layout: LogFormat) -> dict[str, str]:
    """Return the `time_unit` or the `time_format` of a column of times, empty without a guess.

    Integers have the unit in which all are times of 1990 to 2040, or are dates such as 20240517, or
    an order; dates with the year last have the format that all of them allow.
    """
    if layout.time_unit or layout.time_format:
        return {}
    times = first_of(tables, layout.time)
    if times is None:
        return {}
    if parsing.are_integers(times):
        return _of_integers(tables, layout.time, times)
    if not time_text.formats_of(times):
        return {}
    found = [table.greatest(layout.time, time_text.YEAR_LAST) for table in tables]
    greatest = max(first for first, _ in found), max(second for _, second in found)
    text_format = time_text.format_of(times, greatest)
    return {} if text_format is None else {"time_format": text_format}


def first_of(tables: Sequence[Table], column: str) -> pl.Series | None:
    """Return the first values of a column; None if there are no rows."""
    for batch in tables[0].batches([column], 100):
        return batch[column]
    return None


def _of_integers(tables: Sequence[Table], column: str, times: pl.Series) -> dict[str, str]:
    known = parsing.whole_numbers(times).drop_nulls().to_list()
    days = time_text.are_days(times)
    if known and not days and parsing.plausible_unit(min(known), max(known)) is None:
        return {"time_unit": parsing.ORDER}  # one that does not fit is enough
    spans = [table.span(column) for table in tables]
    ends = [end for span in spans if span is not None for end in span]
    if days and time_text.are_days(pl.Series(ends)):
        return {"time_format": time_text.DAYS}
    unit = parsing.plausible_unit(min(ends), max(ends)) if ends else None
    return {"time_unit": unit or parsing.ORDER}
