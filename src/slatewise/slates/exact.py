"""Ranking one user at a time over a table of items, exactly, however many items there are."""

from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from slatewise.compiled.normals import normals_around
from slatewise.features.user_history import Moves, UserHistory
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.ranking import (
    Filter,
    ItemTable,
    rank_draws,
    rank_expected,
    rank_means,
    rank_means_many,
)
from slatewise.slates.additions import Doubles, RankingTerms
from slatewise.slates.interleaving import interleave, interleave_capped
from slatewise.slates.profiles import Floats, UserDynamics
from slatewise.slates.second_stage import SecondStage
from slatewise.slates.users import Ints, Users


class Profiles(NamedTuple):
    """J draws of one user, with the draws of the C different items that led to them.

    Those are what she clicked, and what stood in slates without a click that moved her.
    """

    profiles: Floats
    """[J, D]"""
    items: Ints
    """[C]"""
    vectors: Floats
    """[J, C, D]"""


class ExactRanker:
    """A `Ranker` for serving: users are independent, and the table may hold millions of items.

    Items are those of the table, which may have been added after training; of the posterior only
    what moves users is read, and the weights of the terms that rank.
    """

    def __init__(
        self, posterior: Posterior, table: ItemTable, terms: FittedTerms | None = None
    ) -> None:
        self.table = table
        terms = terms or FittedTerms()
        self.terms = RankingTerms(posterior, terms, table)
        self._usual_source = terms.usual_source
        self.dynamics = UserDynamics(posterior)
        self.relevance = posterior.parts.relevance
        named = posterior.parts.terms.items()
        self._bias_names = [name for name, one in named if one.item_columns(posterior.config)]
        self._profiles: WeakKeyDictionary[UserHistory, tuple[int, Floats]] = WeakKeyDictionary()
        self._moves: WeakKeyDictionary[UserHistory, tuple[Moves, Ints, Ints]] = WeakKeyDictionary()
        """what moved a user, the different items of that, and which of them each item is"""

    def by_mean(self, users: Users, k: int, length: int | None = None) -> Ints:
        """Rank by utility in closed form, at the mean and with the spread of items: [B, k].

        `length` is that of the slate, k without it, for terms that see slates: see `second_stage`.
        """
        found = self._all_by_mean(users, self._candidates(k))
        if not self.terms.candidates:
            return found
        rows = []
        for row, user in enumerate(users.each()):
            stage = self._second_stage(user, found[row], length or k)
            best = found[row] if stage is None else stage.ranked(stage.mean)
            rows.append(self._capped(best[None], user.filters[0], k))
        return np.stack(rows) if rows else found[:, :k]

    def _all_by_mean(self, users: Users, k: int) -> Ints:
        profiles = self.mean_profiles(users)
        added = [self.terms.mean(history) for history in users.histories]
        own = self.relevance
        if len(profiles) == 1:  # without room for others beside her: a third less
            alone = self.table, profiles[0], k, users.filters[0], added[0]
            found = rank_means(*alone, relevance=own.ranking, spread=own.arrays_with_spread)
            return found.items[None]
        request = self.table, profiles, k, users.filters, added
        return rank_means_many(*request, relevance=own.ranking, spread=own.arrays_with_spread).items

    def by_draws(self, users: Users, k: int, draws: int, length: int | None = None) -> Ints:
        """Rank by relevance in J posterior draws each: [B, J, k]."""
        rankings = []
        for user in users.each():
            asked = user.histories[0], user.filters[0], user.seeds[0]
            if not self.terms.candidates:
                rankings.append(self._draw_and_rank(*asked, k, draws)[0])
                continue
            # Of J rankings each, as many as lead to enough candidates.
            depth = max(k, -(-self._candidates(k) // draws))
            found, drawn = self._draw_and_rank(*asked, depth, draws)
            merged = self._capped(found, asked[1], self._candidates(k))
            stage = self._second_stage(user, merged, length or k)
            again = found
            if stage is not None:
                utilities = stage.draws(drawn, self.table, self.relevance, user.seeds[0])
                again = stage.ranked(utilities)
            rankings.append(np.stack([self._capped(one[None], asked[1], k) for one in again]))
        return np.stack(rankings) if rankings else np.empty((0, draws, k), np.int64)

    def _candidates(self, k: int) -> int:
        """Return how many items the first stage finds for a slate of k."""
        return max(k, self.terms.candidates)

    def _second_stage(self, user: Users, found: Ints, length: int) -> SecondStage | None:
        """Return the second stage for what the first found, None if that is nothing."""
        items = found[found >= 0]
        asked = user.histories[0], items, self.source_of(user), length
        terms = self.terms.in_list(*asked, time=user.time, made=True)
        if not len(items) or terms is None:
            return None
        own = np.sum(list(self.own_parts(user, items).values()), axis=0)
        return SecondStage(terms, items, own, length)

    def _draw_and_rank(
        self, history: UserHistory, wanted: Filter, seed: int, k: int, draws: int
    ) -> tuple[Ints, Profiles]:
        for_profiles, for_items = _streams(seed)
        drawn = self.draw_profiles(history, draws, for_profiles)
        added = self.terms.draws(history, draws, seed)
        # A clicked item has one vector in a draw: that which moved the user is also ranked.
        found = rank_draws(
            self.table,
            drawn.profiles,
            k,
            for_items,
            wanted,
            drawn.items,
            drawn.vectors,
            added,
            relevance=self.relevance.ranking,
        )
        return found.items, drawn

    def by_expectation(self, users: Users, k: int, draws: int) -> Ints:
        """Rank by relevance averaged over the posterior, of users over `draws` draws: [B, k].

        Here a clicked item is taken for independent of the profile that it moved.
        """
        slates = np.full((len(users), k), -1, dtype=np.int64)
        for row, user in enumerate(users.each()):
            history, wanted, seed = user.histories[0], user.filters[0], user.seeds[0]
            drawn = self.draw_profiles(history, draws, _streams(seed)[0])
            added = self.terms.draws(history, draws, seed)
            found = rank_expected(
                self.table,
                drawn.profiles,
                self._candidates(k),
                wanted,
                added,
                relevance=self.relevance.ranking,
            ).items
            if self.terms.candidates:
                stage = self._second_stage(user, found, k)
                if stage is not None:
                    utilities = stage.draws(drawn, self.table, self.relevance, seed)
                    found = stage.ranked(np.exp(utilities).mean(0))
                found = self._capped(found[None], wanted, k)
            slates[row] = found
        return slates

    def at_random(self, users: Users, k: int) -> Ints:
        """Take items uniformly from all that may be shown: [B, k]."""
        slates = np.full((len(users), k), -1, dtype=np.int64)
        available = np.flatnonzero(self.table.available)
        for row, (wanted, seed) in enumerate(zip(users.filters, users.seeds, strict=True)):
            shown = available
            if wanted.allow is not None:
                shown = np.intersect1d(shown, wanted.allow)
            shown = np.setdiff1d(shown, np.asarray(wanted.exclude, dtype=np.int64))
            rng = np.random.default_rng([seed, 2])
            mixed = rng.permutation(shown) if wanted.caps is not None else _some(shown, k, rng)
            slates[row] = self._capped(mixed[None], wanted, k)
        return slates

    def interleave(self, users: Users, rankings: Ints, k: int) -> Ints:
        """Merge rankings [B, J, L] into slates within the users' group caps: [B, k]."""
        if all(wanted.caps is None for wanted in users.filters):
            return interleave(rankings, k)
        merged = [
            self._capped(ranking, wanted, k)
            for ranking, wanted in zip(rankings, users.filters, strict=True)
        ]
        return np.stack(merged)

    def _capped(self, rankings: Ints, wanted: Filter, k: int) -> Ints:
        if wanted.caps is None:
            return np.asarray(interleave(rankings[None], k)[0])
        groups = self.table.groups[rankings].astype(np.int64)
        return interleave_capped(rankings, k, groups, np.asarray(wanted.caps, dtype=np.int64))

    def mean_profiles(self, users: Users) -> Floats:
        """Return the profiles of users at the posterior mean: [B, D]."""
        return np.stack([self.mean_profile(history) for history in users.histories])

    def mean_profile(self, history: UserHistory) -> Floats:
        """Return where the posterior mean has a user, [D], remembered as long as her history is.

        Only a new history moves her, or items of it that were moved themselves.
        """
        number = self.table.moves  # before the means are read: what comes later is another number
        known = self._profiles.get(history)
        if known is None or self.table.moved_since(history.items, known[0]):
            moves = history.moves(self.dynamics.source_index)
            vectors = moves.averages(self.table.means_of(moves.items))
            known = number, self.dynamics.mean(vectors, moves.kinds)
            self._profiles[history] = known
        return known[1]

    def mean_parts(self, users: Users, items: Ints) -> dict[str, Doubles]:
        """Return what each term adds to the utilities of items [k] to the first user: [k] each.

        In closed form; the relevance, such as `distance`, is one of them. They add up to what
        `by_mean` ranks all items by; where terms see slates, that is its first stage only, and
        `slate_parts` has what slates are made by.
        """
        return self.own_parts(users, items) | self.terms.mean_parts(users.histories[0], items)

    def slate_parts(self, users: Users, items: Ints) -> dict[str, Doubles]:
        """Return the same of the items [k] of a slate that was made for the first user."""
        if not self.terms.candidates:
            return self.mean_parts(users, items)
        return self._parts_in_list(users, items, made=True)

    def list_parts(self, users: Users, items: Ints) -> dict[str, Doubles]:
        """Return the same where the items [k] are a list that is shown.

        Terms add what they add in a slate, position apart.
        """
        return self._parts_in_list(users, items, made=False)

    def source_of(self, users: Users) -> int:
        """Return where the slates of users will be shown: the usual source if none is given."""
        return self._usual_source if users.source is None else users.source

    def _parts_in_list(self, users: Users, items: Ints, *, made: bool) -> dict[str, Doubles]:
        asked = users.histories[0], items, self.source_of(users), len(items)
        in_list = self.terms.in_list(*asked, time=users.time, made=made)
        if in_list is None:
            return self.mean_parts(users, items)
        parts = self.own_parts(users, items) | in_list.mean_parts(np.arange(len(items)))
        return {name: in_list.sharpness * added for name, added in parts.items()}

    def own_parts(self, users: Users, items: Ints) -> dict[str, Doubles]:
        """Return what relevance, and biases where the model has them, add: [k] each."""
        profile = self.mean_profiles(users)[0]
        given = self.table.means_of(items), self.table.variances_of(items)
        wider, vectors = self.relevance.arrays_with_spread(profile[None], *given)
        found = self.relevance.of_arrays(wider, vectors)
        parts = {self.relevance.name: found.astype(np.float64)}
        biases = self.table.biases_of(items).astype(np.float64)
        return parts | dict.fromkeys(self._bias_names, biases)

    def draw_profiles(self, history: UserHistory, draws: int, seed: int) -> Profiles:
        """Draw the profile of one user J times, with everything that is uncertain about it."""
        rng = np.random.default_rng(seed)
        known = self._moves.get(history)
        if known is None:
            moves = history.moves(self.dynamics.source_index)
            known = self._moves[history] = moves, *np.unique(moves.items, return_inverse=True)
        moves, items, local = known
        given = self.table.means_of(items), self.table.scales_of(items)
        vectors = normals_around(rng, *given, draws)  # [J, C, D]
        moving = moves.averages(vectors[:, local])  # [J, E, D]
        return Profiles(self.dynamics.draws(moving, moves.kinds, rng), items, vectors)


def _streams(seed: int) -> tuple[int, int]:
    """Make independent seeds of one, for profiles and for items."""
    words = np.random.SeedSequence(seed).generate_state(2, np.uint64) >> np.uint64(1)
    return int(words[0]), int(words[1])


def _some(items: Ints, k: int, rng: np.random.Generator) -> Ints:
    return rng.choice(items, min(k, len(items)), replace=False)
