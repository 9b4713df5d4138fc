"""Tables on disk as lazy frames: Parquet, CSV and JSON lines, one file after the other."""

import csv
import glob
import gzip
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO, cast

import polars as pl
import pyarrow.parquet as pq

from slatewise.data.damage import ENCODING_ERRORS, Damage, damaged_fields, damaged_json
from slatewise.errors import InputError

ROW = "__row"
"""Column added to every table: the row number in its file, counted from 1."""

_PARQUET = (".parquet", ".pq")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_SUFFIXES = (*_PARQUET, *_SEPARATORS, *_JSON_LINES)
_GZIP = ".gz"
_KNOWN_SUFFIXES = (
    f"Tables are recognised by their suffix: {', '.join(_SUFFIXES)}; text also with .gz."
)

_PACKED = 8
"""Compressed text is about so much smaller."""
BYTES_PER_ITEM = 4
"""An item in a list that is written as text takes so much or more, its delimiter included."""


@dataclass(frozen=True)
class Table:
    """One file, ready to be streamed."""

    path: Path
    frame: pl.LazyFrame
    schema: pl.Schema

    def rows(self) -> int:
        """Count the rows: read from the footer of Parquet, counted through in text files."""
        with _reading(self.path):
            return int(self.frame.select(pl.len()).collect(engine="streaming").item())

    def span(self, column: str) -> tuple[int, int] | None:
        """Return the least and greatest integer of a column; None if there is none."""
        value = pl.col(column).cast(pl.Int64, strict=False)
        with _reading(self.path):
            ends = self.frame.select(low=value.min(), high=value.max())
            low, high = ends.collect(engine="streaming").row(0)
        return None if low is None else (low, high)

    def greatest(self, column: str, pattern: str) -> tuple[int, int]:
        """Return the greatest numbers at the two groups of a pattern in a column; 0 without any."""
        text = pl.col(column).cast(pl.String)
        groups = [text.str.extract(pattern, group).cast(pl.Int64) for group in (1, 2)]
        with _reading(self.path):
            found = self.frame.select(first=groups[0].max(), second=groups[1].max())
            first, second = found.collect(engine="streaming").row(0)
        return first or 0, second or 0

    def items(self, column: str) -> int:
        """Estimate how many items the lists of a column hold, without reading them.

        The footer of Parquet has the number; of lists in text, only the bytes are known.
        """
        if _kind(self.path) not in _PARQUET:
            packed = _PACKED if self.path.suffix.lower() == _GZIP else 1
            return packed * self.path.stat().st_size // BYTES_PER_ITEM
        with _reading(self.path):
            footer = pq.read_metadata(self.path)
        chunks = [
            footer.row_group(group).column(number)
            for group in range(footer.num_row_groups)
            for number in range(footer.num_columns)
        ]
        # A list has a path such as slate.list.element, which writers do not agree on.
        lists = [c for c in chunks if f"{c.path_in_schema}.".startswith(f"{column}.")]
        if self.schema[column] == pl.String:
            return int(sum(chunk.total_uncompressed_size for chunk in lists)) // BYTES_PER_ITEM
        return int(sum(chunk.num_values for chunk in lists))

    def batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        """Stream `columns` and the row number, about `rows` rows at a time, in file order."""
        columns = [ROW, *columns]
        # Of text, whole lines are read: a query for some columns overlooks lines with too many.
        whole = _kind(self.path) in _SEPARATORS
        frame = self.frame if whole else self.frame.select(columns)
        with _reading(self.path):
            for batch in frame.collect_batches(chunk_size=rows, maintain_order=True, lazy=True):
                yield batch.select(columns)

    def read(self, columns: list[str]) -> pl.DataFrame:
        """Read `columns` and the row number, whole."""
        empty = pl.DataFrame(schema={name: self.schema[name] for name in [ROW, *columns]})
        return pl.concat([empty, *self.batches(columns, rows=1_000_000)])

    @property
    def columns(self) -> list[str]:
        """The names of its columns."""
        return [name for name in self.schema if name != ROW]

    def require(self, column: str, option: str, example: str) -> str:
        """Return the column's name, or raise an error that lists the columns there are."""
        if column not in self.schema:
            raise InputError(
                f"the table has no column '{column}'; it has {', '.join(self.columns)}.",
                f"Name the right one, for example {option} {example}.",
                file=self.path,
            )
        return column


def open_tables(path: str | Path, name: str) -> list[Table]:
    """Open a file, or every table in a directory in the order of their names.

    A directory that has a file called `name` (log.parquet, items.csv, …) means that file.
    """
    path = Path(path)
    if not path.exists():
        raise InputError("no such file or directory.", "Check the path.", file=path)
    files = _files_of(path, name) if path.is_dir() else [path]
    types = _json_types([file for file in files if _kind(file) in _JSON_LINES])
    tables = [_open(file, types) for file in files]
    for table in tables[1:]:
        if table.schema != tables[0].schema:
            raise _different(table.path, tables[0].path)
    return tables


def has_table(path: str | Path, name: str) -> bool:
    """Return whether a path is a directory with a file called `name` (items.parquet, …)."""
    path = Path(path)
    return path.is_dir() and any(
        _kind(file) in _SUFFIXES and _stem(file) == name for file in path.iterdir()
    )


