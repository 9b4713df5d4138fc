"""From a log to a dataset, in two passes over bounded memory.

First pass: stream the log, check and number its rows, and partition them by user. Second pass:
take users bucket by bucket, order and reduce their interactions, and append them to the dataset.
"""

import shutil
from collections.abc import Callable, Iterable, Iterator
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
from slatewise.data.own_split import UserTimes
from slatewise.data.parts import CleanBatch, FileReading, OrderedMap, UserReduction
from slatewise.data.reductions import PrepareConfig
from slatewise.data.report import Report
from slatewise.data.spill import Buckets
from slatewise.data.split import SplitConfig
from slatewise.data.tables import has_table
from slatewise.data.vocabulary import ItemsTable, Vocabulary
from slatewise.data.writer import DatasetWriter
from slatewise.errors import SlatewiseError
from slatewise.files import atomic_directory

Progress = Callable[[str, int, int], None]
"""Called with a stage, how much of it is done, and how much there is."""


def prepare(
    log: str | Path,
    items: str | Path | None,
    out: str | Path,
    config: PrepareConfig | None = None,
    *,
    log_format: LogFormat | None = None,
    items_format: ItemsFormat | None = None,
    division: SplitConfig | None = None,
    overwrite: bool = False,
    elsewhere: OrderedMap | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> SlateDataset:
    """Turn a log and an items table into a dataset; on any error nothing is written.

    Without `items`, or a column of groups there, all items are in one group, `unknown`. A directory
    with log and items is asked for both.

    The account of what was dropped and why is in the dataset's `meta["report"]`.

    With `elsewhere`, the Parquet files of a log are read and checked, and its users ordered and
    reduced, wherever that runs its tasks, such as on a cluster; the dataset is the same.
    """
    config = config or PrepareConfig()
    division = division or SplitConfig()
    source = Log(log, log_format or LogFormat(), split=division.method == "column")
    division = division.in_unit(source.layout.time_unit, clock_times=source.clock_times())
    own_times = None
    if division.file is not None:
        own_times = UserTimes.read(division.file, source.user_type, source.layout)
    table = _items_of(items, log, items_format or ItemsFormat(), config, source)
    report = Report(strict=config.strict, columns=source.columns | table.columns)
    # Integers on one side and text on the other meet as text.
    item_type = source.item_type if source.item_type == table.item_type else pl.String
    listed = table.read(item_type, report)
    encoder = Encoder(Vocabulary(listed))
    with atomic_directory(
        out, overwrite=overwrite, contents=CONTENTS, apart_from=(log, table.path or log)
    ) as directory:
        workspace = directory / "work"
        total = source.rows
        users = Buckets(workspace / "users", total, source.items)
        checker = Checker(
            report,
            source.files,
            config.several_clicks,
            clicks_by_position=source.clicks_by_position,
            listed=listed[Columns.ITEM] if config.listed_items_only else None,
        )
        if elsewhere is None:
            batches = _counted(source.batches(item_type), report, total, progress)
            if source.has_impressions:
                slates = workspace / "slates"
                batches = group_impressions(batches, slates, total, report, source.files)
            cleaned: Iterator[pl.DataFrame] = map(checker.clean, batches)
        else:
            split = division.method == "column"
            reading = FileReading.of(source, item_type, config, listed, report, split=split)
            parts = elsewhere(reading.cleaned, range(len(source.files)))
            cleaned = _taken(parts, checker, report, total, progress)
        _partition(cleaned, checker if table.files else None, encoder, users)
        checker.require_clicks()
        vocabulary = encoder.finish()
        held_out = 0
        with DatasetWriter(directory) as writer:
            files = users.close()
            reduction = UserReduction(
                source.files,
                config,
                division,
                own_times,
                source.layout.split,
                report.strict,
                report.columns,
                _window(config, source, report),
            )
            reduced = (elsewhere or map)(reduction.reduced, files)
            for number, (file, found) in enumerate(zip(files, reduced, strict=True), start=1):
                report.add(found.report)
                held_out += found.held_out
                if found.frame.height:
                    writer.append(vocabulary.renumber(found.frame))
                file.unlink()
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
                        "items": table.path and _input(table.path, table.files, table.format),
                    },
                    "grouped": table.has_groups,
                    "clock_times": source.clock_times(),
                    "guessed_time_unit": source.guessed_unit,
                    "guessed_time_format": source.guessed_format,
                    "report": report.to_json(),
                },
            )
        shutil.rmtree(workspace)
    return SlateDataset.open(out)


def _items_of(
    items: str | Path | None,
    log: str | Path,
    layout: ItemsFormat,
    config: PrepareConfig,
    source: Log,
) -> ItemsTable:
    """Open the items table, which may stand beside the log, or be missing."""
    if items is None and has_table(log, "items"):
        items = log
    if items is None and config.listed_items_only:
        raise SlatewiseError(
            "only items of the items table are asked for, and there is none.",
            "Name it: slatewise prepare LOG ITEMS OUT.",
        )
    return ItemsTable(items, layout, source.item_type)


def _window(config: PrepareConfig, source: Log, report: Report) -> int | None:
    """Return the microseconds within which clicks in rows of their own are on one slate.

    None for any: where times are only an order. 0 where a row was found to list several clicks.
    """
    if source.whole_slates or report.clicks_unfolded or report.clicks_ignored:
        return 0
    if config.same_slate and not source.clock_times():
        return None
    return round(config.same_slate * 60_000_000)


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


def _taken(
    parts: Iterable[list[CleanBatch]],
    checker: Checker,
    report: Report,
    total: int,
    progress: Progress,
) -> Iterator[pl.DataFrame]:
    """Yield what was read and checked elsewhere, and add up the accounts."""
    for part in parts:
        for batch in part:
            report.add(batch.report)
            checker.clicks += batch.clicks
            yield batch.frame
            progress("reading", report.rows, total)


def _partition(
    cleaned: Iterable[pl.DataFrame], checker: Checker | None, encoder: Encoder, buckets: Buckets
) -> None:
    """Divide usable rows by user; a checker notes items that no table lists."""
    for usable in cleaned:
        if usable.is_empty():
            continue
        users = id_keys(usable["user"])
        numbered, first_seen = encoder.encode(usable, users)
        if checker is not None:
            checker.unlisted(first_seen)
        buckets.add(numbered, users)
