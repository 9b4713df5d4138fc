"""From a click history to a slate: ids in, ids out."""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, overload

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.features.showings import seen_in_slate
from slatewise.model.fitted import ItemId, SlateModel
from slatewise.model.terms.known import ItemState
from slatewise.ranking import ItemTable
from slatewise.slates.catalogue import Catalogue
from slatewise.slates.exact import ExactRanker
from slatewise.slates.explanation import Reason, explain
from slatewise.slates.item_reader import Columns, ItemReader
from slatewise.slates.learning import Answer, ItemLearner, SlateOutcome, learning_obstacle
from slatewise.slates.maker import Constraints, SlateMaker, require_length
from slatewise.slates.propensities import Propensities, propensities
from slatewise.slates.ranked import RankedItems
from slatewise.slates.shown import SlateView
from slatewise.slates.slate import Slate
from slatewise.slates.strategies import Strategy, named_strategy
from slatewise.slates.tables import table_of, table_of_run
from slatewise.slates.users import Event, KnownUser, Seen, history_of_events
from slatewise.slates.users import source_number as number_of_source
from slatewise.training import runs
from slatewise.words import counted

DEFAULT = "in-slate-thompson"

Clicked = Literal["exclude", "show"]
Events = Sequence[Event]


class Recommender:
    """Makes slates from a fitted model, for users with a click history or without one.

    Users are not stored: a user is what she clicked. Items can come and go without training.
    """

    def __init__(self, model: SlateModel, table: ItemTable | None = None) -> None:
        self.model = model
        table = table if table is not None else table_of(model)
        self.ranker = ExactRanker(model.posterior, table, model.terms)
        self._reader = ItemReader(model, self.ranker.terms)
        views = model.views.cpu().numpy().astype(np.int64)
        self.items = Catalogue(table, model.item_ids, model.group_names, self._reader, views=views)
        self.maker = SlateMaker(self.ranker, self.items)

    @classmethod
    def load(cls, run: str | Path) -> "Recommender":
        """Open a run that `slatewise train` or `save` made.

        Its items are laid out for ranking in `RUN/table-…` the first time, and shared between
        processes from then on.
        """
        model = runs.load(run)
        return cls(model, table_of_run(model, Path(run)))

    def __repr__(self) -> str:
        """Return which model it ranks by, and how many items it may show."""
        return (
            f"Recommender({self.model.config.name}; {counted(self.items.shown, 'item')} on offer)"
        )

    @overload
    def recommend(  # type: ignore[overload-overlap]
        self,
        clicks: Events,
        k: int = ...,
        *,
        strategy: str | Strategy = ...,
        exclude: Iterable[ItemId] = ...,
        allow: Iterable[ItemId] | None = ...,
        groups: Mapping[str, int] | int | None = ...,
        clicked: Clicked = ...,
        source: str | None = ...,
        seed: int | None = ...,
    ) -> Slate: ...

    @overload
    def recommend(
        self,
        clicks: Sequence[Events],
        k: int = ...,
        *,
        strategy: str | Strategy = ...,
        exclude: Iterable[ItemId] = ...,
        allow: Iterable[ItemId] | None = ...,
        groups: Mapping[str, int] | int | None = ...,
        clicked: Clicked = ...,
        source: str | None = ...,
        seed: int | Sequence[int] | None = ...,
    ) -> list[Slate]: ...

    def recommend(
        self,
        clicks: Events | Sequence[Events],
        k: int = 20,
        *,
        strategy: str | Strategy = DEFAULT,
        exclude: Iterable[ItemId] = (),
        allow: Iterable[ItemId] | None = None,
        groups: Mapping[str, int] | int | None = None,
        clicked: Clicked = "exclude",
        source: str | None = None,
        seed: int | Sequence[int] | None = None,
    ) -> Slate | list[Slate]:
        """Make the slate of one user, or of many.

        Args:
            clicks: ids of the items a user clicked, oldest first, or a list of such lists. Ids the
                model does not know are ignored and named in `Slate.unknown`; none at all is fine.
                A slate may stand among them as `Seen(items, clicked, source, time)`.
            k: how many items; there are fewer in the slate if no more may be shown.
            strategy: a name, or a strategy with settings of its own.
            exclude: ids not to show, such as those of earlier pages. Unknown ones are no matter.
            allow: ids to choose from; None for all. Unknown ones are no matter.
            groups: most items of each group: one number for all, or numbers by name.
            clicked: whether items of the user's own history may be shown.
            source: where the slates will be shown, of those that the model knows; without it, where
                most slates of training were. It matters to terms that see slates.
            seed: of everything random; None draws one. Of many users, number b has seed + b, or
                each her own. The same request with the same seed gives the same slate.

        """
        several = _are_several(clicks)
        histories: Sequence[Events] = clicks if several else [clicks]  # type: ignore[list-item,assignment]
        require_length(k)
        wanted = Constraints(exclude=exclude, allow=allow, groups=groups, clicked=clicked)
        wanted.require_caps()
        self._require_groups(groups)
        chosen = named_strategy(strategy) if isinstance(strategy, str) else strategy
        users = [
            KnownUser(*history_of_events(history, self.items.find, self.model.source_names))
            for history in histories
        ]
        seeds, number = _seeds(seed, len(users)), self.source_number(source)
        slates = self.maker.make(users, wanted, k, chosen, seeds, number)
        return slates if several else slates[0]

    def rank(
        self,
        items: Sequence[ItemId],
        clicks: Events = (),
        *,
        k: int | None = None,
        source: str | None = None,
    ) -> RankedItems:
        """Order given items for one user: search results, a feed, the candidates of another stage.

        Args:
            items: ids to order. Those that the model does not know, or that are not on offer, are
                named in `RankedItems.left_out`.
            clicks: what the user clicked before, as for `recommend`.
            k: how many to return, the best; all without it.
            source: where the list is shown, as for `recommend`.

        """
        if k is not None:
            require_length(k)
        number = self.source_number(source)
        user = KnownUser(*history_of_events(clicks, self.items.find, self.model.source_names))
        return self.maker.rank(user, items, k, number)

    @property
    def item_columns(self) -> list[str]:
        """The columns of items that the model reads: the features that `add_items` takes."""
        return self._reader.columns

    def add_items(
        self, ids: Sequence[ItemId], groups: Sequence[str], features: Columns | None = None
    ) -> None:
        """Offer new items at once, with the prior's full uncertainty.

        Args:
            ids: of the items; none that is on offer already.
            groups: one for each; a new group is taken for one like the others.
            features: the columns that the model reads, `item_columns`, by name: one value for each
                item, None where it is unknown. Without, all are unknown.

        """
        described = None if features is None else self._reader.read_columns(features, len(ids))
        self.items.add(ids, groups, described)

    def remove_items(self, ids: Iterable[ItemId]) -> None:
        """Take items off for good."""
        self.items.remove(ids)

    def hide_items(self, ids: Iterable[ItemId]) -> None:
        """Stop showing items for a while."""
        self.items.hide(ids)

    def show_items(self, ids: Iterable[ItemId]) -> None:
        """Show hidden items again."""
        self.items.show(ids)

    def refresh(self, states: ItemState | Mapping[str, ItemState], time: int) -> None:
        """Take over what terms know of all items at a time, in microseconds since 1970.

        For a model with terms that rank all items, such as popularity: `states` are what their
        `item_state` returned, by the names of the terms, or the one of the only such term. As often
        as `refresh` of a term says; before the first time, all items count as new, and slates say
        so in their notes. Requests under way go on with what they began with.
        """
        terms = self.ranker.terms
        terms.set_features(terms.features(states, time), self.items)

    def observe(self, outcomes: Iterable[SlateOutcome]) -> None:
        """Learn from the outcomes of slates, in the order given, until the model is trained again.

        Each moves the vectors and biases of its items, by one step of assumed-density filtering
        (`slatewise.slates.learning`); new items get beliefs of their own. Users, groups and weights
        stay as they were trained. Slates that were made meanwhile are not changed.
        """
        self.learn([self._answer(outcome) for outcome in outcomes])

    def learn(self, answers: Iterable[Answer]) -> None:
        """Learn from answers by rows of the table, as `observe` does; see `view` for slates."""
        self._learner.observe(answers)

    @cached_property
    def _learner(self) -> ItemLearner:
        obstacle = learning_obstacle(self.model)
        if obstacle is not None:
            raise SlatewiseError(
                f"the model cannot learn from answers: {obstacle}.",
                "Train a model with likelihood = 'slate'.",
            )
        return ItemLearner(self.model, self.ranker.table)

    @cached_property
    def view(self) -> SlateView:
        """What sums up the moment at which slates are shown, to learn from them."""
        return SlateView(self.model, self.ranker)

    def _answer(self, outcome: SlateOutcome) -> Answer:
        slate, source = outcome.slate, self.source_number(outcome.source)
        source = slate.source if source is None else source
        seen = len(slate) if outcome.seen is None else outcome.seen
        if not 0 <= seen <= len(slate):
            raise SlatewiseError(
                f"{seen} items of a slate of {len(slate)} were seen.", "Give as many as there are."
            )
        missing = [item for item in outcome.clicked if item not in slate.items]
        if missing:
            raise SlatewiseError(
                f"item {missing[0]!r} was clicked on a slate without it.",
                "Give the slate on which it was clicked.",
            )
        clicked = tuple(slate.items.index(item) for item in dict.fromkeys(outcome.clicked))
        seen = seen_in_slate(seen, clicked)
        number = self.model.terms.usual_source if source is None else source
        return Answer(self.view.of(slate.history, slate.numbers, number, slate.time), seen, clicked)

    def source_number(self, source: str | None) -> int | None:
        """Return the number of a source, None for None, refusing one that is not known."""
        return None if source is None else number_of_source(source, self.model.source_names)

    def explain(self, slate: Slate, draws: int = 100) -> list[Reason]:
        """Explain each item of a slate: what every term adds to its utility."""
        return explain(self.ranker, self.items, slate, draws)

    def propensities(
        self,
        slate: Slate,
        strategy: str | Strategy | None = None,
        draws: int = 1_000,
        seed: int = 0,
    ) -> Propensities:
        """Estimate how likely items were at each position of a slate; see `propensities`.

        Name the strategy where it was one with settings of its own.
        """
        strategy = slate.strategy if strategy is None else strategy
        chosen = named_strategy(strategy) if isinstance(strategy, str) else strategy
        return propensities(self.ranker, chosen, slate, draws, seed)

    def _require_groups(self, groups: Mapping[str, int] | int | None) -> None:
        unknown = [] if groups is None else self.items.caps(groups)[1]
        if unknown:
            names = self.items.group_names
            raise SlatewiseError(
                f"there is no group '{unknown[0]}'.",
                f"The {len(names)} groups include '{names[0]}'.",
            )


def _are_several(clicks: Events | Sequence[Events]) -> bool:
    if isinstance(clicks, str):
        raise SlatewiseError(
            f"'{clicks}' is one text and no list of clicks.", f"Write ['{clicks}'] for one click."
        )
    return len(clicks) > 0 and not isinstance(clicks[0], str | int | np.integer | Seen)


def _seeds(seed: int | Sequence[int] | None, count: int) -> list[int]:
    if seed is None:
        return [secrets.randbits(48) for _ in range(count)]
    seeds = [seed + number for number in range(count)] if isinstance(seed, int) else list(seed)
    if len(seeds) != count or any(one < 0 for one in seeds):
        raise SlatewiseError(
            "the seeds do not fit the users.", "Give one number from 0 up, or one to each user."
        )
    return seeds
