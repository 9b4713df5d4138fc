"""Summary numbers of a dataset, computed piece by piece."""

from datetime import UTC, datetime
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array, pieces

_ROWS: Final = 1 << 18
"""Slates whose items are counted at once."""


def describe(dataset: SlateDataset) -> dict[str, Any]:
    """Count users, items, interactions, views; rates by source; histograms; the split.

    A slate with several clicks is several interactions, and its items were seen once.
    """
    views = count_views(dataset)
    lengths = np.zeros(1, dtype=np.int64)
    interactions, slates, clicks, clicked_slates = np.zeros(
        (4, len(dataset.source_names)), dtype=np.int64
    )
    further = dataset.further_clicks
    first, last = None, None
    for part in pieces(dataset.num_interactions):
        begins = slice(None) if further is None else further[part] == 0
        scroll = np.diff(dataset.slate_offsets[part.start : part.stop + 1])
        lengths = _add(lengths, np.bincount(scroll[begins]))
        sources, clicked = dataset.sources[part], dataset.clicks[part] >= 0
        interactions += np.bincount(sources, minlength=len(clicks))
        slates += np.bincount(sources[begins], minlength=len(clicks))
        clicks += np.bincount(sources[clicked], minlength=len(clicks))
        clicked_slates += np.bincount(sources[begins][clicked[begins]], minlength=len(clicks))
        times = dataset.times[part]
        first = int(times.min()) if first is None else min(first, int(times.min()))
        last = int(times.max()) if last is None else max(last, int(times.max()))
    per_user = np.diff(dataset.user_offsets)
    return {
        "path": str(dataset.path),
        "content_hash": dataset.content_hash,
        "users": dataset.num_users,
        "items": dataset.num_items,
        "items_seen": int((views > 0).sum()),
        "groups": dataset.num_groups,
        "interactions": dataset.num_interactions,
        "slates": int(slates.sum()),
        "clicks": int(clicks.sum()),
        "views": int(views.sum()),
        "first_time": _moment(first, dataset),
        "last_time": _moment(last, dataset),
        "interactions_per_user": {
            "least": int(per_user.min()),
            "mean": float(per_user.mean()),
            "most": int(per_user.max()),
        },
        "sources": {
            name: {
                "interactions": int(interactions[number]),
                "slates": int(slates[number]),
                "clicks": int(clicks[number]),
                "click_rate": (
                    float(clicked_slates[number] / slates[number]) if slates[number] else None
                ),
            }
            for number, name in enumerate(dataset.source_names)
        },
        "slate_lengths": {str(n): int(count) for n, count in enumerate(lengths) if count},
        "views_per_item": views_histogram(views),
        "split": split_counts(dataset),
        "hints": _hints(dataset.source_names, clicked=clicked_slates, slates=slates),
    }


def _hints(sources: list[str], *, clicked: Int64Array, slates: Int64Array) -> list[str]:
    """Return what a person should look at before training."""
    hints = []
    if not clicked.any():
        hints.append("No slate has a click: a model has nothing to learn from. Check the column.")
    elif int(clicked.sum()) == int(slates.sum()):
        hints.append(
            "Every slate has a click: the log does not show how often a slate gets none, so "
            "predicted chances assume that there is a click. If slates without a click were left "
            "out, add them."
        )
    spellings: dict[str, list[str]] = {}
    for name in sources:
        spellings.setdefault(name.strip().casefold(), []).append(name)
    for alike in spellings.values():
        if len(alike) > 1:
            named = " and ".join(f"'{name}'" for name in alike)
            hints.append(
                f"Sources {named} differ only in case or spaces. If they are the same, give them "
                "one name in the log."
            )
    return hints


def count_views(dataset: SlateDataset) -> Int64Array:
    """Count in how many slates each item was seen: [I]."""
    views = np.zeros(dataset.num_items, dtype=np.int64)
    further = dataset.further_clicks
    for start in range(0, dataset.num_interactions, _ROWS):
        part = slice(start, start + _ROWS)
        offsets = dataset.slate_offsets[start : start + _ROWS + 1]
        items = dataset.slate_items[offsets[0] : offsets[-1]]
        if further is not None:  # a further click repeats the items of its slate
            items = items[np.repeat(further[part] == 0, np.diff(offsets))]
        views += np.bincount(items, minlength=len(views))
    return views


def views_histogram(views: Int64Array) -> dict[str, int]:
    """Count items by views in powers of two: '0', '1', '2-3', '4-7', …"""
    exponent = np.where(views > 0, np.log2(np.maximum(views, 1)).astype(np.int64) + 1, 0)
    counts = np.bincount(exponent)
    return {_span(number): int(count) for number, count in enumerate(counts)}


def _span(exponent: int) -> str:
    if exponent < 2:
        return str(exponent)
    return f"{2 ** (exponent - 1)}-{2**exponent - 1}"


def split_counts(dataset: SlateDataset) -> dict[str, dict[str, int]]:
    """Count users and interactions of training, validation and test."""
    ends = np.diff(dataset.user_offsets)
    parts: dict[str, Int64Array] = {
        "training": dataset.train_end.astype(np.int64),
        "validation": (dataset.valid_end - dataset.train_end).astype(np.int64),
        "test": ends - dataset.valid_end.astype(np.int64),
    }
    return {
        name: {"users": int((counts > 0).sum()), "interactions": int(counts.sum())}
        for name, counts in parts.items()
    }


def _add(total: Int64Array, counts: npt.NDArray[np.int64]) -> Int64Array:
    """Add two histograms of different lengths."""
    longer, shorter = (total, counts) if len(total) >= len(counts) else (counts, total)
    longer = longer.copy()
    longer[: len(shorter)] += shorter
    return longer


def _moment(time: int | None, dataset: SlateDataset) -> str | int | None:
    if time is None or not dataset.meta["clock_times"]:
        return time
    return datetime.fromtimestamp(time / 1_000_000, tz=UTC).isoformat(timespec="seconds")
