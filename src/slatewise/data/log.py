"""A log in any accepted format, streamed as interactions in one canonical shape."""

from collections.abc import Callable, Iterator
from functools import cached_property, partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import polars as pl

from slatewise.data import parsing, time_columns, time_text
from slatewise.data.formats import LogFormat
from slatewise.data.own_split import parse_parts
from slatewise.data.tables import ROW, Table, open_tables
from slatewise.errors import InputError

BATCH_ROWS = 250_000
BATCH_ITEMS = 3_000_000
"""Items in the slates of a batch; a batch of long slates has fewer rows."""


class Log:
    """A log that is opened and typed but not yet read."""

    def __init__(self, path: str | Path, layout: LogFormat, *, split: bool = False) -> None:
        """Open a log; with `split`, its column of parts is read too."""
        self.tables = open_tables(path, "log")
        self._split = split
        head = self.tables[0]
        self.layout = layout = with_short_names(layout, head)
        self.has_impressions = _has_impressions(head, layout)
        self._columns = self._choose_columns(head)
        guessed = time_columns.guessed(self.tables, layout)
        self.guessed_unit = guessed.get("time_unit")
        """what integer times are taken for, where the format does not say: a unit, or an order"""
        self.guessed_format = guessed.get("time_format")
        """how dates such as 17.05.2024 or 20240517 are read, where the format does not say"""
        self.layout = layout = layout.model_copy(update=guessed)
        self.user_type = parsing.id_type(head.schema[layout.user_id])
        item_column = layout.item_id if self.has_impressions else layout.slate
        self.item_type = parsing.id_type(head.schema[item_column])
        self._delimiter = layout.delimiter

    @property
    def files(self) -> list[Path]:
        """The files of the log, in reading order."""
        return [table.path for table in self.tables]

    @property
    def columns(self) -> dict[str, str]:
        """The log's own names for the columns of an interaction."""
        layout = self.layout
        names = {
            field: getattr(layout, field) for field in ("user_id", "time", "source", "position")
        }
        if self.has_impressions:
            return names | {"slate": layout.item_id, "click": layout.clicked}
        return names | {"slate": layout.slate, "click": layout.click}

    @cached_property
    def rows(self) -> int:
        """The rows of all files."""
        return sum(table.rows() for table in self.tables)

    @cached_property
    def items(self) -> int:
        """Estimated number of items in all slates."""
        if self.has_impressions:
            return self.rows
        return sum(table.items(self.layout.slate) for table in self.tables)

    @property
    def format(self) -> LogFormat:
        """The format with the detected delimiter filled in."""
        return self.layout.model_copy(update={"delimiter": self._delimiter})

    def clock_times(self) -> bool:
        """Return whether times are clock times and not only an order, judging by the first rows."""
        times = time_columns.first_of(self.tables, self.layout.time)
        if times is None:
            return False
        is_text = self.layout.time_format is not None
        return is_text or parsing.are_clock_times(times, self.layout.time_unit)

    def batches(self, item_type: parsing.IdType) -> Iterator[pl.DataFrame]:
        """Stream the rows in file order, with item ids of the given type.

        The columns are `file` (its number), `row` (in the file, from 1), `user`, `time` (int64),
        `slate` and `click` (lists of ids), `source` and `position` (int64). An impression log has
        `item`, `clicked` and perhaps `slate_id` in place of `slate` and `click`. With a split that
        the log brings, there is `part` (uint8).
        """
        for number in range(len(self.tables)):
            yield from self.batches_of(number, item_type, self.batch_rows)

    @property
    def batch_rows(self) -> int:
        """How many rows are read at a time."""
        return min(BATCH_ROWS, 1 + BATCH_ITEMS * self.rows // max(1, self.items))

    def batches_of(
        self, number: int, item_type: parsing.IdType, rows: int, first: int = 0
    ) -> Iterator[pl.DataFrame]:
        """Stream one of the files, `rows` at a time; files are counted from `first` on."""
        table, file = self.tables[number], pl.lit(first + number, dtype=pl.UInt16).alias("file")
        for batch in table.batches(self._columns, rows):
            for part in self._parts(batch):
                yield self._canonical(table, part, item_type).select(file, pl.all())

    def _parts(self, batch: pl.DataFrame) -> Iterator[pl.DataFrame]:
        """Divide a batch of slates that are far longer than most of the log."""
        if self.has_impressions or batch.is_empty():
            return iter([batch])
        ends = np.cumsum(parsing.count_items(batch[self.layout.slate]), dtype=np.int64)
        if ends[-1] <= 2 * BATCH_ITEMS:
            return iter([batch])
        starts = np.flatnonzero(np.diff(ends // BATCH_ITEMS, prepend=-1)).tolist()
        return (batch[start:stop] for start, stop in pairwise([*starts, batch.height]))

    def _choose_columns(self, table: Table) -> list[str]:
        layout = self.layout
        needed = {
            "impressions": ["user_id", "time", "item_id", "clicked"],
            "interactions": ["user_id", "time", "slate"],
        }["impressions" if self.has_impressions else "interactions"]
        self._require_together(table, needed)
        columns = [
            table.require(getattr(layout, field), "--map", f"{field}=COLUMN") for field in needed
        ]
        for field in ("position", "slate_id" if self.has_impressions else "click", "source"):
            name = getattr(layout, field)
            # A column that was mapped must be there; one of the usual names may be.
            if name in table.schema or name != field:
                columns.append(table.require(name, "--map", f"{field}=COLUMN"))
        if self._split:
            columns.append(table.require(layout.split, "--map", "split=COLUMN"))
        if not self.has_impressions and not {layout.click, layout.position} & set(columns):
            table.require(layout.click, "--map", "click=COLUMN")
        if layout.source not in columns and layout.default_source is None:
            table.require(
                layout.source, "--map source=COLUMN, or one name for all:", "--source web"
            )
        # Two fields may be one column, such as a session that is user and slate.
        return list(dict.fromkeys(columns))

    def _require_together(self, table: Table, needed: list[str]) -> None:
        """Name all columns that a log lacks, if there are several: they are mapped in one go."""
        layout = self.layout
        if not self.has_impressions and layout.position not in table.schema:
            needed = [*needed, "click"]
        if layout.default_source is None:
            needed = [*needed, "source"]
        missing = [field for field in needed if getattr(layout, field) not in table.schema]
        if len(missing) > 1 or missing == ["time"]:
            names = ", ".join(f"'{getattr(layout, field)}'" for field in missing)
            options = " ".join(f"--map {field}=COLUMN" for field in missing)
            columns, which = ("column", "one") if len(missing) == 1 else ("columns", "ones")
            counted = " If rows are in order and have no time, add a column that counts them."
            raise InputError(
                f"the table has no {columns} {names}; it has {', '.join(table.columns)}.",
                f"Name the right {which}, as options ({options}) or under [log] of a --mapping "
                f"file.{counted * ('time' in missing)}",
                file=table.path,
            )

    @property
    def whole_slates(self) -> bool:
        """Whether the log tells slates apart: by rows that list their clicks, or as impressions.

        In text, by JSON in the first rows; of delimited lists, a row with two clicks says it.
        """
        clicks = self.tables[0].schema.get(self.layout.click)
        if self.has_impressions or isinstance(clicks, pl.List | pl.Array):
            return True
        first = (
            time_columns.first_of(self.tables, self.layout.click) if clicks == pl.String else None
        )
        return first is not None and bool(first.str.contains(r"^\s*\[").any())

    @property
    def clicks_by_position(self) -> bool:
        """Whether the log says only where a click was, and not on what."""
        return not self.has_impressions and self.layout.click not in self._columns

    def _canonical(
        self, table: Table, batch: pl.DataFrame, item_type: parsing.IdType
    ) -> pl.DataFrame:
        layout = self.layout
        columns = {
            "row": batch[ROW].cast(pl.Int64),
            "user": parsing.parse_ids(batch, layout.user_id, self.user_type, table.path),
            "time": parse_times(table, batch, layout),
        }
        if self.has_impressions:
            columns["item"] = parsing.parse_ids(batch, layout.item_id, item_type, table.path)
            columns["clicked"] = parsing.parse(
                batch,
                layout.clicked,
                parsing.flags,
                file=table.path,
                wanted="a yes or no",
                remedy="Write true or false, or 1 or 0.",
            )
            if layout.slate_id in batch.columns:
                columns["slate_id"] = batch[layout.slate_id].cast(pl.String)
        else:
            slates = columns["slate"] = self._slates(table, batch, item_type)
            columns["click"] = self._clicks(table, batch, slates, item_type)
        columns["source"] = self._sources(table, batch)
        columns["position"] = self._positions(table, batch)
        if self._split:
            columns["part"] = parse_parts(batch, layout.split, table.path)
        return pl.DataFrame(columns)

    def _slates(self, table: Table, batch: pl.DataFrame, item_type: parsing.IdType) -> pl.Series:
        def convert(values: pl.Series) -> pl.Series:
            if values.dtype == pl.String:
                self._delimiter = self._delimiter or parsing.guess_delimiter(values)
                values = parsing.lists(values, self._delimiter)
            return parsing.id_lists(values, item_type)

        return parsing.parse(
            batch,
            self.layout.slate,
            convert,
            file=table.path,
            wanted="a list of item ids",
            remedy="Give a list column, or text with JSON lists or a delimiter (--delimiter).",
        )

    def _clicks(
        self, table: Table, batch: pl.DataFrame, slates: pl.Series, item_type: parsing.IdType
    ) -> pl.Series:
        """Return the clicked items as lists; call it after `_slates`, which finds the delimiter."""
        column, no_click = self.layout.click, self.layout.no_click
        if column not in batch.columns:
            return pl.Series([None], dtype=pl.List(item_type)).new_from_index(0, batch.height)
        if batch[column].dtype == pl.String:
            batch = batch.with_columns(pl.col(column).replace("", None))
        in_text = batch[self.layout.slate].dtype == pl.String

        def convert(values: pl.Series) -> pl.Series:
            if in_text and values.dtype == pl.String:
                values = parsing.lists(values, self._delimiter)
            elif not isinstance(values.dtype, pl.List | pl.Array):
                values = parsing.singletons(values)
            if values.dtype == pl.List(pl.String):
                values = parsing.clicks_without_decimals(values, slates)
            if no_click is not None:
                text = parsing.id_lists(values, pl.String)
                values = text.list.eval(pl.element().filter(pl.element() != no_click))
            return parsing.id_lists(values, item_type)

        return parsing.parse(
            batch,
            column,
            convert,
            file=table.path,
            wanted="an item id, or a list of them",
            remedy="Give the clicked item; if a value means no click, name it with --no-click.",
        )

    def _sources(self, table: Table, batch: pl.DataFrame) -> pl.Series:
        if self.layout.source not in batch.columns:
            name = pl.Series([self.layout.default_source], dtype=pl.String)
            return name.new_from_index(0, batch.height)
        return parsing.parse(
            batch,
            self.layout.source,
            parsing.names,
            file=table.path,
            wanted="a name",
            remedy="A source is one name a row, such as search.",
        )

    def _positions(self, table: Table, batch: pl.DataFrame) -> pl.Series:
        column = self.layout.position
        if column not in batch.columns:
            return pl.Series([None], dtype=pl.Int64).new_from_index(0, batch.height)
        if self.clicks_by_position and self.layout.no_click is not None:
            text = parsing.ids(batch[column], pl.String).str.replace(r"\.0$", "")
            none = text == self.layout.no_click
            batch = batch.with_columns(batch[column].set(none, None))
        return parsing.parse(
            batch,
            column,
            parsing.whole_numbers,
            file=table.path,
            wanted="a position",
            remedy="Positions are whole numbers.",
        )


def parse_times(table: Table, batch: pl.DataFrame, layout: LogFormat) -> pl.Series:
    """Convert the column of times of a batch."""
    convert: Callable[[pl.Series], pl.Series] = partial(
        parsing.times, unit=layout.time_unit, text_format=layout.time_format
    )
    return parsing.parse(
        batch,
        layout.time,
        convert,
        file=table.path,
        wanted="a time",
        remedy=partial(_time_remedy, layout),
    )


def _time_remedy(layout: LogFormat, times: pl.Series) -> str:
    """Return what to do about a column in which some time cannot be read."""
    if layout.time_format is not None:
        return f"time_format is '{layout.time_format}': correct it, or the time."
    formats = time_text.formats_of(times)
    if formats:
        options = " or ".join(f"--map 'time_format={one}'" for one in formats)
        which = ", as the day or the month comes first" if len(formats) > 1 else ""
        return f"Give the format of the times: {options}{which}."
    return (
        "Write timestamps as 2024-05-17 12:30:00, or integers that grow with time; of other text, "
        "give the format, such as --map 'time_format=%d.%m.%y %H:%M', and of numbers since 1970 "
        "the unit with --time-unit."
    )


def with_short_names(layout: LogFormat, table: Table) -> LogFormat:
    """Take `user` for `user_id` and `item` for `item_id` where only the short name is there."""
    short = {
        field: name
        for field, name in (("user_id", "user"), ("item_id", "item"))
        if getattr(layout, field) == field and field not in table.schema and name in table.schema
    }
    return layout.model_copy(update=short)


def _has_impressions(table: Table, layout: LogFormat) -> bool:
    if layout.shape != "auto":
        return layout.shape == "impressions"
    return layout.slate not in table.schema and layout.item_id in table.schema
