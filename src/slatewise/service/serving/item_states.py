"""What terms that rank all items, such as popularity, know now: counted from the store in order.

Sums of fading events depend on their order in the last bit. So events are counted one after the
other as the store numbered them, from where the version's own count ends, and a replay that goes
the same way up to the same number has the same features.
"""

import fcntl
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from slatewise.errors import InputError
from slatewise.features.popularity import SECOND
from slatewise.features.popularity_state import CountedEvents
from slatewise.features.showings import seen_in_slate
from slatewise.files import atomic_file
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.known import ItemState
from slatewise.model.terms.term import FeatureTerm
from slatewise.service.serving.items import ItemLog
from slatewise.service.store.records import Answer, positions

logger = logging.getLogger(__name__)

COUNTS: Final = "counts.parquet"
"""Beside a run: the states as of a number, from which serving counts on."""
LOCK: Final = ".turn.lock"
_PAGE: Final = 5_000
_REMEMBERED: Final = 200_000
"""Slates whose earlier answers are known; one that is answered again after as many others counts
as new."""


class AnswerSource(Protocol):
    """What is asked of the store."""

    def answers_since(self, seq: int, limit: int, until: int | None = None) -> list[Answer]:
        """Return the next answers after a number, in the order of their numbers."""


class MissingPast:
    """Notes about a past that models ask for, as long as the store has no answer at all."""

    def __init__(self) -> None:
        self._empty: bool | None = None

    def look(self, store: AnswerSource) -> None:
        """See whether the store has an answer; once it has one, it is not asked again."""
        if self._empty is not False:
            self._empty = not store.answers_since(0, 1)

    def notes(self, parts: Iterable[Any]) -> list[str]:
        """Return which parts of models lack the past they go by."""
        if not self._empty:
            return []
        empty = dict.fromkeys(part.without_past for part in parts)
        return [f"{what}: no log was loaded; run slatewise load DIR LOG" for what in empty if what]


class _Known(NamedTuple):
    """What is known of a slate."""

    seen: int
    clicked: frozenset[str]


