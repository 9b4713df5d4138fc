"""One version of a model, as it serves: with the items on offer and their popularity now."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple, TypeVar

import numpy as np
import torch

from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.gaussian import Gaussian
from slatewise.model.terms import FittedTerms
from slatewise.ranking import Filter, ItemTable
from slatewise.service.serving.described import Described, FeatureSource
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.offers import Ints, NewItems, NewRows, Offers
from slatewise.service.serving.popularity import AnswerSource, Popular
from slatewise.service.serving.prior import prior_items, prior_model, prior_version
from slatewise.service.serving.request import Request
from slatewise.service.serving.turns import one_at_a_time
from slatewise.service.serving.users import KnownUser
from slatewise.service.store.features import Features
from slatewise.slates.exact import ExactRanker
from slatewise.slates.predictive import Predictive, Said
from slatewise.slates.relevance import Relevance
from slatewise.slates.slate import Slate
from slatewise.slates.strategies import Strategy
from slatewise.slates.tables import table_of, table_of_run
from slatewise.slates.users import Users
from slatewise.training.memory import give_back_freed_memory

T = TypeVar("T")
Know = Callable[[Offers], KnownUser]

_TRIES: Final = 3


class Answer(NamedTuple):
    """A slate, and which state of things it was made from."""

    slate: Slate
    catalogue: int
    """the number of the last change of items"""
    refreshed: int | None
    """the time of the popularity, None without"""
    counted: int | None
    """the number of the last answer in it"""
    notes: list[str]


class Live:
    """A version of a model that makes slates; requests and changes may come from any thread."""

    def __init__(
        self,
        name: str,
        version: str,
        model: SlateModel,
        table: ItemTable,
        log: ItemLog,
        new_items: NewItems,
        run: Path | None = None,
        described: Described | None = None,
    ) -> None:
        self.name, self.version, self.config = name, version, model.config
        self.terms: FittedTerms = model.terms
        ids = map(str, model.item_ids)
        names = model.group_names, model.source_names
        self.offers = Offers(log, table, ids, *names, new_items)
        self._described = described
        self.ranker = ExactRanker(model.posterior, table, model.terms)
        self._relevance = Relevance(self.ranker)
        self.popular = Popular.of(model.terms, log, run)
        self._refreshed: tuple[int, int] | None = None  # time, number
        self._moment: object | None = object()
        self._lock = threading.Lock()

    @classmethod
    def of_run(cls, name: str, version: str, model: SlateModel, run: Path, log: ItemLog) -> "Live":
        """Serve a run; its table is shared between processes."""
        with one_at_a_time(run):
            table = table_of_run(model, run)
        predictive = Predictive(model)
        described = None
        if predictive.encoder is not None:
            described = Described(version, predictive, predictive.encoder)
        live = cls(name, version, model, table, log, predictive, run, described)
        _forget_items(model)
        return live

    @classmethod
    def of_prior(cls, name: str, config: ModelConfig, source: str, log: ItemLog) -> "Live":
        """Serve what is believed before any training."""
        model = prior_model(config, source)
        version, known = prior_version(config), model.config
        table = table_of(model)

        def new_items(groups: Ints, _: Said | None) -> NewRows:
            return prior_items(known, len(groups))

        return cls(name, version, model, table, log, new_items)

    def apply_items(self, number: int, store: FeatureSource) -> None:
        """Take changes of items into account, up to a number that the log has read.

        Features of new items are asked of the store, if the model reads any.
        """
        if number > self.offers.applied:
            told = None
            if self._described is not None:  # before the change: nobody waits for the store
                told = self._described.read(store, self.offers.described(number))
            with self._changing():
                self.offers.apply(number, told)

    def refuse_misfits(self, features: Features) -> None:
        """Refuse features of an item that the model knows and that are of another kind."""
        if self._described is not None:
            self._described.refuse_misfits(features)

    def refresh(self, store: AnswerSource, time: int, until: int | None = None) -> None:
        """Take the popularity of items at a time into account, if the model asks for it."""
        if self.popular is None:
            return
        self.popular.read(store, until)
        time = max(time, self.popular.newest)
        features = self.popular.features(time)
        with self._changing():
            self.offers.set_features(features)
            self._refreshed = time, self.popular.counted

    def due(self, time: int) -> bool:
        """Say whether popularity is older than it should be at a time."""
        if self.popular is None or self._refreshed is None:
            return self.popular is not None
        ticks = self.popular.term.popularity.ticks(np.array([time, self._refreshed[0]]))
        return bool(ticks[0] > ticks[1])

    def answer(self, know: Know, request: Request, strategy: Strategy, seed: int) -> Answer:
        """Make a slate for the user that `know` returns, from one state of items and popularity."""
        return self._consistently(lambda: self._answer(know, request, strategy, seed))

    def _answer(self, know: Know, request: Request, strategy: Strategy, seed: int) -> Answer:
        user, notes = know(self.offers), self._notes()
        wanted = self._filter(request, user.history.clicked, notes)
        users = Users([user.history], [wanted], [seed])
        most = min(request.k, self.offers.shown)
        rows = np.empty(0, np.int64)
        if most and (wanted.allow is None or len(np.asarray(wanted.allow))):
            rows = strategy.slates(self.ranker, users, most)[0]
            rows = rows[rows >= 0]
        refreshed, counted = self._refreshed or (None, None)
        slate = self._slate(rows, users, user, strategy.name)
        return Answer(slate, self.offers.applied, refreshed, counted, notes)

    def _notes(self) -> list[str]:
        return [
            f"{term} is not known yet: items count as new" for term in self.ranker.terms.unknown
        ]

    def _filter(self, request: Request, clicks: Ints, notes: list[str]) -> Filter:
        offers = self.offers
        exclude = offers.find(request.exclude)[0]
        if request.clicked == "exclude":
            exclude = np.concatenate([exclude, clicks])
        wanted = Filter(exclude=exclude)
        if request.allow is not None:
            wanted = replace(wanted, allow=offers.find(request.allow)[0])
        if request.groups is not None:
            caps, unknown = offers.caps(request.groups)
            notes += [f"there is no group '{name}'" for name in unknown]
            wanted = replace(wanted, caps=caps)
        return wanted

    def _slate(self, rows: Ints, users: Users, user: KnownUser, strategy: str) -> Slate:
        if user.profiles is None:
            user.profiles = self._relevance.profiles(user.history)
        relevance, uncertainty = self._relevance.of(user.history, user.profiles, rows)
        return Slate(
            items=list(self.offers.ids_of(rows)),
            groups=self.offers.groups_of(rows),
            relevance=relevance,
            uncertainty=uncertainty,
            strategy=strategy,
            seed=users.seeds[0],
            unknown=list(user.unknown),
            numbers=rows,
            history=user.history,
            filter=users.filters[0],
        )

    @contextmanager
    def _changing(self) -> Iterator[None]:
        with self._lock:
            self._moment = None
            try:
                yield
            finally:
                self._moment = object()

    def _consistently(self, make: Callable[[], T]) -> T:
        """Make something of one state of things, without keeping changes waiting.

        A slate takes a millisecond and changes are rare: if one came meanwhile, make it again.
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


def _forget_items(model: SlateModel) -> None:
    """Let go of what the table has too: at a million items it would be 100 MB in every worker."""
    posterior, none = model.posterior, torch.empty(0, model.config.item_columns)
    posterior.items = Gaussian(none, none.clone(), posterior.items.sigma_max)
    posterior.item_groups = posterior.item_groups[:0].clone()
    posterior.item_features = None
    model.item_ids, model.views = [], model.views[:0].clone()
    give_back_freed_memory()
