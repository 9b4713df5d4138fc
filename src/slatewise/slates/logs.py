"""Histories and current popularity from a log that the recommender was not trained on.

A log is a dataset, or a table of slates and clicks, which is prepared in a temporary
directory, with the items of the model as its items table. Items are matched by id, sources by name.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl

from slatewise.data.columns import Columns
from slatewise.data.dataset import SlateDataset
from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.data.tables import open_tables
from slatewise.errors import InputError, SlatewiseError
from slatewise.features.user_history import UserHistory
from slatewise.model.fitted import ItemId
from slatewise.slates.recommender import Recommender
from slatewise.slates.users import Ints, source_number

_MICROSECONDS = 1_000_000
_CELLS = 1 << 22


def is_log(path: str | Path, names: LogFormat | None = None) -> bool:
    """Return whether this is a dataset or a table of slates, and not one of clicks."""
    if (Path(path) / "dataset.json").exists():
        return True
    columns = open_tables(path, "log")[0].schema
    names = names or LogFormat()
    return names.slate in columns or names.clicked in columns


@contextmanager
def opened_log(
    path: str | Path, recommender: Recommender, names: LogFormat | None = None
) -> Iterator[SlateDataset]:
    """Open a dataset, or prepare a table of slates in a temporary directory."""
    if (Path(path) / "dataset.json").exists():
        yield SlateDataset.open(path)
        return
    with tempfile.TemporaryDirectory(prefix="slatewise-") as folder:
        items = Path(folder) / "items.parquet"
        catalogue = recommender.items
        groups = catalogue.groups_of(np.arange(len(catalogue)))
        pl.DataFrame({Columns.ITEM: catalogue.ids, Columns.GROUP: groups}).write_parquet(items)
        yield prepare(path, items, Path(folder) / "dataset", log_format=names)


class LoggedUsers:
    """The users of a log, with all that they saw and clicked."""

    def __init__(self, dataset: SlateDataset, recommender: Recommender) -> None:
        self._log = dataset.interactions()
        self.users = dataset.user_ids
        self.digest = dataset.content_hash
        find, names = recommender.items.find, recommender.model.source_names
        found = [find(item) for item in _ids_of(dataset, recommender)]
        self._items = np.array([-1 if number is None else number for number in found])
        self._sources = np.array([source_number(name, names) for name in dataset.source_names])
        if not (self._items[_seen(dataset)] >= 0).any():
            raise InputError(
                "the model knows none of the items.",
                "Items must be named as in the log that it was trained on.",
                file=dataset.path,
            )

    def histories(self, first: int, count: int) -> tuple[list[UserHistory], int]:
        """Return what `count` users did, from number `first` on, and how many items are unknown."""
        found, unknown = [], 0
        for user in range(first, min(first + count, len(self.users))):
            history = UserHistory.of_log(self._log, user)
            items = self._items[history.items]
            unknown += int((items < 0).sum())
            found.append(history.renumbered(items, self._sources[history.sources]))
        return found, unknown


def refresh_from(recommender: Recommender, dataset: SlateDataset, at: int | None = None) -> int:
    """Compute the features of all items from a log, and return the time they are for.

    That is `at`, in microseconds since 1970, or the first tick after the last event of the log.
    """
    terms = recommender.model.terms.with_state
    if not terms:
        raise SlatewiseError(
            "the model does not rank by popularity.", "Leave out --log, which has no effect."
        )
    last = int(dataset.times.max())
    if at is not None and at < last:
        raise SlatewiseError(
            f"the log continues after the time asked for, until {_shown(last)}.",
            "Give a later time, or a log that ends before it.",
        )
    longest = max(term.refresh for term in terms.values())
    time = last + round(longest * _MICROSECONDS) if at is None else at
    rows, numbers = _shared(dataset, recommender)
    features = {}
    for name, term in terms.items():
        known = term.state_after(dataset).features(time)
        features[name] = np.zeros((len(recommender.items), known.shape[1]), np.float32)
        features[name][rows] = known[numbers]
    ranking = recommender.ranker.terms
    ranking.set_features(ranking.side_by_side(features, time), recommender.items)
    return time


def _shared(dataset: SlateDataset, recommender: Recommender) -> tuple[Ints, Ints]:
    """Return the rows of the model's items that a dataset has, and their numbers there."""
    number = {item: index for index, item in enumerate(_ids_of(dataset, recommender))}
    shared = [
        (row, number[item]) for row, item in enumerate(recommender.items.ids) if item in number
    ]
    rows, numbers = np.array(shared, dtype=np.int64).reshape(-1, 2).T
    return rows, numbers


def _seen(dataset: SlateDataset) -> Ints:
    """Return the items that were seen, part by part: a log may be larger than memory."""
    seen = np.zeros(dataset.num_items, dtype=np.bool_)
    for start in range(0, len(dataset.slate_items), _CELLS):
        seen[dataset.slate_items[start : start + _CELLS]] = True
    return np.flatnonzero(seen)


def _ids_of(dataset: SlateDataset, recommender: Recommender) -> list[ItemId]:
    """Return the items of a dataset as the model writes ids: numbers and text may meet as text."""
    ids = dataset.item_ids.to_list()
    if isinstance(recommender.items.ids[0], str):
        return [str(item) for item in ids]
    return [
        int(item) if isinstance(item, str) and item.removeprefix("-").isdigit() else item
        for item in ids
    ]


def _shown(time: int) -> str:
    return str(np.datetime64(time, "us")).replace("T", " ")
