"""What everybody clicks now, for models that ask: counted from the store, in its own order.

Sums of fading events depend on their order in the last bit. So events are counted one after the
other as the store numbered them, from where the version's own count ends, and a replay that goes
the same way up to the same number has the same features.
"""

import logging
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import numpy as np
import polars as pl

from slatewise.errors import InputError, SlatewiseError
from slatewise.features.popularity_state import CountedEvents
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.turns import one_at_a_time
from slatewise.service.store.records import Answer
from slatewise.slates.catalogue import Floats

logger = logging.getLogger(__name__)

COUNTS: Final = "popularity.parquet"
"""Beside a run: the sums as of a number, from which serving counts on."""
_PAGE: Final = 5_000
_REMEMBERED: Final = 200_000
"""Slates whose earlier answers are known; one that is answered again after so many others counts
as new."""


class AnswerSource(Protocol):
    """What is asked of the store."""

    def answers_since(self, seq: int, limit: int, until: int | None = None) -> list[Answer]:
        """Return the next answers after a number, in the order of their numbers."""


class _Known(NamedTuple):
    """What is known of a slate."""

    seen: int
    clicked: frozenset[str]


class Popular:
    """The popularity of all items for one version of a model."""

    def __init__(self, term: PopularityTerm, log: ItemLog, run: Path | None = None) -> None:
        self.term = term
        self.counted = 0
        """the number of the last answer that counts"""
        self._log = log
        self._state = term.item_state(0)
        self._known: dict[str, _Known] = {}
        if run is not None and (run / COUNTS).is_file():
            self._load(run / COUNTS)

    @classmethod
    def of(cls, terms: FittedTerms, log: ItemLog, run: Path | None) -> "Popular | None":
        """Return the popularity that a model asks for, None if it does not."""
        term = _term_of(terms)
        return None if term is None else cls(term, log, run)

    @classmethod
    def begin(
        cls,
        terms: FittedTerms,
        log: ItemLog,
        run: Path,
        store: AnswerSource,
        earlier: "Popular | None",
    ) -> None:
        """Write where the count of a version begins, for all who will serve or replay it.

        The first worker that comes does it: from the count of the version before, if that fades as
        fast, or else from the first answer there is.
        """
        term = _term_of(terms)
        if term is None:
            return
        with one_at_a_time(run):
            if (run / COUNTS).is_file():
                try:
                    cls(term, log, run)
                except InputError as error:
                    logger.warning("%s It is made anew.", error.problem)
                else:
                    return
            if earlier is None or not _alike(earlier.term, term):
                earlier = cls(term, log)
                earlier.read(store)
            with suppress(OSError):
                earlier.save(run)

    def read(self, store: AnswerSource, until: int | None = None) -> None:
        """Count what is new in the store, or what was new up to a number."""
        while answers := store.answers_since(self.counted, _PAGE, until):
            self._count(answers)
            self.counted = answers[-1].seq

    def features(self, time: int) -> Floats:
        """Return the features [P, F] of all places at a time, as the model has them.

        No earlier than the last event: clocks of others may be ahead of ours.
        """
        return self._state.features(time)

    @property
    def newest(self) -> int:
        """The time of the last event that counts, rounded down to what features can tell apart."""
        return self._state.newest

    def save(self, run: Path) -> None:
        """Write the sums beside a run, from where others count on."""
        first, tick, closed, opened = self._state.sums.arrays
        places = np.flatnonzero(opened.any(1) | closed.any((1, 2)))
        table = pl.DataFrame(
            {
                "item_id": self._log.items.at(places),
                "first": first[places],
                "tick": tick[places],
                "closed": closed[places].reshape(len(places), closed.shape[1] * 2),
                "opened": opened[places],
            }
        )
        partial = run / f".{COUNTS}.partial"
        table.write_parquet(partial, metadata={"counted": str(self.counted)})
        partial.replace(run / COUNTS)

    def _load(self, file: Path) -> None:
        try:
            self._take(file)
        except (OSError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
            raise InputError(
                "the counts of popularity are damaged.", "Delete the file.", file=file
            ) from error

    def _take(self, file: Path) -> None:
        table = pl.read_parquet(file, glob=False)
        places = self._log.items.indices(table["item_id"])
        self._state.grow(int(places.max(initial=-1)) + 1)
        first, tick, closed, opened = self._state.sums.arrays
        first[places] = table["first"].to_numpy()
        tick[places] = table["tick"].to_numpy()
        closed[places] = table["closed"].to_numpy().reshape(len(places), *closed.shape[1:])
        opened[places] = table["opened"].to_numpy()
        self.counted = int(pl.read_parquet_metadata(file)["counted"])

    def _count(self, answers: Sequence[Answer]) -> None:
        times: list[int] = []
        items: list[str] = []
        views: list[bool] = []
        clicks: list[bool] = []
        for answer in answers:
            for item, view, click in self._news(answer):
                times.append(answer.time)
                items.append(item)
                views.append(view)
                clicks.append(click)
        places = self._log.items.indices(items)
        self._state.count(CountedEvents(times, places, np.array(views), np.array(clicks)))

    def _news(self, answer: Answer) -> Iterable[tuple[str, bool, bool]]:
        """Yield the items of which an answer says more than those before: seen, clicked."""
        before = self._known.pop(answer.slate_id, _Known(0, frozenset()))
        clicked = frozenset(answer.clicked) | before.clicked
        # Whatever was clicked was seen, and so was all above it.
        reached = max((answer.items.index(item) + 1 for item in answer.clicked), default=0)
        seen = max(before.seen, answer.seen, reached)
        for place, item in enumerate(answer.items[:seen]):
            view, click = place >= before.seen, item in clicked and item not in before.clicked
            if view or click:
                yield item, view, click
        self._known[answer.slate_id] = _Known(seen, clicked)
        while len(self._known) > _REMEMBERED:
            self._known.pop(next(iter(self._known)))


def _term_of(terms: FittedTerms) -> PopularityTerm | None:
    """Return the term that the service keeps a count for, refusing others that would need one."""
    found = None
    for name, term in terms.that_rank("all items").items():
        if not isinstance(term, PopularityTerm):
            raise SlatewiseError(
                f"the service keeps no count for '{name}', by which the model ranks all items.",
                "Serve it with a Recommender, or train without that term.",
            )
        found = term
    return found


def _alike(one: PopularityTerm, other: PopularityTerm) -> bool:
    """Say whether two terms have the same sums: what they make of them may differ."""
    first, second = one.popularity.settings, other.popularity.settings
    return (first.half_lives, first.refresh) == (second.half_lives, second.refresh)
