"""KuaiRand: a video feed, one row per video shown; part of it was shown at random."""

import re
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Final

import polars as pl

from slatewise.data.columns import UNKNOWN, Columns
from slatewise.data.public.tally import PublicLog, Tally
from slatewise.data.public.text import TextFile
from slatewise.errors import InputError

LOG: Final = ["user_id", "video_id", "time_ms", "is_click", "is_rand"]
VIDEO: Final = ["video_id", "tag"]
CARRIED: Final = ["author_id", "video_type", "upload_dt"]
VERSION: Final = re.compile(r"_(pure|1k|27k)(?:_part\d+)?\.csv$", re.IGNORECASE)


def read_kuairand(source: Path, tally: Tally, chunk_size: int) -> PublicLog:
    """Open the logs (`log_standard_*.csv`, `log_random_*.csv`) and `video_features_basic_*.csv`."""
    logs = [*_find(source, "log_standard_*.csv"), *_find(source, "log_random_*.csv")]
    videos = _find(source, "video_features_basic_*.csv")
    for files, name in ((logs, "log_standard_*.csv"), (videos, "video_features_basic_*.csv")):
        if not files:
            raise InputError(
                f"there is no {name} here or in data/.",
                "Unpack KuaiRand-Pure or KuaiRand-1K and give its directory.",
                file=source,
            )
    _require_one_version(source, [*logs, *videos])
    for file in logs:
        TextFile(file).require_columns(LOG)
    for file in videos:
        TextFile(file).require_columns(VIDEO)
    return PublicLog(_log(logs, tally, chunk_size), _items(videos, tally, chunk_size))


def _find(source: Path, pattern: str) -> list[Path]:
    return sorted(source.glob(pattern)) or sorted(source.glob(f"data/{pattern}"))


def _require_one_version(source: Path, files: Sequence[Path]) -> None:
    # Each version numbers its users and videos anew: mixed, different people become one.
    versions = {found[1].lower() for file in files if (found := VERSION.search(file.name))}
    if len(versions) > 1:
        raise InputError(
            f"files of several versions lie together: {', '.join(sorted(versions))}.",
            "Give a directory with the files of one version.",
            file=source,
        )


def _log(
    files: Sequence[Path], tally: Tally, chunk_size: int
) -> Generator[pl.DataFrame, None, None]:
    video = pl.col("video_id")
    source = pl.when(pl.col("is_rand") == 1).then(pl.lit("random"))
    for file in files:
        for text in TextFile(file).pieces(LOG, chunk_size):
            piece = text.integers(LOG)
            for flag in ("is_click", "is_rand"):
                piece.require(flag, pl.col(flag).is_in([0, 1]), "0 or 1")
            tally.looked_at += piece.frame.height
            tally.read += piece.frame.height
            yield piece.frame.select(
                pl.col("user_id").alias(Columns.USER),
                pl.from_epoch("time_ms", time_unit="ms")
                .cast(pl.Datetime("us"))
                .alias(Columns.TIME),
                pl.concat_list(video).alias(Columns.SLATE),
                pl.when(pl.col("is_click") == 1).then(video).alias(Columns.CLICK),
                source.otherwise(pl.lit("recommendation")).alias(Columns.SOURCE),
            )


def _items(files: Sequence[Path], tally: Tally, chunk_size: int) -> Iterator[pl.DataFrame]:
    for file in files:
        header = TextFile(file).header()
        carried = [column for column in CARRIED if column in header]
        for text in TextFile(file).pieces([*VIDEO, *carried], chunk_size):
            frame = text.integers(["video_id"]).frame
            tally.note("videos without a tag, given the group 'unknown'", frame["tag"].null_count())
            first = pl.col("tag").str.split(",").list.first().str.strip_chars()
            yield frame.select(
                pl.col("video_id").alias(Columns.ITEM),
                first.fill_null(UNKNOWN).alias(Columns.GROUP),
                pl.col("tag").alias("tags"),
                *carried,
            )
