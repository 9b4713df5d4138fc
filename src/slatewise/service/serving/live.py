"""One version of a model, as it serves: with the items on offer and their popularity now."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
import torch

from slatewise.files import atomic_file
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.gaussian import Gaussian
from slatewise.model.terms import FittedTerms
from slatewise.ranking import ItemTable
from slatewise.service.serving.features import FeatureReader, FeatureSource
from slatewise.service.serving.item_states import AnswerSource, ItemStates, one_at_a_time
from slatewise.service.serving.items import ItemLog, ItemSource
from slatewise.service.serving.learning import BetweenNights, ServedAnswers
from slatewise.service.serving.prior import prior_items, prior_model, prior_version, waiting
from slatewise.service.serving.request import Request
from slatewise.service.serving.users import UserLookup
from slatewise.service.store.features import Features
from slatewise.slates.additions import RankingTerms
from slatewise.slates.catalogue import Catalogue, Ints, NewItems, NewRows
from slatewise.slates.exact import ExactRanker
from slatewise.slates.item_reader import Descriptions, ItemReader
from slatewise.slates.maker import SlateMaker
from slatewise.slates.ranked import RankedItems
from slatewise.slates.slate import Slate
from slatewise.slates.strategies import Strategy
from slatewise.slates.tables import table_of, table_of_run
from slatewise.slates.users import KnownUser
from slatewise.training import runs
from slatewise.training.memory import give_back_freed_memory

T = TypeVar("T")


class LearningSource(ServedAnswers, ItemSource, FeatureSource, Protocol):
    """What learning between nights asks of the store."""


BASE: Final = "catalogue.json"
"""Beside a run: where it begins in the changes of items."""
_TRIES: Final = 3


class ServedSlate(NamedTuple):
    """A slate, and the state of items and popularity that it was made from."""

    slate: Slate
    catalogue: int
    """the number of the last change of items"""
    refreshed: int | None
    """the time of the popularity, None without"""
    counted: int | None
    """the number of the last answer in it"""
    learned: int | None = None
    """the number of the last answer that items were moved by; None if none does"""
    shown: str | None = None
    """what the answer can teach by"""


class Live:
    """A version of a model while it serves; safe to use and change from several threads."""

    def __init__(
        self,
        name: str,
        version: str,
        model: SlateModel,
        table: ItemTable,
        log: ItemLog,
        beliefs: Callable[[RankingTerms], NewItems],
        run: Path | None = None,
        base: int = 0,
        digest: str = "",
        learning: str | None = None,
    ) -> None:
        self.digest = digest
        """of all that it is, the same on every host that serves the same; none before training"""
        self.base = base
        """the number of the change up to which items are taken as they were then, without how they
        came to that: a shop that changes its items for years would else have ever more rows"""
        self.name, self.version, self.config = name, version, model.config
        self.terms: FittedTerms = model.terms
        self.untrained: list[str] | None = None
        """before training, notes about parts of the model that wait for it; None once trained"""
        self.applied = 0
        """the number of the last change of items that is taken into account"""
        self.table = table
        ids = map(str, model.item_ids)
        self.ranker = ExactRanker(model.posterior, table, model.terms)
        new_items = beliefs(self.ranker.terms)
        self.catalogue = Catalogue(table, ids, model.group_names, new_items, log.items, shown=False)
        self._trained = len(self.catalogue)
        self.maker = SlateMaker(self.ranker, self.catalogue)
        self.maker.relevance  # noqa: B018 (made now, so that no request waits for it)
        self._log, self._run, self._features = log, run, None
        if isinstance(new_items, ItemReader) and new_items.columns:
            self._features = FeatureReader(version, new_items)
        self._sources = {name: number for number, name in enumerate(model.source_names)}
        self._numbers = np.empty(0, np.int64)  # of the log's sources, as far as they were met
        self.states = ItemStates.of(model.terms, log, run)
        self.learning = BetweenNights.of(name, version, model, self.ranker, learning, run)
        """what learns between nights, None if nothing does"""
        self._refreshed: tuple[int, int] | None = None  # time, number
        self._moment: object | None = object()
        self._lock = threading.Lock()

    @classmethod
    def of_run(
        cls,
        name: str,
        version: str,
        model: SlateModel,
        run: Path,
        log: ItemLog,
        until: int | None = None,
        learning: str | None = None,
    ) -> "Live":
        """Serve a run; its table is shared between processes.

        With `until`, as for a slate that was made after that many changes of items. With `learning`
        it learns between nights from slates of its own, which are of that source.
        """
        with one_at_a_time(run):
            table = table_of_run(model, run)
            base = begin_catalogue(run, log.number)
        if until is not None and until < base:  # made before versions had a base
            base = 0
        beliefs, digest = partial(ItemReader, model), runs.content_digest(run)
        live = cls(name, version, model, table, log, beliefs, run, base, digest, learning)
        _forget_items(model)
        return live

    @classmethod
    def of_prior(cls, name: str, config: ModelConfig, source: str, log: ItemLog) -> "Live":
        """Serve what is believed before any training."""
        model = prior_model(config, source)
        version, known = prior_version(config), model.config
        table = table_of(model)

        def new_items(groups: Ints, _: Descriptions | None) -> NewRows:
            return prior_items(known, len(groups))

        live = cls(name, version, model, table, log, lambda terms: new_items)
        live.untrained = waiting(config)
        return live

    def apply_items(self, number: int, store: FeatureSource) -> None:
        """Take changes of items into account, up to a number that the log has read.

        Features of new items are asked of the store, if the model reads any.
        """
        if number <= self.applied or number < self.base:
            return
        changes, predict = self._log.changes(self.applied, number, self.base), None
        if self._features is not None:  # before the change: no request waits for the store
            untrained = self.catalogue.untrained(changes.items)
            predict = self._features.read(store, changes.features[untrained])
        with self._changing():
            self.catalogue.apply(changes, predict)
            self.applied = number

    def refuse_misfits(self, features: Features) -> None:
        """Refuse features of an item that the model knows and that are of another kind."""
        if self._features is not None:
            self._features.refuse_misfits(features)

    def outdated(self, features: Mapping[str, Features]) -> list[str]:
        """Return the items of which this version goes by other features, those of its training."""
        found = ((item, self.catalogue.find(item)) for item in features)
        trained = {item: row for item, row in found if row is not None and row < self._trained}
        if self._features is None or not trained:
            return []
        given = [features[item] for item in trained]
        other = self.ranker.terms.read_otherwise(np.array([*trained.values()]), given)
        return [item for item, differs in zip(trained, other, strict=True) if differs]

    def refresh(self, store: AnswerSource, time: int, until: int | None = None) -> None:
        """Take into account what terms know of all items at a time, if the model asks for it."""
        if self.states is None:
            return
        self.states.read(store, until)
        time = max(time, self.states.newest)
        features = self.ranker.terms.features(self.states.by_name, time)
        with self._changing():
            self.ranker.terms.set_features(features, self.catalogue)
            self._refreshed = time, self.states.counted

    def learn(
        self, store: LearningSource, until: int | None = None, *, resume: bool = True
    ) -> None:
        """Learn from what was answered, if this version does, up to a number or the last.

        With `resume`, from what any worker has kept beside the run, and keep what is new: workers
        take turns, and whoever has no turn has what the others learned the next time.
        """
        if self.learning is None:
            return
        if not resume:
            self._learn(self.learning, store, until)
            return
        with self.learning.turn() as has_turn:
            kept = self.learning.kept()
            if kept is not None:
                if kept.rows.max(initial=-1) >= len(self.catalogue):  # of items not read yet
                    self._log.read(store)
                    self.apply_items(self._log.number, store)
                with self._changing():
                    self.learning.resume(kept)
            if has_turn:
                self._learn(self.learning, store, until)
                self.learning.keep(self.catalogue)

    def _learn(self, learning: BetweenNights, store: LearningSource, until: int | None) -> None:
        """Read answers page by page, and move items."""
        while (answers := learning.read(store, until)) is not None:
            # Whatever a slate showed is in the table: items were read before answers.
            newest = max((answer.catalogue for answer in answers), default=0)
            if newest > self.applied:
                self._log.read(store)
                self.apply_items(newest, store)
            moved = learning.moved(answers)
            with self._changing():
                learning.take(moved)

    def due(self, time: int) -> bool:
        """Return whether popularity is older than it should be at a time."""
        if self.states is None or self._refreshed is None:
            return self.states is not None
        return self.states.due(time, self._refreshed[0])

    def answer(
        self, lookup: UserLookup, request: Request, strategy: Strategy, seed: int, time: int
    ) -> ServedSlate:
        """Make a slate for the user of `lookup`, from one state of items and popularity.

        It is shown at a time, up to a minute after what is known of popularity.
        """
        return self.consistently(lambda: self._answer(lookup, request, strategy, seed, time))

    def count_views(self) -> None:
        """Read how often training saw the items, once; pages show it, slates do not need it."""
        if self._run is not None and not len(self.catalogue.views):
            self.catalogue.views = runs.read_views(self._run)

    def rank(self, lookup: UserLookup, request: Request, time: int) -> RankedItems:
        """Order the items that a request allows for the user of `lookup`, at its source and now."""
        # Terms that see slates act in a given list, also where they rank no candidates again.
        source, notes = self._shown_at(request.source, matters=self.ranker.terms.see_lists)
        items = list(request.allow or ())
        ranked = self.consistently(
            lambda: self.maker.rank(self.known(lookup), items, request.k, source, time)
        )
        ranked.notes.extend(notes)
        return ranked

    def known(self, lookup: UserLookup) -> KnownUser:
        """Return a user in the item indices of this version."""
        names = self._log.sources.ids
        if len(names) != len(self._numbers):
            self._numbers = np.array([self._sources.get(name, -1) for name in names], np.int64)
        return lookup(self.catalogue, self._numbers)

    def slate(
        self, user: KnownUser, request: Request, strategy: Strategy, seed: int, time: int
    ) -> Slate:
        """Make a slate for the source of a request, and a time."""
        matters = self.ranker.terms.candidates > 0
        source, notes = self._shown_at(request.source, matters=matters)
        (slate,) = self.maker.make([user], request, request.k, strategy, [seed], source, time)
        slate.notes.extend(notes)
        return slate

    def _shown_at(self, name: str | None, *, matters: bool) -> tuple[int | None, list[str]]:
        """Return the number of a source, or None for the usual one and why that takes its place.

        A source may be new: the next version learns it from the slates that are made now. None,
        without a reason, where it does not matter.
        """
        if name is None or not matters:
            return None, []
        if name in self._sources:
            return self._sources[name], []
        usual = [*self._sources][self.terms.usual_source]
        until = f"made as for '{usual}' until a night learns them"
        return None, [f"the model has seen no slates from '{name}': {until}"]

    def _answer(
        self, lookup: UserLookup, request: Request, strategy: Strategy, seed: int, time: int
    ) -> ServedSlate:
        slate = self.slate(self.known(lookup), request, strategy, seed, time)
        refreshed, counted = self._refreshed or (None, None)
        made = ServedSlate(slate, self.applied, refreshed, counted)
        if self.learning is None:
            return made
        shown = self.learning.shown(slate, request.source)
        return made._replace(learned=self.learning.number, shown=shown)

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            self._moment = None
            try:
                yield
            finally:
                self._moment = object()

    def consistently(self, make: Callable[[], T]) -> T:
        """Call `make` on one consistent state, without blocking changes.

        A slate takes a millisecond and changes are rare: if one came meanwhile, call it again.
        """
        for _ in range(_TRIES):
            moment = self._moment
            if moment is None:
                with self._lock:  # wait for the change to end
                    continue
            try:
                made = make()
            except Exception:
                if self._moment is moment:
                    raise
            else:
                if self._moment is moment:
                    return made
        with self._lock:
            return make()


def begin_catalogue(run: Path, number: int) -> int:
    """Return where a version begins in the changes of items: for the first that serves it, here.

    It is kept beside the run, since the rows of items go by it, and with them random numbers.
    """
    file = run / BASE
    try:
        return int(json.loads(file.read_text(encoding="utf-8"))["base"])
    except (OSError, ValueError, KeyError, TypeError):
        pass
    try:
        with atomic_file(file) as partial:
            partial.write_text(json.dumps({"base": number}), encoding="utf-8")
    except OSError:
        return 0
    return number


def settled_changes(directory: Path) -> int:
    """Return the number of the last change of items before all versions of a service begin."""
    bases = [begin_catalogue(file.parent, 0) for file in directory.glob(f"models/*/*/{BASE}")]
    return min(bases, default=0)


def _forget_items(model: SlateModel) -> None:
    """Free what the table has too: at a million items it would be 100 MB in every worker."""
    posterior, none = model.posterior, torch.empty(0, model.config.item_columns)
    posterior.items = Gaussian(none, none.clone(), posterior.items.sigma_max)
    posterior.item_groups = posterior.item_groups[:0].clone()
    posterior.item_features = None
    model.item_ids, model.views = [], model.views[:0].clone()
    give_back_freed_memory()
