"""From a log to a dataset, in two passes over bounded memory.

First pass: stream the log, check and number its rows, and partition them by user. Second pass:
take users bucket by bucket, order and reduce their interactions, and append them to the dataset.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from slatewise.data.checks import Checker
from slatewise.data.columns import Columns
from slatewise.data.dataset import CONTENTS, SlateDataset
from slatewise.data.encoding import Encoder
from slatewise.data.formats import ItemsFormat, LogFormat
from slatewise.data.impressions import group_impressions
from slatewise.data.keys import id_keys
from slatewise.data.log import Log
from slatewise.data.own_split import UserTimes, require_order
from slatewise.data.reductions import PrepareConfig, order_by_time, reduce_users
from slatewise.data.report import Report
from slatewise.data.spill import Buckets
from slatewise.data.split import SplitConfig
from slatewise.data.vocabulary import ItemsTable, Vocabulary
from slatewise.data.writer import DatasetWriter
from slatewise.errors import SlatewiseError
from slatewise.files import atomic_directory

Progress = Callable[[str, int, int], None]
"""Called with a stage, how much of it is done, and how much there is."""


def prepare(
    log: str | Path,
    items: str | Path,
    out: str | Path,
    config: PrepareConfig | None = None,
    *,
    log_format: LogFormat | None = None,
    items_format: ItemsFormat | None = None,
    division: SplitConfig | None = None,
    overwrite: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> SlateDataset:
    """Turn a log and an items table into a dataset; on any error nothing is written.

    The account of what was dropped and why is in the dataset's `meta["report"]`.
    """
    config = config or PrepareConfig()
    division = division or SplitConfig()
    source = Log(log, log_format or LogFormat(), split=division.method == "column")
    division.require_clock(source.clock_times())
    own_times = None
    if division.file is not None:
        own_times = UserTimes.read(division.file, source.user_type, source.layout)
    table = ItemsTable(items, items_format or ItemsFormat())
    report = Report(strict=config.strict, columns=source.columns | table.columns)
    # Integers on one side and text on the other meet as text.
    item_type = source.item_type if source.item_type == table.item_type else pl.String
    listed = table.read(item_type, report)
    encoder = Encoder(Vocabulary(listed))
    with atomic_directory(
        out, overwrite=overwrite, contents=CONTENTS, apart_from=(log, items)
    ) as directory:
        workspace = directory / "work"
        total = source.rows
        batches = _counted(source.batches(item_type), report, total, progress)
        if source.has_impressions:
            batches = group_impressions(batches, workspace / "slates", total, report, source.files)
        users = Buckets(workspace / "users", total, source.items)
        checker = Checker(
            report,
            source.files,
            config.several_clicks,
            clicks_by_position=source.clicks_by_position,
            listed=listed[Columns.ITEM] if config.listed_items_only else None,
        )
        _partition(batches, checker, encoder, users)
        checker.require_clicks()
        vocabulary = encoder.finish()
        held_out = 0
        with DatasetWriter(directory) as writer:
            for number, bucket in enumerate(users.drain(), start=1):
                ordered = order_by_time(bucket, report, source.files)
                if own_times is not None:
                    ordered = own_times.with_parts(ordered)
                    held_out += int((ordered["part"] > 0).sum())
                if division.method == "column":
                    require_order(ordered, source.files, source.layout.split)
                reduced = reduce_users(ordered, config, report)
                if reduced.height:
                    writer.append(vocabulary.renumber(reduced))
                progress("writing", number, users.count)
            if own_times is not None:
                own_times.require_held_out(held_out)
            report.remaining = writer.counts
            if not report.remaining["users"]:
                raise SlatewiseError(
                    f"no interaction is left of {report.slates:,}: {report.summary()}.",
                    "Loosen the reductions, or check the log.",
                )
            writer.finish(
                vocabulary.items,
                vocabulary.source_names,
                division,
                {
                    "prepare": config.model_dump(),
                    "input": {
                        "log": _input(log, source.files, source.format),
                        "items": _input(items, table.files, table.format),
                    },
                    "clock_times": source.clock_times(),
                    "report": report.to_json(),
                },
            )
        shutil.rmtree(workspace)
    return SlateDataset.open(out)


def _input(path: str | Path, files: list[Path], layout: LogFormat | ItemsFormat) -> dict[str, Any]:
    """Describe an input so that it can be read again in the same way."""
    return {
        "path": str(path),
        "files": [str(file) for file in files],
        "format": layout.model_dump(),
    }


def _counted(
    batches: Iterator[pl.DataFrame], report: Report, total: int, progress: Progress
) -> Iterator[pl.DataFrame]:
    for batch in batches:
        report.rows += batch.height
        yield batch
        progress("reading", report.rows, total)


def _partition(
    batches: Iterator[pl.DataFrame], checker: Checker, encoder: Encoder, buckets: Buckets
) -> None:
    for batch in batches:
        usable = checker.clean(batch)
        if usable.is_empty():
            continue
        users = id_keys(usable["user"])
        numbered, first_seen = encoder.encode(usable, users)
        checker.unlisted(first_seen)
        buckets.add(numbered, users)
