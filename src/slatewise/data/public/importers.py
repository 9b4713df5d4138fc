"""Import of public datasets: open one, write its log and its items, count what was left out."""

from collections.abc import Callable
from contextlib import closing
from enum import StrEnum
from pathlib import Path
from typing import Final

from slatewise.data.columns import LOG_FILES
from slatewise.data.public.ebnerd import read_ebnerd
from slatewise.data.public.finn import read_finn
from slatewise.data.public.kuairand import read_kuairand
from slatewise.data.public.mind import read_mind
from slatewise.data.public.tables import write_items, write_log
from slatewise.data.public.tally import Importer, Tally
from slatewise.errors import InputError
from slatewise.files import atomic_directory

CHUNK_SIZE: Final = 100_000
"""Interactions read at a time; measured, the peak stays below 1 GB however long the log."""


class PublicDataset(StrEnum):
    """The public datasets that can be imported."""

    FINN = "finn"
    MIND = "mind"
    EBNERD = "ebnerd"
    KUAIRAND = "kuairand"


IMPORTERS: Final[dict[PublicDataset, Importer]] = {
    PublicDataset.FINN: read_finn,
    PublicDataset.MIND: read_mind,
    PublicDataset.EBNERD: read_ebnerd,
    PublicDataset.KUAIRAND: read_kuairand,
}


def import_public(
    dataset: PublicDataset | str,
    source: str | Path,
    out: str | Path,
    *,
    overwrite: bool = False,
    chunk_size: int = CHUNK_SIZE,
    progress: Callable[[int, int | None], None] = lambda done, total: None,
) -> Tally:
    """Write `out/log.parquet` and `out/items.parquet` from the published files in `source`.

    `progress` is called with the rows done and their total (None where the format does not say).
    Either both files appear complete, or `out` is left as it was.
    """
    importer, source, tally = IMPORTERS[PublicDataset(dataset)], Path(source), Tally()
    if not source.is_dir():
        raise InputError(
            "there is no such directory.",
            "Give the directory that holds the published files, unpacked.",
            file=source,
        )
    with atomic_directory(out, overwrite=overwrite, contents=LOG_FILES) as folder:
        published = importer(source, tally, chunk_size)

        def advance() -> None:
            progress(tally.looked_at, published.total)

        # A generator left half-read would keep its files open until it is collected.
        with closing(published.batches) as batches:
            tally.written, shown = write_log(folder / "log.parquet", batches, advance)
        if not tally.written:
            raise InputError(_nothing_written(tally), "Check that this is the whole dataset.")
        tally.items = write_items(folder / "items.parquet", published.items, shown, tally)
    return tally


def _nothing_written(tally: Tally) -> str:
    if not tally.read:
        return "The log is empty: no interaction was found."
    reasons = "; ".join(f"{count:,} × {reason}" for reason, count in tally.left_out.items())
    return f"None of the {tally.read:,} interactions could be used ({reasons})."
