"""One way from users to slates, for the library, files of users, and the live service."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.model.fitted import ItemId
from slatewise.ranking import Filter
from slatewise.slates.catalogue import Catalogue
from slatewise.slates.exact import ExactRanker
from slatewise.slates.ranked import RankedItems, click_shares
from slatewise.slates.relevance import Relevance
from slatewise.slates.slate import Slate
from slatewise.slates.strategies import Strategy
from slatewise.slates.users import NO_FILTER, Ints, KnownUser, Users


@dataclass(frozen=True, kw_only=True)
class Constraints:
    """What a slate may show."""

    exclude: Iterable[ItemId] = ()
    """ids not to show; unknown ones do not matter"""
    allow: Iterable[ItemId] | None = None
    """ids to choose from; None for all"""
    groups: Mapping[str, int] | int | None = None
    """most items of each group: one number for all, or numbers by name"""
    clicked: Literal["exclude", "show"] = "exclude"
    """whether items of the user's own history may be shown"""

    def require_caps(self) -> None:
        """Refuse negative limits of groups."""
        groups = self.groups if isinstance(self.groups, Mapping) else {"": self.groups or 0}
        for name, most in groups.items():
            if most < 0:
                raise SlatewiseError(
                    f"a group{name and f' ({name})'} cannot have {most} items.",
                    "Give 0 to leave a group out, or more.",
                )


def require_length(k: int) -> None:
    """Refuse a slate without any item."""
    if k < 1:
        raise SlatewiseError(f"a slate of {k} items cannot be made.", "Ask for one item or more.")


class SlateMaker:
    """Makes slates from a ranker and a catalogue as they are."""

    def __init__(self, ranker: ExactRanker, catalogue: Catalogue) -> None:
        self.ranker, self.catalogue = ranker, catalogue

    @cached_property
    def relevance(self) -> Relevance:
        """What computes the relevance of the items of a slate; many slates can do without."""
        return Relevance(self.ranker)

    def make(
        self,
        users: Sequence[KnownUser],
        wanted: Constraints,
        k: int,
        strategy: Strategy,
        seeds: Sequence[int],
        source: int | None = None,
        time: int | None = None,
    ) -> list[Slate]:
        """Return the slates of users [B] with seeds [B], of k items or as many as there are.

        They will be shown at a source, as the model numbers it, and a time; see `Users`.
        """
        terms = self.ranker.terms
        notes = [f"{term} is not known yet: items count as new" for term in terms.unknown]
        if not terms.candidates:
            missing = (name for name in terms.unknown_in_lists if terms.reranks(name))
            notes += [f"{name} is not known yet: slates are made without it" for name in missing]
        common = self._filter(wanted, notes)
        filters = [common] * len(users)
        if wanted.clicked == "exclude":
            filters = [_without(common, user.history.clicked) for user in users]
        asking = Users([user.history for user in users], filters, seeds, source, time)
        return [
            self._slate(row[row >= 0], user, asked, strategy.name, notes)
            for row, user, asked in zip(
                self.rows(asking, k, strategy), users, asking.each(), strict=True
            )
        ]

    def rank(
        self,
        user: KnownUser,
        items: Sequence[ItemId],
        k: int | None = None,
        source: int | None = None,
        time: int | None = None,
    ) -> RankedItems:
        """Order given items by their utility to a user, and return the k best, or all.

        The list is shown at a source, as the model numbers it, and a time; see `Users`.
        """
        items = list(dict.fromkeys(items))
        rows = self.catalogue.known(items)[0]
        rows = rows[self.ranker.table.available[rows]]
        asking = Users([user.history], [NO_FILTER], [0], source, time)
        parts = self.ranker.list_parts(asking, rows) if len(rows) else {}
        utilities = np.sum(list(parts.values()) or [np.empty(0)], axis=0)
        order = np.argsort(-utilities, kind="stable")[:k]
        ids = self.catalogue.ids_of(rows)
        ranked, terms = set(ids), self.ranker.terms
        return RankedItems(
            items=[ids[index] for index in order],
            groups=self.catalogue.groups_of(rows[order]),
            utilities=utilities[order],
            probabilities=click_shares(utilities)[order],
            left_out=[item for item in items if item not in ranked],
            unknown=list(user.unknown),
            notes=[
                *(f"{term} is not known yet: items count as new" for term in terms.unknown),
                *(
                    f"{term} is not known yet: the list is ranked without it"
                    for term in terms.unknown_in_lists
                ),
            ],
        )

    def rows(self, users: Users, k: int, strategy: Strategy) -> Ints:
        """Return the rows of the items of slates [B, K], −1 where there is none left to show."""
        most = min(k, self.catalogue.shown)
        allowed = (one.allow is None or len(np.asarray(one.allow)) for one in users.filters)
        if not most or not any(allowed):
            return np.empty((len(users), 0), np.int64)
        return strategy.slates(self.ranker, users, most)

    def _filter(self, wanted: Constraints, notes: list[str]) -> Filter:
        caps = None
        if wanted.groups is not None:
            caps, unknown = self.catalogue.caps(wanted.groups)
            notes += [f"there is no group '{name}'" for name in unknown]
        return Filter(
            exclude=self.catalogue.known(wanted.exclude)[0],
            allow=None if wanted.allow is None else self.catalogue.known(wanted.allow)[0],
            caps=caps,
        )

    def _slate(
        self,
        rows: Ints,
        user: KnownUser,
        asked: Users,
        strategy: str,
        notes: list[str],
    ) -> Slate:
        table = self.ranker.table
        if user.profiles is None or table.moved_since(user.history.items, user.moves):
            user.moves = table.moves
            user.profiles = self.relevance.profiles(user.history)
        relevance, uncertainty = self.relevance.of(asked, user.profiles, rows)
        return Slate(
            items=self.catalogue.ids_of(rows),
            groups=self.catalogue.groups_of(rows),
            relevance=relevance,
            uncertainty=uncertainty,
            strategy=strategy,
            seed=asked.seeds[0],
            unknown=list(user.unknown),
            numbers=rows,
            history=user.history,
            filter=asked.filters[0],
            notes=list(notes),
            source=asked.source,
            time=asked.time,
        )


def _without(common: Filter, clicks: Ints) -> Filter:
    if not len(clicks):
        return common
    return replace(common, exclude=np.concatenate([np.asarray(common.exclude), clicks]))
