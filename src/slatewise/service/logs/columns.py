"""A dataset as columns for the store: slates in the order of their times, in bounded memory.

A slate's id is a digest of who saw what, when and where, so that the same slate has the same id
whichever file it came from, and is never loaded twice.
"""

import json
from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from itertools import pairwise
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from slatewise.data import SlateDataset
from slatewise.data.ragged import offsets_of, ranges
from slatewise.features.showings import showing_starts
from slatewise.service.store.bulk import LoggedSlates
from slatewise.service.store.records import outcome_key

Ints = npt.NDArray[np.int64]

BATCH: Final = 10_000
"""Slates in a transaction: a third of a second, in which a service that runs cannot write."""
_AT_ONCE: Final = 1_000_000
"""Interactions of a span of time that is sorted in memory, about."""


class Batch(NamedTuple):
    """Slates, and how many interactions of the dataset they are."""

    slates: LoggedSlates
    interactions: int


def slates_of(dataset: SlateDataset) -> Iterator[Batch]:
    """Yield the slates of a dataset, oldest first; several clicks on a slate are one slate."""
    names = _Names(dataset)
    begins = showing_starts(dataset).numpy()  # [N]
    for start, end in _spans(dataset.times):
        rows = np.flatnonzero((dataset.times >= start) & (dataset.times < end))  # [R]
        first = np.flatnonzero(begins[rows])  # [S] where the slates begin in `rows`
        counts = np.diff(first, append=len(rows))
        order = np.argsort(dataset.times[rows[first]], kind="stable")
        for batch in np.array_split(order, max(1, -(-len(order) // BATCH))):
            slates = _slates(dataset, names, rows, first[batch], counts[batch])
            yield Batch(slates, int(counts[batch].sum()))


def _spans(times: Ints) -> Iterator[tuple[int, int]]:
    """Divide the time of a log so that each span [start, end) has few interactions.

    Interactions of one moment, and so the clicks of one slate, are in one span.
    """
    parts = 1 + len(times) // _AT_ONCE
    sample = np.sort(times[:: 1 + len(times) // _AT_ONCE])
    edges = np.unique(sample[np.linspace(0, len(sample) - 1, parts + 1).astype(np.int64)[1:-1]])
    starts = [int(times.min()), *edges.tolist(), int(times.max()) + 1]
    yield from ((a, b) for a, b in pairwise(starts) if a < b)


class _Names:
    """The names of a dataset as the store has them."""

    def __init__(self, dataset: SlateDataset) -> None:
        self.users = dataset.user_ids.cast(pl.String)
        """[U]"""
        self.items = pl.Series([json.dumps(item) for item in dataset.item_ids.cast(pl.String)])
        """[I] as JSON"""
        self.sources = dataset.source_names


def _slates(
    dataset: SlateDataset, names: _Names, rows: Ints, first: Ints, counts: Ints
) -> LoggedSlates:
    """Return slates that begin at `rows[first]` [S] and have `counts` [S] interactions."""
    shown = rows[first]
    starts, ends = dataset.slate_offsets[shown], dataset.slate_offsets[shown + 1]
    items = _json_lists(names, dataset.slate_items[ranges(starts, ends - starts)], ends - starts)
    inside = rows[ranges(first, counts)]
    clicks = dataset.clicks[inside]
    chosen = dataset.slate_items[dataset.slate_offsets[inside] + clicks][clicks >= 0]
    slate = np.repeat(np.arange(len(first)), counts)[clicks >= 0]
    clicked = _json_lists(names, chosen, np.bincount(slate, minlength=len(first)))
    users = names.users.gather(np.searchsorted(dataset.user_offsets, shown, side="right") - 1)
    times, who = dataset.times[shown].tolist(), users.to_list()
    sources = [names.sources[source] for source in dataset.sources[shown].tolist()]
    return LoggedSlates(
        [_slate_id(*each) for each in zip(who, times, sources, items, strict=True)],
        who,
        times,
        sources,
        items,
        clicked,
        [_key(text) for text in clicked],
    )


def _json_lists(names: _Names, items: npt.NDArray[Any], lengths: Ints) -> list[str]:
    """Return lists of item ids as JSON, as `rows` writes them."""
    texts = names.items.gather(items).to_arrow(compat_level=pl.CompatLevel.oldest())
    lists = pa.LargeListArray.from_arrays(pa.array(offsets_of(lengths)), texts)
    return pl.select("[" + pl.lit(pl.Series(lists)).list.join(",") + "]").to_series().to_list()


def _slate_id(user: str, time: int, source: str, items: str) -> str:
    # The time comes first, as in ids of the service: what is written together stands together in
    # the index. No text has a NUL.
    content = "\0".join((user, source, items)).encode()
    return f"{time:014x}{blake2b(content, digest_size=9).hexdigest()}"


@lru_cache(100_000)
def _key(clicked: str) -> str:
    return outcome_key(None, json.loads(clicked))
