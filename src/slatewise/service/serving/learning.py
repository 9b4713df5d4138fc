"""Learning between nights: a version of a model, moved by the answers to its own slates.

Answers are taken one after the other as the store numbered them, each with what its slate was made
from, which the slate's record has. So what a version has learned is a matter of the version and of
a number in the store: all workers and a replay agree on it to the last bit, whenever and in
whatever portions they read. What was learned is kept beside the run (`learned`): a worker that
starts reads only what came after it, and of several workers one learns from each answer, for all.

Slates of other versions, of other models and of others' making are left to the night: where a user
was, is said in the space of the version that served her.
"""

import fcntl
import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from slatewise.model.fitted import ItemId, SlateModel
from slatewise.service.serving.learned import WHOLE, LearnedItems, is_whole_due
from slatewise.service.store.records import ServedAnswer
from slatewise.slates.catalogue import Catalogue
from slatewise.slates.exact import ExactRanker
from slatewise.slates.learning import Answer, ItemLearner, MovedItems, learning_obstacle
from slatewise.slates.shown import ShownSlate, SlateView
from slatewise.slates.slate import Slate
from slatewise.training import runs

logger = logging.getLogger(__name__)

Ints = npt.NDArray[np.int64]

TURN: Final = ".learning.lock"
_PAGE: Final = 500


class ServedAnswers(Protocol):
    """What is asked of the store."""

    def seq(self) -> int:
        """Return the number of the last record."""

    def number_before(self, time: int) -> int:
        """Return a number below those of all answers to slates made here since a time."""

    def answers_to(
        self, model: str, version: str, since: int, limit: int, until: int
    ) -> list[ServedAnswer]:
        """Return the next answers after a number to slates of a version."""


class BetweenNights:
    """What one version of a model has learned since it was trained."""

    def __init__(
        self,
        name: str,
        version: str,
        model: SlateModel,
        ranker: ExactRanker,
        source: str,
        run: Path,
    ) -> None:
        self._name, self._version, self._run = name, version, run
        self._table = ranker.table
        self._learner = ItemLearner(model, ranker.table)
        self._view = SlateView(model, ranker)
        self._sources = {one: number for number, one in enumerate(model.source_names)}
        self._source, self._usual_source = source, model.terms.usual_source
        self._moved = np.full(0, -1, np.int64)  # by row, the number at which it last moved
        self._kept = 0  # the number of what is kept, as far as this worker knows
        self._begin: int | None = None
        self._next = 0
        self.number = 0
        """of the last answer in the store that counts"""

    @classmethod
    def of(
        cls,
        name: str,
        version: str,
        model: SlateModel,
        ranker: ExactRanker,
        source: str | None,
        run: Path | None,
    ) -> "BetweenNights | None":
        """Return what learns for a version; None without a source, or where it cannot learn.

        Slates are shown in `source` unless a request says otherwise. Before any training there is
        no run, and nothing is learned.
        """
        if source is None or run is None:
            return None
        obstacle = learning_obstacle(model)
        if obstacle is not None:
            logger.warning("Model '%s' does not learn between nights: %s.", name, obstacle)
            return None
        return cls(name, version, model, ranker, source, run)

    def shown(self, slate: Slate, source: str | None) -> str:
        """Return what has to be known of a slate that is about to be shown, as text."""
        number = self._sources.get(source or self._source, self._usual_source)
        return self._view.of(slate.history, slate.numbers, number, slate.time).packed()

    def read(self, store: ServedAnswers, until: int | None = None) -> "list[ServedAnswer] | None":
        """Read the next answers, up to a number or the last; None if there are no more."""
        if self._begin is None:  # no slate of this version is older than its training
            trained = runs.read_run(self._run).get("retraining", {}).get("until", 0)
            self._begin = store.number_before(int(trained))
        last = store.seq() if until is None else until
        if last <= self.number:
            return None
        since = max(self.number, self._begin)
        found = store.answers_to(self._name, self._version, since, _PAGE, last)
        self._next = last if len(found) < _PAGE else found[-1].seq
        return found

    def moved(self, answers: list[ServedAnswer]) -> MovedItems:
        """Return where answers move their items, whose rows the table has."""
        return self._learner.moved([one for one in map(self._answer, answers) if one is not None])

    def take(self, moved: MovedItems) -> None:
        """Move items by the answers that were read last."""
        self._learner.put(moved)
        if len(moved.rows):
            self._grow(int(moved.rows.max()) + 1)
            self._moved[moved.rows] = self._next
        self.number = self._next

    @contextmanager
    def turn(self) -> Iterator[bool]:
        """Yield whether this worker has the turn to learn, which one has at a time.

        Where nothing can be written, each learns for itself.
        """
        with ExitStack() as held:
            try:
                lock = held.enter_context((self._run / TURN).open("w"))
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            except OSError:
                pass
            yield True

    def kept(self) -> LearnedItems | None:
        """Return what was kept beside the run, if it is newer than what this worker knows."""
        return LearnedItems.read(self._run, after=self.number)

    def resume(self, learned: LearnedItems) -> None:
        """Continue from what was kept, whose rows the table has."""
        self._next = self._kept = learned.number
        self.take(MovedItems(learned.rows, learned.means, learned.scales))

    def keep(self, catalogue: Catalogue) -> None:
        """Keep what has moved since the last time beside the run, and now and then all."""
        if self.number == self._kept:
            return
        with suppress(OSError):  # where nothing can be written, a start reads more
            if self._kept:
                self._learned(catalogue, self._kept).write(self._run)
            if not self._kept or is_whole_due(self._run, self.number):
                self._learned(catalogue, WHOLE).write(self._run)
            self._kept = self.number

    def _learned(self, catalogue: Catalogue, since: int) -> LearnedItems:
        """Return the items that have moved since a number, as they are."""
        rows = np.flatnonzero(self._moved > since)
        ids: list[ItemId] = [str(item) for item in catalogue.ids_of(rows)]
        return LearnedItems(self.number, rows, ids, *self._learner.beliefs(rows), since=since)

    def _answer(self, answer: ServedAnswer) -> Answer | None:
        """Return what an answer says beyond those before it; None if that is nothing."""
        shown = ShownSlate.unpacked(answer.shown, self._table.dimensions)
        new = tuple(click for click in answer.clicked if click not in answer.before)
        if answer.again and not new:
            return None
        # Whatever was clicked was seen, and so was all above it.
        seen = max(answer.seen, 1 + max((*answer.clicked, *answer.before), default=-1))
        return Answer(shown, min(seen, len(shown.rows)), new, answer.before)

    def _grow(self, size: int) -> None:
        if size > len(self._moved):
            larger = np.full(max(size, self._table.num_items), -1, np.int64)
            larger[: len(self._moved)] = self._moved
            self._moved = larger
