"""A fitted model as a policy of the simulated marketplace."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import polars as pl

from slatewise.data.columns import Columns
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.experiments.daily_log import SOURCES, DaySlates
from slatewise.experiments.memory import counted_events
from slatewise.experiments.platform import Moment, Platform
from slatewise.features.user_history import UserHistory
from slatewise.model.fitted import SlateModel
from slatewise.simulation.arrays import Ints
from slatewise.slates.learning import Answer, ItemLearner, learning_obstacle
from slatewise.slates.recommender import Recommender
from slatewise.slates.strategies import Strategy
from slatewise.slates.users import Users


class ServedModel:
    """A model on a platform, as the service has one: it knows items and users as they are now.

    New items are added as they appear, with the prior's full uncertainty, and taken off when their
    time is over; terms such as popularity count all that is recorded. With `learning`, answers to
    recommendations move their items at once, as between nights, and the next night starts from
    there. All of it through the library's own `Recommender`.
    """

    def __init__(
        self, model: SlateModel, log: SlateDataset, platform: Platform, *, learning: bool = False
    ) -> None:
        self.model, self._platform = model, platform
        self._items = platform.log.items
        if not set(model.item_ids) <= set(self._items[Columns.ITEM]):
            raise SlatewiseError(
                "the model's items are not those of a marketplace.", "Train it on its log."
            )
        self._recommender = Recommender(model)
        self._learner = None
        if learning and learning_obstacle(model) is None:
            self._learner = ItemLearner(model, self._recommender.ranker.table)
        self._states = {name: t.state_after(log) for name, t in model.terms.with_state.items()}
        self._row_of = np.full(self._items.height, -1)
        self._numbers = np.array(model.item_ids, np.int64)  # by row
        self._row_of[self._numbers] = np.arange(len(self._numbers))
        self._gone, self._moved = np.zeros((2, self._items.height), np.bool_)
        names = model.source_names
        self._sources = np.array([names.index(one) if one in names else -1 for one in SOURCES])
        self._time: int | None = None

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Update items and terms to a moment with what was recorded since the last one.

        Several strategies may share a model: only the first of them at a moment does anything.
        """
        if moment.time == self._time:
            return
        self._time = moment.time
        if self._learner is not None:
            # Before terms know more than they did when the slates were shown.
            moved = self._learner.moved(self._answers(news))
            self._learner.put(moved)
            self._moved[self._numbers[moved.rows]] = True
        self._change_items(moment.hours)
        if self._states:
            events = counted_events(news)
            rows = self._row_of[events.items]
            kept = [np.asarray(part)[rows >= 0] for part in events._replace(items=rows)]
            for state in self._states.values():
                state.count(type(events)(*kept))
                state.grow(len(self._numbers))
            self._recommender.refresh(self._states, moment.time)

    def learned(self) -> SlateModel:
        """Return the model as answers have moved its items: where the next night starts."""
        if self._learner is None:
            return self.model
        numbers = np.flatnonzero(self._moved)
        beliefs = self._learner.beliefs(self._row_of[numbers])
        return self.model.with_beliefs(numbers.tolist(), *beliefs)

    def _answers(self, news: DaySlates) -> Iterator[Answer]:
        """Return the outcomes of recommendations since the last moment."""
        met = news.only(~news.searched)
        (source,) = self._sources[[0]]
        clicked = (met.slates == met.clicks[:, None]) & (met.clicks >= 0)[:, None]
        histories = self._platform.memory.histories(met.user)
        for number, history in enumerate(histories):
            rows = self._row_of[met.slates[number]]
            # No user sees two slates at one moment: her last is this one.
            before = self._renumbered(history.until(len(history) - 1))
            shown = self._recommender.view.of(before, rows, max(int(source), 0))
            clicks = tuple(np.flatnonzero(clicked[number]).tolist())
            yield Answer(shown, int(met.scroll[number]), clicks)

    def slates(
        self, who: Ints, strategy: Strategy, k: int, seed: int, among: Ints | None = None
    ) -> Ints:
        """Return slates [B, k] of items on offer that the users `who` [B] have not clicked.

        `among` some items by number, if it is given.
        """
        known = [self._renumbered(one) for one in self._platform.memory.histories(who)]
        source = int(self._sources[0]) if self._sources[0] >= 0 else None
        users = Users.of_histories(known, seed, show_clicked=False, source=source)
        if among is not None:
            allow = self._row_of[among]
            users = replace(users, filters=[replace(one, allow=allow) for one in users.filters])
        rows = self._recommender.maker.rows(users, k, strategy)
        return np.where(rows >= 0, self._numbers[rows], -1)

    def _renumbered(self, history: UserHistory) -> UserHistory:
        """Return what a user did in rows of the model's table."""
        return history.renumbered(self._row_of[history.items], self._sources[history.sources])

    def _change_items(self, hours: float) -> None:
        """Add items that appeared, and remove those that left."""
        life = self._platform.market.life
        if life is None:
            return
        everything = np.arange(len(self._gone))
        alive = life.alive(everything[None], np.array([hours]))[0]
        over = np.flatnonzero(~alive & (self._row_of >= 0) & ~self._gone)
        self._recommender.remove_items(over.tolist())
        self._gone[over] = True
        new = np.flatnonzero(alive & (self._row_of < 0))
        if len(new):
            self._add(self._items[new])

    def _add(self, items: pl.DataFrame) -> None:
        ids, columns = items[Columns.ITEM].to_list(), self._recommender.item_columns
        features = items.select(columns) if columns else None
        self._recommender.add_items(ids, items[Columns.GROUP].to_list(), features)
        self._row_of[ids] = self._recommender.items.numbers(ids)
        self._numbers = np.array(self._recommender.items.ids, np.int64)


class ModelPolicy:
    """What a model shows by a strategy: without what a user has clicked before."""

    def __init__(self, served: ServedModel, strategy: Strategy, k: int) -> None:
        self._served, self._strategy, self._k = served, strategy, k

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Update the model to a moment."""
        self._served.arrive(moment, news)

    def slates(self, who: Ints, seed: int) -> Ints:
        """Return slates [B, k] for the users `who` [B], now."""
        return self._served.slates(who, self._strategy, self._k, seed)