def _files_of(directory: Path, name: str) -> list[Path]:
    """List the tables below a directory, or the one called `name`, by whose side only a known
    companion may stand: else it is unclear which of them make up the table.
    """
    files = sorted(
        file
        for file in directory.rglob("*")
        if _kind(file) in _SUFFIXES
        and file.is_file()
        and not any(part.startswith((".", "_")) for part in file.relative_to(directory).parts)
    )
    if not files:
        raise InputError("the directory holds no table.", _KNOWN_SUFFIXES, file=directory)
    named = [file for file in files if file.parent == directory and _stem(file) == name]
    if not named:
        return files
    for file in files:
        inside = file.relative_to(directory)
        companion = inside.parts[0] == "truth" or _stem(inside) in ({"log", "items"} - {name})
        if file != named[0] and not companion:
            raise InputError(
                f"the directory holds {named[0].name} and also {inside}.",
                "Name the file, or a directory that holds the files of one table.",
                file=directory,
            )
    return named


def _different(file: Path, first: Path) -> InputError:
    return InputError(
        f"its columns differ from those of {first}.",
        "Files of one table must have the same columns and types.",
        file=file,
    )


def _open(file: Path, json_types: pl.Schema) -> Table:
    suffix = _kind(file)
    with _reading(file):
        _require_content(file)
        if suffix in _PARQUET:
            _require_parquet(file)
            frame = pl.scan_parquet(file, glob=False, row_index_name=ROW, row_index_offset=1)
        elif suffix in _SEPARATORS:
            # Every value is read as text: guessing would turn the id 007 into 7.
            frame = pl.scan_csv(
                file,
                separator=_separator(file),
                infer_schema=False,
                glob=False,
                row_index_name=ROW,
                row_index_offset=1,
            )
        elif suffix in _JSON_LINES:
            frame = pl.scan_ndjson(
                glob.escape(str(file)), schema=json_types, row_index_name=ROW, row_index_offset=1
            )
        else:
            raise InputError(f"unknown kind of table '{suffix}'.", _KNOWN_SUFFIXES, file=file)
        return Table(file, frame, frame.collect_schema())


def _kind(file: Path) -> str:
    """Return the suffix that says what a file is: of log.csv.gz, .csv."""
    suffix = file.suffix.lower()
    packed = Path(file.stem).suffix.lower()
    return packed if suffix == _GZIP and packed not in _PARQUET else suffix


def _stem(file: Path) -> str:
    """Return a file's name without its suffixes."""
    return file.name[: file.name.lower().rindex(_kind(file))]


def _lines(file: Path, *, errors: str, newline: str | None = None) -> TextIO:
    opened = gzip.open if file.suffix.lower() == _GZIP else open
    return cast(TextIO, opened(file, "rt", encoding="utf-8", errors=errors, newline=newline))


def _require_content(file: Path) -> None:
    if file.stat().st_size == 0:
        raise InputError("the file is empty.", "Write it again.", file=file)


def _separator(file: Path) -> str:
    """Return what separates the columns: by the suffix, unless the header says otherwise."""
    usual = _SEPARATORS[_kind(file)]
    with _lines(file, errors="replace") as lines:
        header = lines.readline()
    others = [mark for mark in (";", "\t", "|", ",") if mark in header]
    return usual if usual in header or not others else others[0]


def _json_types(files: list[Path]) -> pl.Schema:
    """Read JSON lines through once for the keys and types that hold all of them.

    Nothing less will do: a key may appear, and an empty value become something, in any line.
    """
    heads: list[pl.DataFrame] = []
    for file in files:
        with _reading(file):
            _require_content(file)
            lines = pl.scan_ndjson(glob.escape(str(file)), infer_schema_length=None)
            head = lines.collect_schema().to_frame()
        try:
            heads = [pl.concat([*heads, head], how="diagonal_relaxed")]
        except pl.exceptions.PolarsError as error:
            raise _different(file, files[0]) from error
    # A column without any value may as well be text.
    types = {pl.Null(): pl.String(), pl.List(pl.Null): pl.List(pl.String)}
    return pl.Schema({n: types.get(t, t) for head in heads for n, t in head.schema.items()})


def _require_parquet(file: Path) -> None:
    with file.open("rb") as stream:
        head = stream.read(4)
        stream.seek(max(-4, -file.stat().st_size), 2)
        tail = stream.read(4)
    if head != b"PAR1":
        raise InputError(
            "the file is not Parquet.",
            "Give it the suffix of what it is, or convert it.",
            file=file,
        )
    if tail != b"PAR1":
        raise InputError(
            "the Parquet file is truncated: its footer is missing.",
            "Copy or write it again.",
            file=file,
        )


@contextmanager
def _reading(file: Path) -> Iterator[None]:
    try:
        yield
    except (pl.exceptions.PolarsError, OSError) as error:
        problem, row, column = _damage(file)
        raise InputError(
            f"the file cannot be read: {problem or str(error).strip().splitlines()[0]}",
            "It is damaged or not what its suffix says: correct the row, or write it again.",
            file=file,
            row=row,
            column=column,
        ) from error


def _damage(file: Path) -> Damage:
    suffix = _kind(file)
    with (
        suppress(OSError, EOFError, csv.Error),
        _lines(file, errors=ENCODING_ERRORS, newline="") as lines,
    ):
        if suffix in _JSON_LINES:
            return damaged_json(lines)
        if suffix in _SEPARATORS:
            rows = csv.reader(lines, delimiter=_separator(file))
            return damaged_fields(rows, width=len(next(rows, [])))
    return Damage()
