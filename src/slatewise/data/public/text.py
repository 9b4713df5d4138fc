"""Delimited text files, streamed as strings so that errors can name the row of a bad value."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from slatewise.data.damage import ENCODING_ERRORS, Damage, damaged_fields
from slatewise.errors import InputError


@dataclass(frozen=True)
class Piece:
    """Consecutive rows of a file, with their offset."""

    file: Path
    start: int
    """Rows of the file before this piece."""

    frame: pl.DataFrame

    def require(self, column: str, valid: pl.Expr, expected: str, remedy: str = "") -> None:
        """Raise for the first row where `valid` is not true."""
        verdict = self.frame.select(valid.fill_null(value=False).alias("valid"))["valid"]
        if verdict.all():
            return
        index = verdict.arg_min()
        assert index is not None  # there is a False, hence a smallest value
        found = str(self.frame[column][index])
        shown = found if len(found) <= 60 else f"{found[:57]}..."
        raise InputError(
            f"found {shown!r}, expected {expected}.",
            remedy or "The file seems damaged: fetch it again.",
            file=self.file,
            row=self.start + index + 1,
            column=column,
        )

    def integers(self, columns: Sequence[str]) -> "Piece":
        """Return the piece with `columns` as 64-bit integers."""
        for column in columns:
            number = pl.col(column).cast(pl.Int64, strict=False)
            self.require(column, number.is_not_null(), "a whole number")
        return Piece(self.file, self.start, self.frame.cast(dict.fromkeys(columns, pl.Int64)))


@dataclass(frozen=True)
class TextFile:
    """A file of separated values; without `names` its first line is a header."""

    file: Path
    separator: str = ","
    names: Sequence[str] = ()
    quoted: bool = True

    def pieces(self, columns: Sequence[str], chunk_size: int) -> Iterator[Piece]:
        """Yield `columns`, which have to exist, as strings."""
        query = pl.scan_csv(
            self.file,
            separator=self.separator,
            has_header=not self.names,
            new_columns=list(self.names) or None,
            quote_char='"' if self.quoted else None,
            infer_schema=False,
            glob=False,
        )
        start = 0
        try:
            for frame in query.collect_batches(
                chunk_size=chunk_size, maintain_order=True, lazy=True
            ):
                # Chosen here and not in the query, which would then overlook lines too long.
                yield Piece(self.file, start, frame.select(columns))
                start += frame.height
        except pl.exceptions.PolarsError as error:
            damage = self._damage()
            raise InputError(
                f"the text cannot be read: {damage.problem or error}",
                "Fetch the file again.",
                file=self.file,
                row=damage.row,
            ) from error

    def header(self) -> list[str]:
        """Return the fields of the first line."""
        try:
            with self.file.open("rb") as lines:
                first = lines.readline().decode("utf-8")
                return next(self._fields([first])) if first.strip() else []
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(
                "this is not a text file.", "Unpack the published archive first.", file=self.file
            ) from error

    def require_columns(self, columns: Sequence[str]) -> None:
        """Raise unless the header names every one of `columns`."""
        header = self.header()
        for column in columns:
            if column not in header:
                raise InputError(
                    f"the column is missing; the file has {', '.join(header) or 'no columns'}.",
                    "Give the file as it was published, with its header.",
                    file=self.file,
                    column=column,
                )

    def _fields(self, lines: Iterable[str]) -> Iterator[list[str]]:
        if self.quoted:
            return csv.reader(lines, delimiter=self.separator)
        return (line.rstrip("\r\n").split(self.separator) for line in lines)

    def _damage(self) -> Damage:
        with (
            suppress(csv.Error),
            self.file.open(newline="", encoding="utf-8", errors=ENCODING_ERRORS) as lines,
        ):
            rows = self._fields(lines)
            return damaged_fields(rows, width=len(self.names) or len(next(rows, [])))
        return Damage()
