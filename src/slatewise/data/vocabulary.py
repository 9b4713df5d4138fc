"""The items table, and numbers for item ids."""

from pathlib import Path

import numpy as np
import numpy.typing as npt
import polars as pl

from slatewise.data import parsing
from slatewise.data.columns import UNKNOWN, Columns
from slatewise.data.formats import ItemsFormat
from slatewise.data.keys import Keys, id_keys
from slatewise.data.report import Problem, Report
from slatewise.data.tables import ROW, Table, open_tables
from slatewise.errors import InputError

_FILE = "__file"


class ItemsTable:
    """An items table that is opened and typed but not yet read; or none, which lists no item."""

    def __init__(
        self, path: str | Path | None, layout: ItemsFormat, log_type: parsing.IdType
    ) -> None:
        self._tables = [] if path is None else open_tables(path, "items")
        self.path = path
        self.format = layout
        self.columns = layout.model_dump()
        self.item_type = log_type
        self.has_groups = False
        """whether groups are given: else all items are in one"""
        for head in self._tables[:1]:
            head.require(layout.item_id, "--map-items", "item_id=COLUMN")
            self.item_type = parsing.id_type(head.schema[layout.item_id])
            # A column that was mapped must be there; the usual name may be.
            self.has_groups = layout.group in head.schema or layout.group != Columns.GROUP
            if self.has_groups:
                head.require(layout.group, "--map-items", "group=COLUMN")

    @property
    def files(self) -> list[Path]:
        """The files of the table, in reading order."""
        return [table.path for table in self._tables]

    def read(self, item_type: parsing.IdType, report: Report) -> pl.DataFrame:
        """Return `item_id`, `group` and all other columns, each item once, every group named."""
        if not self._tables:
            return pl.DataFrame(schema={Columns.ITEM: item_type, Columns.GROUP: pl.String})
        parts = [self._part(table, item_type, number) for number, table in enumerate(self._tables)]
        items = pl.concat(parts)
        if items.is_empty():
            raise InputError(
                "the items table has no rows.",
                "List every item with its group.",
                file=self._tables[0].path,
            )
        files = self.files
        no_id = pl.col(Columns.ITEM).is_null()
        report.found(Problem.NO_ITEM_ID, _rows_of(items.filter(no_id)), files)
        items = items.filter(~no_id)
        copy = ~pl.col(Columns.ITEM).is_first_distinct()
        report.found(Problem.DUPLICATE_ITEM_ID, _rows_of(items.filter(copy)), files)
        items = items.filter(~copy)
        no_group = pl.col(Columns.GROUP).is_null()
        report.found(Problem.NO_GROUP, _rows_of(items.filter(no_group)), files)
        return items.with_columns(pl.col(Columns.GROUP).fill_null(UNKNOWN)).drop(_FILE, ROW)

    def _part(self, table: Table, item_type: parsing.IdType, number: int) -> pl.DataFrame:
        layout = self.format
        names = [name for name in table.schema if name != ROW]
        frame = table.read(names)
        ids = parsing.parse_ids(frame, layout.item_id, item_type, table.path)
        columns = {Columns.ITEM: ids, Columns.GROUP: self._groups(frame, table.path)}
        rest = frame.drop(ROW, layout.item_id, *[layout.group] * self.has_groups)
        for name in rest.columns:
            # Where another column is the group, the one called so is carried as `group_`.
            free = name
            while free in columns or (free != name and free in rest.columns):
                free += "_"
            columns[free] = rest[name]
        file = pl.Series([number], dtype=pl.UInt16).new_from_index(0, frame.height)
        return pl.DataFrame(columns).with_columns(frame[ROW], file.alias(_FILE))

    def _groups(self, frame: pl.DataFrame, file: Path) -> pl.Series:
        """Return the group of each row, one for all where the table has none."""
        if not self.has_groups:
            return pl.Series([UNKNOWN], dtype=pl.String).new_from_index(0, frame.height)
        groups = frame[self.format.group]
        if groups.dtype.is_nested():
            raise InputError(
                f"values of type {groups.dtype} are not a group.",
                "Each item has one group: choose one, for example the first tag.",
                file=file,
                column=self.format.group,
            )
        return groups.cast(pl.String)


def _rows_of(items: pl.DataFrame) -> pl.DataFrame:
    return items.select(pl.col(_FILE).alias("file"), pl.col(ROW).cast(pl.Int64).alias("row"))


class Vocabulary:
    """Numbers for item ids: first those of the items table, then what only the log knows."""

    def __init__(self, items: pl.DataFrame) -> None:
        self._items = items
        ids = items[Columns.ITEM]
        self._codes = pl.DataFrame(
            {"id": ids, "code": pl.int_range(len(ids), dtype=pl.Int32, eager=True)}
        )
        self._keys = id_keys(ids)

    def __len__(self) -> int:
        """Count the items known so far."""
        return self._codes.height

    def encode(self, ids: pl.Series) -> tuple[npt.NDArray[np.int32], pl.Series]:
        """Number ids, learning new ones; also return which were new."""
        codes = self._lookup(ids)
        fresh = codes.is_null()
        if not fresh.any():
            return codes.to_numpy(), fresh
        new = ids.filter(fresh).unique(maintain_order=True)
        numbers = pl.int_range(len(self), len(self) + len(new), dtype=pl.Int32, eager=True)
        self._codes = pl.concat([self._codes, pl.DataFrame({"id": new, "code": numbers})])
        self._keys = np.concatenate([self._keys, id_keys(new)])
        return self._lookup(ids).to_numpy(), fresh

    def _lookup(self, ids: pl.Series) -> pl.Series:
        return (
            ids.alias("id").to_frame().join(self._codes, on="id", how="left", maintain_order="left")
        )["code"]

    @property
    def keys(self) -> Keys:
        """The stable key of each item, by number."""
        return self._keys

    def finish(self) -> tuple[pl.DataFrame, npt.NDArray[np.int32]]:
        """Return the final items table and the final number of each provisional one.

        Items that only the log knows were numbered as they came; in the end they are ordered by
        id, so that the result does not depend on the order of the log.
        """
        listed = self._items.height
        extra = self._codes[listed:].sort("id")
        final = np.arange(len(self), dtype=np.int32)
        final[extra["code"].to_numpy()] = np.arange(listed, len(self), dtype=np.int32)
        unlisted = pl.DataFrame(
            {Columns.ITEM: extra["id"], Columns.GROUP: [UNKNOWN] * extra.height},
            schema={Columns.ITEM: extra["id"].dtype, Columns.GROUP: pl.String},
        )
        return pl.concat([self._items, unlisted], how="diagonal"), final
