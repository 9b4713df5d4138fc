"""MIND: impressions of Microsoft News, one line each, with a label behind every article."""

from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Final

import polars as pl

from slatewise.data.columns import UNKNOWN, Columns
from slatewise.data.public.tally import PublicLog, Tally
from slatewise.data.public.text import TextFile
from slatewise.errors import InputError

BEHAVIORS: Final = ["impression_id", "user_id", "time", "history", "impressions"]
NEWS: Final = ["news_id", "category", "subcategory", "title"]
TIME_FORMAT: Final = "%m/%d/%Y %I:%M:%S %p"


def read_mind(source: Path, tally: Tally, chunk_size: int) -> PublicLog:
    """Open `behaviors.tsv` and `news.tsv`, which have no header line."""
    behaviors = _open(source / "behaviors.tsv", BEHAVIORS, exact=True)
    news = _open(source / "news.tsv", NEWS, exact=False)
    return PublicLog(_log(behaviors, tally, chunk_size), _items(news, tally, chunk_size))


def _open(file: Path, names: list[str], *, exact: bool) -> TextFile:
    if not file.is_file():
        raise InputError(
            "the file is missing.",
            "Unpack one published part (train or dev) and give its directory.",
            file=file,
        )
    # Titles contain quotation marks that mean nothing to the format.
    text = TextFile(file, separator="\t", names=names, quoted=False)
    width = len(text.header())
    if width == 0:
        raise InputError("the file is empty.", "Fetch it again.", file=file)
    if width < len(names) or (exact and width > len(names)):
        raise InputError(
            f"found {width} fields separated by tabs, expected {len(names)}: {', '.join(names)}.",
            "Give the file as it was published.",
            file=file,
            row=1,
        )
    more = [f"field_{number}" for number in range(len(names), width)]
    return TextFile(file, separator="\t", names=[*names, *more], quoted=False)


def _log(behaviors: TextFile, tally: Tally, chunk_size: int) -> Generator[pl.DataFrame, None, None]:
    shown = pl.element()
    labelled = shown.str.ends_with("-0") | shown.str.ends_with("-1")
    parsed_time = pl.col("time").str.to_datetime(TIME_FORMAT, time_unit="us", strict=False)
    for piece in behaviors.pieces(["user_id", "time", "impressions"], chunk_size):
        piece.require("user_id", pl.col("user_id").is_not_null(), "a user")
        piece.require("time", parsed_time.is_not_null(), "a time like '11/15/2019 8:55:22 AM'")
        impressions = pl.col("impressions").str.strip_chars().str.split(" ")
        piece.require(
            "impressions",
            impressions.list.eval(labelled).list.all(),
            "articles that each end in -0 or -1, like 'N1-0 N2-1'",
            "Use the train or dev part: the test part is published without its clicks.",
        )
        tally.looked_at += piece.frame.height
        tally.read += piece.frame.height
        yield piece.frame.select(
            pl.col("user_id").alias(Columns.USER),
            parsed_time.alias(Columns.TIME),
            impressions.list.eval(shown.str.head(-2)).alias(Columns.SLATE),
            impressions.list.eval(shown.filter(shown.str.ends_with("-1")).str.head(-2)).alias(
                Columns.CLICK
            ),
            pl.lit("recommendation").alias(Columns.SOURCE),
        )


def _items(news: TextFile, tally: Tally, chunk_size: int) -> Iterator[pl.DataFrame]:
    for piece in news.pieces(NEWS, chunk_size):
        piece.require("news_id", pl.col("news_id").is_not_null(), "an article")
        tally.note(
            "articles without a category, given the group 'unknown'",
            piece.frame["category"].null_count(),
        )
        yield piece.frame.select(
            pl.col("news_id").alias(Columns.ITEM),
            pl.col("category").fill_null(UNKNOWN).alias(Columns.GROUP),
            "subcategory",
            "title",
        )