class ItemStates:
    """The states of the terms of one version of a model that rank all items, or act in lists."""

    def __init__(
        self, terms: Mapping[str, FeatureTerm], log: ItemLog, run: Path | None = None
    ) -> None:
        self.terms = terms
        self.by_name = {name: term.item_state(0) for name, term in terms.items()}
        self.counted = 0
        """the number of the last answer that counts"""
        self._log = log
        self._known: dict[str, _Known] = {}
        if run is not None and (run / COUNTS).is_file():
            self._load(run / COUNTS)

    @classmethod
    def of(cls, terms: FittedTerms, log: ItemLog, run: Path | None) -> "ItemStates | None":
        """Return the states that a model asks for, None if it does not."""
        counting = terms.with_state
        return cls(counting, log, run) if counting else None

    @classmethod
    def begin(
        cls,
        terms: FittedTerms,
        log: ItemLog,
        run: Path,
        store: AnswerSource,
        earlier: "ItemStates | None",
    ) -> None:
        """Write where the count of a version begins, for all who will serve or replay it.

        The first worker that comes does it: from the count of the version before, if its terms
        count alike, or else from the first answer there is.
        """
        counting = terms.with_state
        if not counting:
            return
        with one_at_a_time(run):
            if (run / COUNTS).is_file():
                try:
                    cls(counting, log, run)
                except InputError as error:
                    logger.warning("%s It is made anew.", error.problem)
                else:
                    return
            if earlier is None or not _alike(earlier.terms, counting):
                earlier = cls(counting, log)
                earlier.read(store)
            with suppress(OSError):
                earlier.save(run)

    def read(self, store: AnswerSource, until: int | None = None) -> None:
        """Count what is new in the store, or what was new up to a number."""
        while answers := store.answers_since(self.counted, _PAGE, until):
            self._count(answers)
            self.counted = answers[-1].seq

    @property
    def newest(self) -> int:
        """The earliest time that may be asked for: clocks of others may be ahead of ours."""
        return max(state.newest for state in self.by_name.values())

    def due(self, time: int, refreshed: int) -> bool:
        """Return whether features of a time may differ from those of an earlier one."""
        ticks = [max(1, round(term.refresh * SECOND)) for term in self.terms.values()]
        return any(time // tick > refreshed // tick for tick in ticks)

    def save(self, run: Path) -> None:
        """Write the states of all items with events beside a run, from where others count on."""
        columns: dict[str, npt.NDArray[Any]] = {}
        size = max(_size(state) for state in self.by_name.values())
        met = np.zeros(size, np.bool_)
        for name, state in self.by_name.items():
            state.grow(size)
            new = self.terms[name].item_state(1)
            for column, values in state.arrays.items():
                rows = values[:size].reshape(size, new.arrays[column].size)
                met |= (rows != new.arrays[column].reshape(1, -1)).any(axis=1)
                columns[f"{name}.{column}"] = rows if values.ndim > 1 else rows[:, 0]
        items = np.flatnonzero(met)
        table = pl.DataFrame(
            {"item_id": self._log.items.at(items)}
            | {name: values[items] for name, values in columns.items()},
            schema_overrides={"item_id": pl.String},
        )
        with atomic_file(run / COUNTS) as partial:
            table.write_parquet(partial, metadata={"counted": str(self.counted)})

    def _load(self, file: Path) -> None:
        try:
            self._take(file)
        except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
            raise InputError(
                "the counts of items are damaged.", "Delete the file.", file=file
            ) from error

    def _take(self, file: Path) -> None:
        table = pl.read_parquet(file, glob=False)
        items = self._log.items.indices(table["item_id"])
        for name, state in self.by_name.items():
            state.grow(int(items.max(initial=-1)) + 1)
            for column, values in state.arrays.items():
                rows = table[f"{name}.{column}"].to_numpy()
                values[items] = rows.reshape(len(items), *values.shape[1:])
        self.counted = int(pl.read_parquet_metadata(file)["counted"])

    def _count(self, answers: Sequence[Answer]) -> None:
        times: list[int] = []
        items: list[str] = []
        views: list[bool] = []
        clicks: list[bool] = []
        shares: list[float] = []
        for answer in answers:
            for item, view, click, share in self._news(answer):
                times.append(answer.time)
                items.append(item)
                views.append(view)
                clicks.append(click)
                shares.append(share)
        numbers = self._log.items.indices(items)
        events = CountedEvents(
            times, numbers, np.array(views, bool), np.array(clicks, bool), np.array(shares, float)
        )
        for state in self.by_name.values():
            state.count(events)

    def _news(self, answer: Answer) -> Iterable[tuple[str, bool, bool, float]]:
        """Yield the items of which an answer says more than those before.

        With each, whether it was seen, whether clicked, and the clicks expected of it.
        """
        before = self._known.pop(answer.slate_id, _Known(0, frozenset()))
        clicked = frozenset(answer.clicked) | before.clicked
        reached = seen_in_slate(answer.seen, positions(answer.items, answer.clicked))
        seen = max(before.seen, reached)
        for position, item in enumerate(answer.items[:seen]):
            view, click = position >= before.seen, item in clicked and item not in before.clicked
            # A slate that turns out longer than known leaves each of its items less to expect.
            share = 1 / seen - (0 if view else 1 / before.seen)
            if view or click or share:
                yield item, view, click, share
        self._known[answer.slate_id] = _Known(seen, clicked)
        while len(self._known) > _REMEMBERED:
            self._known.pop(next(iter(self._known)))


def _alike(one: Mapping[str, FeatureTerm], other: Mapping[str, FeatureTerm]) -> bool:
    """Return whether terms have the same states: what they make of them may differ."""
    return one.keys() == other.keys() and all(
        term.counts_like(other[name]) for name, term in one.items()
    )


def _size(state: ItemState) -> int:
    """Return for how many items a state has room."""
    return min(map(len, state.arrays.values()))


@contextmanager
def one_at_a_time(run: Path) -> Iterator[None]:
    """Make workers that start at once take turns where one of them does something to a run."""
    with ExitStack() as held:
        with suppress(OSError):  # where nothing can be written, there is nothing to share either
            lock = held.enter_context((run / LOCK).open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
