"""Columns of an items table as numbers, categories, tags and embeddings, checked row by row."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final, Literal

import polars as pl

from slatewise.data import SlateDataset, parsing
from slatewise.data.tables import ROW, Table, open_tables
from slatewise.errors import InputError

Kind = Literal["number", "category", "tags", "embedding"]

_ID: Final = "__item"


def read_item_columns(
    dataset: SlateDataset, path: str | Path, kinds: Mapping[str, Kind], *, item_id: str = "item_id"
) -> pl.DataFrame:
    """Read columns of a table (Parquet, CSV, JSON lines) for the items of a dataset: I rows.

    Rows are matched by id and may be in any order; an item that the table does not list has
    nothing but missing values. An item listed twice, or a table of other items, is refused.
    """
    ids = dataset.item_ids.alias(_ID)
    tables = open_tables(path, "items")
    found = pl.concat(
        [_part(table, kinds, item_id, parsing.id_type(ids.dtype)) for table in tables]
    )
    if ids.is_in(found[_ID].implode()).sum() == 0:
        raise InputError(
            "none of the items of the dataset is listed.",
            "Ids must be written as in the log: check the column of the id.",
            file=tables[0].path,
            column=item_id,
        )
    twice = found.filter(~pl.col(_ID).is_first_distinct())
    if twice.height:
        raise InputError(
            f"item {twice[_ID][0]!r} is listed twice.",
            "List each item once.",
            file=twice["file"][0],
            row=int(twice[ROW][0]),
            column=item_id,
        )
    joined = ids.to_frame().join(found, on=_ID, how="left", maintain_order="left")
    return joined.select(list(kinds))


def _part(
    table: Table, kinds: Mapping[str, Kind], item_id: str, target: parsing.IdType
) -> pl.DataFrame:
    table.require(item_id, "item_id", "= 'sku'")
    _require(kinds, table.schema, table.path)
    frame = table.read([item_id, *(name for name in kinds if name != item_id)])
    ids = parsing.parse_ids(frame, item_id, target, table.path).alias(_ID)
    columns = typed_columns(frame, kinds, table.path).with_columns(
        ids, frame[ROW], file=pl.lit(str(table.path))
    )
    if ids.null_count():
        row = int(frame[ROW][int(ids.is_null().arg_max() or 0)])
        raise InputError(
            "the item id is missing.", "Fill it in.", file=table.path, row=row, column=item_id
        )
    return columns


def _require(names: Iterable[str], present: Iterable[str], file: Path) -> None:
    present = [name for name in present if name != ROW]
    for name in names:
        if name not in present:
            raise InputError(
                f"the items have no column '{name}'; they have {', '.join(present)}.",
                "Name one of these.",
                file=file,
            )


def typed_columns(items: pl.DataFrame, kinds: Mapping[str, Kind], file: Path) -> pl.DataFrame:
    """Return the columns named as Float64, String, List(String) or List(Float64).

    Null where missing.

    Empty text and NaN are missing too. A value of another kind is an error with its row.
    """
    _require(kinds, items.columns, file)
    rows = items if ROW in items.columns else items.with_row_index(ROW, offset=1)
    empty = [name for name in kinds if rows.schema[name] == pl.String]
    rows = rows.with_columns(pl.col(name).str.strip_chars().replace("", None) for name in empty)
    return pl.DataFrame([_typed(rows, name, kind, file) for name, kind in kinds.items()])


def _typed(rows: pl.DataFrame, name: str, kind: Kind, file: Path) -> pl.Series:
    if kind == "category":
        return parsing.parse(
            rows, name, _texts, file=file, wanted="a category", remedy="Write one name a row."
        )
    if kind == "number":
        numbers = parsing.parse(
            rows,
            name,
            _numbers,
            file=file,
            wanted="a number",
            remedy="Leave empty what is unknown.",
        )
        return numbers.fill_nan(None)
    if kind == "tags":
        return parsing.parse(
            rows,
            name,
            _tag_lists,
            file=file,
            wanted="a list of tags",
            remedy='Write lists as ["red", "new"] or red|new, and leave empty what is unknown.',
        )
    vectors = parsing.parse(
        rows,
        name,
        _vectors,
        file=file,
        wanted="a list of numbers",
        remedy="Write lists as [0.1, -2.5], and leave empty what is unknown.",
    )
    return _of_one_length(vectors, rows[ROW], file)


def _texts(values: pl.Series) -> pl.Series:
    if values.dtype.is_nested():
        raise pl.exceptions.SchemaError
    return values.cast(pl.String)


def _tag_lists(values: pl.Series) -> pl.Series:
    if values.dtype == pl.String:
        values = parsing.lists(values, parsing.guess_delimiter(values))
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List) or values.dtype.inner.is_nested():
        raise pl.exceptions.SchemaError
    text = pl.element().cast(pl.String).str.strip_chars()
    return values.list.eval(text.filter(text != ""))


def _numbers(values: pl.Series) -> pl.Series:
    if not (values.dtype.is_numeric() or values.dtype in (pl.Boolean, pl.String)):
        raise pl.exceptions.SchemaError
    numbers = values.cast(pl.Float64, strict=False)
    return numbers.set(numbers.is_infinite().fill_null(value=False), None)


def _vectors(values: pl.Series) -> pl.Series:
    if values.dtype == pl.String:
        values = parsing.lists(values, None)
    if isinstance(values.dtype, pl.Array):
        values = values.arr.to_list()
    if not isinstance(values.dtype, pl.List):
        raise pl.exceptions.SchemaError
    number = pl.element().cast(pl.Float64, strict=False)
    return values.list.eval(pl.when(number.is_finite()).then(number))


def _of_one_length(vectors: pl.Series, rows: pl.Series, file: Path) -> pl.Series:
    """Refuse a vector with a gap, and one whose length is not that of the first."""
    lengths = vectors.list.len()
    first = lengths.drop_nulls().head(1)
    gaps = vectors.list.eval(pl.element().is_null()).list.any().fill_null(value=False)
    wrong = gaps | (lengths != (first[0] if len(first) else 0)).fill_null(value=False)
    if wrong.any():
        at = int(wrong.arg_max() or 0)
        raise InputError(
            "the vector has a gap."
            if gaps[at]
            else f"the vector has {lengths[at]} numbers, the first has {first[0]}.",
            "All vectors of a column have the same length; leave empty what is unknown.",
            file=file,
            row=int(rows[at]),
            column=vectors.name,
        )
    return vectors
