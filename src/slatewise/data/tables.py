"""Tables on disk as lazy frames: Parquet, CSV and JSON lines, one file after the other."""

import csv
import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from slatewise.errors import InputError

ROW = "__row"
"""Column added to every table: the row number in its file, counted from 1."""

_PARQUET = (".parquet", ".pq")
_SEPARATORS = {".csv": ",", ".tsv": "\t"}
_JSON_LINES = (".jsonl", ".ndjson")
_SUFFIXES = (*_PARQUET, *_SEPARATORS, *_JSON_LINES)
_KNOWN_SUFFIXES = f"Tables are recognised by their suffix: {', '.join(_SUFFIXES)}."
_JSON_ROWS_LOOKED_AT = 10_000


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

    def batches(self, columns: list[str], rows: int) -> Iterator[pl.DataFrame]:
        """Stream `columns` and the row number, about `rows` rows at a time, in file order."""
        columns = [ROW, *columns]
        # Of text, whole lines are read: a query for some columns overlooks lines with too many.
        whole = self.path.suffix.lower() in _SEPARATORS
        frame = self.frame if whole else self.frame.select(columns)
        with _reading(self.path):
            for batch in frame.collect_batches(chunk_size=rows, maintain_order=True, lazy=True):
                yield batch.select(columns)

    def require(self, column: str, option: str, example: str) -> str:
        """Return the column if the table has it, else say which columns there are."""
        if column not in self.schema:
            present = ", ".join(name for name in self.schema if name != ROW)
            raise InputError(
                f"the table has no column '{column}'; it has {present}.",
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
    files = [path]
    if path.is_dir():
        named = [path / f"{name}{suffix}" for suffix in _SUFFIXES]
        files = [file for file in named if file.is_file()][:1] or sorted(
            file for file in path.rglob("*") if file.suffix.lower() in _SUFFIXES
        )
        if not files:
            raise InputError("the directory holds no table.", _KNOWN_SUFFIXES, file=path)
    tables = [_open(file) for file in files]
    for table in tables[1:]:
        if table.schema != tables[0].schema:
            raise InputError(
                f"its columns differ from those of {tables[0].path}.",
                "Files of one table must have the same columns and types.",
                file=table.path,
            )
    return tables


def _open(file: Path) -> Table:
    suffix = file.suffix.lower()
    with _reading(file):
        if file.stat().st_size == 0:
            raise InputError("the file is empty.", "Write it again.", file=file)
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
            frame = _scan_json_lines(file)
        else:
            raise InputError(f"unknown kind of table '{suffix}'.", _KNOWN_SUFFIXES, file=file)
        return Table(file, frame, frame.collect_schema())


def _separator(file: Path) -> str:
    """Return what separates the columns: by the suffix, unless the header says otherwise."""
    usual = _SEPARATORS[file.suffix.lower()]
    with file.open(encoding="utf-8", errors="replace") as lines:
        header = lines.readline()
    others = [mark for mark in (";", "\t", "|", ",") if mark in header]
    return usual if usual in header or not others else others[0]


def _scan_json_lines(file: Path) -> pl.LazyFrame:
    def scan(types: dict[str, type[pl.String]]) -> pl.LazyFrame:
        return pl.scan_ndjson(
            file,
            infer_schema_length=_JSON_ROWS_LOOKED_AT,
            schema_overrides=types,
            row_index_name=ROW,
            row_index_offset=1,
        )

    # A column that is empty at the beginning may hold anything later: text holds it.
    schema = scan({}).collect_schema()
    return scan({name: pl.String for name, dtype in schema.items() if dtype == pl.Null})


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
        row, problem = _damaged_line(file)
        raise InputError(
            f"the file cannot be read: {problem or str(error).strip().splitlines()[0]}",
            "It is damaged or not what its suffix says: correct the row, or write it again.",
            file=file,
            row=row,
        ) from error


def _damaged_line(file: Path) -> tuple[int | None, str]:
    """Look for the line of a text file that Polars stumbled over but did not name."""
    suffix = file.suffix.lower()
    with suppress(OSError), file.open(encoding="utf-8", errors="replace", newline="") as lines:
        if suffix in _JSON_LINES:
            for row, line in enumerate(lines, start=1):
                try:
                    json.loads(line or "{}")
                except ValueError as error:
                    return row, f"the line is not JSON ({error})."
        if suffix in _SEPARATORS:
            reader = csv.reader(lines, delimiter=_separator(file))
            width = len(next(reader, []))
            for row, fields in enumerate(reader, start=1):
                if len(fields) > width:
                    return row, f"the line has {len(fields)} fields, the header {width}."
    return None, ""
