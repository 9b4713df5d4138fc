"""EB-NeRD: impressions of Ekstra Bladet, with the articles in view and those clicked."""

from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from slatewise.data.columns import UNKNOWN, Columns
from slatewise.data.public.tally import PublicLog, Tally
from slatewise.data.public.text import Piece
from slatewise.errors import InputError

USER, TIME, SEEN, CLICKED = (
    "user_id",
    "impression_time",
    "article_ids_inview",
    "article_ids_clicked",
)
PAGE: Final = "article_id"
"""The article whose page showed the slate; null on the front page."""

SPLITS: Final = ("train", "validation")
LEFT_OUT: Final = {
    "no article in view": pl.col(SEEN).list.len().fill_null(0) == 0,
    "a clicked article was not in view": (
        pl.col(CLICKED).list.set_difference(pl.col(SEEN)).list.len() > 0
    ),
}


def read_ebnerd(source: Path, tally: Tally, chunk_size: int) -> PublicLog:
    """Open `articles.parquet` and `behaviors.parquet`, the latter in the root or per split."""
    files = [source / "behaviors.parquet"]
    if not files[0].is_file():
        splits = [source / split / "behaviors.parquet" for split in SPLITS]
        files = [file for file in splits if file.is_file()] or files
    behaviors = [_open(file, [USER, TIME, SEEN, CLICKED]) for file in files]
    articles = _open(source / "articles.parquet", ["article_id", "category_str"])
    total = sum(file.metadata.num_rows for file in behaviors)
    return PublicLog(
        _log(list(zip(files, behaviors, strict=True)), tally, chunk_size),
        _items(source / "articles.parquet", articles, tally, chunk_size),
        total,
    )


def _open(file: Path, columns: Sequence[str]) -> pq.ParquetFile:
    if not file.is_file():
        raise InputError(
            "the file is missing.",
            "Unpack a published bundle (demo, small or large) and give its directory.",
            file=file,
        )
    try:
        parquet = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"this is not a complete Parquet file ({error}).", "Fetch it again.", file=file
        ) from error
    for column in columns:
        if column not in parquet.schema_arrow.names:
            remedy = "Give the file as it was published."
            if column == CLICKED:
                remedy = "Use train and validation: the test set is published without its clicks."
            raise InputError("the column is missing.", remedy, file=file, column=column)
    return parquet


def _pieces(
    file: Path, parquet: pq.ParquetFile, columns: Sequence[str], chunk_size: int
) -> Iterator[Piece]:
    start = 0
    try:
        for batch in parquet.iter_batches(batch_size=chunk_size, columns=list(columns)):
            frame = pl.DataFrame(pl.from_arrow(batch))
            yield Piece(file, start, frame)
            start += frame.height
    except (pa.ArrowException, OSError) as error:
        raise InputError(
            f"the file cannot be read: {error}.", "Fetch it again.", file=file, row=start + 1
        ) from error


def _log(
    files: Sequence[tuple[Path, pq.ParquetFile]], tally: Tally, chunk_size: int
) -> Generator[pl.DataFrame, None, None]:
    for file, parquet in files:
        schema = pl.DataFrame(pl.from_arrow(parquet.schema_arrow.empty_table())).schema
        _require_type(file, USER, schema[USER].is_integer(), "whole numbers")
        _require_type(file, TIME, schema[TIME] == pl.Datetime, "times")
        for column in (SEEN, CLICKED):
            kind = schema[column]
            of_integers = isinstance(kind, pl.List) and kind.inner.is_integer()
            _require_type(file, column, of_integers, "lists of whole numbers")
        source = pl.lit("recommendation")
        columns = [USER, TIME, SEEN, CLICKED]
        if PAGE in schema:
            columns.append(PAGE)
            on_article = pl.col(PAGE).is_not_null()
            source = (
                pl.when(on_article).then(pl.lit("article-page")).otherwise(pl.lit("front-page"))
            )
        ids = pl.List(pl.Int64)
        for piece in _pieces(file, parquet, columns, chunk_size):
            piece.require(USER, pl.col(USER).is_not_null(), "a user")
            piece.require(TIME, pl.col(TIME).is_not_null(), "a time")
            tally.looked_at += piece.frame.height
            yield tally.keep(LEFT_OUT, piece.frame.cast({SEEN: ids, CLICKED: ids})).select(
                pl.col(USER).cast(pl.Int64).alias(Columns.USER),
                pl.col(TIME).cast(pl.Datetime("us")).alias(Columns.TIME),
                pl.col(SEEN).alias(Columns.SLATE),
                pl.col(CLICKED).alias(Columns.CLICK),
                source.alias(Columns.SOURCE),
            )


def _require_type(file: Path, column: str, fits: bool, expected: str) -> None:
    if not fits:
        raise InputError(
            f"the column does not hold {expected}.",
            "Give the file as it was published.",
            file=file,
            column=column,
        )


def _items(
    file: Path, articles: pq.ParquetFile, tally: Tally, chunk_size: int
) -> Iterator[pl.DataFrame]:
    carried = [name for name in ("title", "published_time") if name in articles.schema_arrow.names]
    for piece in _pieces(file, articles, ["article_id", "category_str", *carried], chunk_size):
        piece.require("article_id", pl.col("article_id").is_not_null(), "an article")
        tally.note(
            "articles without a category, given the group 'unknown'",
            piece.frame["category_str"].null_count(),
        )
        yield piece.frame.select(
            pl.col("article_id").cast(pl.Int64).alias(Columns.ITEM),
            pl.col("category_str").cast(pl.String).fill_null(UNKNOWN).alias(Columns.GROUP),
            *carried,
        )
