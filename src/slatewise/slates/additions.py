"""What the terms of the utility add to the scores of items, beside biases and relevance.

Whatever terms a model has: those that rank all items act on features that the table holds, side by
side in the order of the terms; those that rank the items met add offsets to the few items that a
user met. J draws, P features of all items, m items met, k items asked for.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.features.user_history import UserHistory
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.known import NO_FACTS, Facts, ItemState, ListFeatures, ListMoment
from slatewise.model.terms.term import FeatureTerm
from slatewise.ranking import Additions, ItemTable
from slatewise.ranking.additions import NO_ADDITIONS
from slatewise.slates.arrays import rows_or_zero
from slatewise.slates.term_weights import TermWeights, Weights
from slatewise.slates.users import Ints

if TYPE_CHECKING:
    from slatewise.slates.catalogue import Catalogue

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


class RankingTerms:
    """The terms of a model that rank, as serving computes them.

    Terms that never rank, such as a position, and those on clicking nothing are the same for all
    items of a ranking.
    """

    def __init__(self, posterior: Posterior, terms: FittedTerms, table: ItemTable) -> None:
        self._of_all, self._of_met = ranking_terms(posterior, terms)
        self._table = table
        self._in_lists = {name: term for name, term in terms.by_name.items() if term.in_lists}
        acting = (*self._of_all, *self._of_met, *self._in_lists)
        self._in_slates = TermWeights.in_slates(posterior, acting)
        self._in_made_slates = TermWeights.in_made_slates(posterior, acting)
        ranking = [name for name in posterior.shared if name in self._of_all | self._of_met]
        self._ranking = TermWeights.of_rankings(posterior, ranking)
        self._moments: dict[str, ListMoment] = {}
        self._usual_source = terms.usual_source

    @property
    def unknown(self) -> list[str]:
        """The terms of which nothing is known yet: to them, all items are new."""
        return [] if self._table.num_features else list(self._of_all)

    @property
    def unknown_in_lists(self) -> list[str]:
        """The terms that act in lists, and know nothing of items yet."""
        return [name for name in self._in_lists if name not in self._moments]

    @property
    def candidates(self) -> int:
        """How many items are ranked again by terms that see slates; 0 while none knows items."""
        return max((self._in_lists[name].candidates for name in self._moments), default=0)

    @property
    def see_lists(self) -> bool:
        """Whether terms act in given lists: some see slates, and know items."""
        return bool(self._moments)

    def reranks(self, name: str) -> bool:
        """Return whether a term that acts in lists ranks the best items again for a slate."""
        return self._in_lists[name].candidates > 0

    def features(self, states: ItemState | Mapping[str, ItemState], time: int) -> "TermFeatures":
        """Return what terms know of items at a time; one state alone is that of the only term."""
        if not isinstance(states, Mapping):
            states = dict.fromkeys([*self._of_all, *self._in_lists][:1], states)
        for name in self._of_all.keys() & states.keys():
            self._of_all[name].require_own(states[name])
        return self.side_by_side({name: one.features(time) for name, one in states.items()}, time)

    def side_by_side(self, features: Mapping[str, Floats], time: int) -> "TermFeatures":
        """Return features [n, P] of each term as the table and lists have them."""
        in_lists = {name: own for name, own in features.items() if name in self._in_lists}
        ranking = {name: own for name, own in features.items() if name not in self._in_lists}
        if not ranking and self._in_lists and not self._of_all:
            return TermFeatures(time, None, in_lists)
        count = max(map(len, ranking.values()), default=0)
        columns = feature_columns(self._of_all, ranking, count)
        widths = tuple(ranking[name].shape[1] for name in self._of_all)
        return TermFeatures(time, columns, in_lists, widths)

    @property
    def reads_items(self) -> list[str]:
        """The columns of items that the terms read."""
        return [name for term in self._every.values() for name in term.reads_items]

    def facts_of(self, items: Sequence[Mapping[str, object]]) -> tuple[dict[str, Facts], int]:
        """Return what terms read of the features of items [R], and how many values do not fit."""
        found = {name: term.facts_of(items) for name, term in self._every.items()}
        facts = {name: own for name, (own, _) in found.items() if own}
        return facts, sum(misfits for _, misfits in found.values())

    def read_otherwise(
        self, rows: Ints, items: Sequence[Mapping[str, object]]
    ) -> npt.NDArray[np.bool_]:
        """Return for which items [R], in rows of training, features are others than then."""
        other = np.zeros(len(rows), np.bool_)
        for name, facts in self.facts_of(items)[0].items():
            other |= self._every[name].reads_otherwise(rows, facts)
        return other

    def refuse_misfits(self, values: Mapping[str, object], *, row: int | None = None) -> None:
        """Refuse features of an item that are of another kind than a term reads."""
        for term in self._every.values():
            term.refuse_misfits(values, row=row)

    def add_items(self, groups: Ints, facts: Mapping[str, Facts]) -> None:
        """Let the terms know of items in the next rows, by their groups and what was read."""
        for terms in (self._of_all, self._of_met, self._in_lists):
            for name, term in terms.items():
                terms[name] = term.with_items(groups, facts.get(name, NO_FACTS))

    @property
    def _every(self) -> dict[str, FeatureTerm]:
        return self._of_all | self._of_met | self._in_lists

    def set_features(self, features: "TermFeatures", items: "Catalogue") -> None:
        """Take over what terms know of items, which are in the indices of a catalogue."""

        def of_rows(known: Floats, rows: Ints) -> Floats:
            return rows_or_zero(known, items.indices_of(rows))

        self._moments = {
            name: ListMoment(features.time, partial(of_rows, known))
            for name, known in features.in_lists.items()
        }
        if features.of_all is not None:
            ends = np.cumsum(features.widths)[:-1]

            def all_of_rows(known: Floats, rows: Ints) -> Floats:
                said = zip(self._of_all.values(), np.split(known, ends, axis=1), strict=True)
                now = np.full(len(rows), features.time)
                parts = [term.of_rows(own, rows, now) for term, own in said]
                return np.concatenate(parts, axis=1)

            items.set_features(features.of_all, all_of_rows)

    def mean(self, history: UserHistory) -> Additions:
        """Return what is added for a user by the posterior mean: weights [P], offsets [m]."""
        return self._added(history, self._ranking.means)

    def draws(self, history: UserHistory, draws: int, seed: int) -> Additions:
        """Return what is added in J draws of the weights: weights [J, P], offsets [J, m]."""
        if not self._of_all and not self._of_met:
            return NO_ADDITIONS
        return self._added(history, self._ranking.draws(draws, np.random.default_rng([seed, 4])))

    def drawn_once(self, draws: int, seed: int) -> Callable[[UserHistory, Ints], Doubles]:
        """Draw the weights J times, once; return what they add to items [k] for a user: [J, k].

        [J, 0] without any term.
        """
        if not self._of_all and not self._of_met:
            nothing = np.empty((draws, 0))
            return lambda history, items: nothing
        drawn = self._ranking.draws(draws, np.random.default_rng(seed))
        return lambda history, items: sum(self._parts(history, items, drawn).values(), np.zeros(1))

    def mean_parts(self, history: UserHistory, items: Ints) -> dict[str, Doubles]:
        """Return what each term adds to some items by the posterior mean: [k] each."""
        return self._parts(history, items, self._ranking.means)

    def in_list(
        self,
        history: UserHistory,
        items: Ints,
        source: int,
        length: int,
        *,
        time: int | None = None,
        made: bool = False,
    ) -> "TermsInList | None":
        """Return what terms add to candidates [K] for a slate of `length` items to a user.

        Popularity is what was known of it last, which may be a minute ago; what the user did is
        told as of `time`, without it as of that moment. `made` are slates of the catalogue, which
        the next click weighs where it ranks; others are lists that are given. None where no term
        acts in lists: a list is ranked as all items are.
        """
        if not self._moments:
            return None
        unknown = history.sources < 0
        if unknown.any():  # taken for the usual source, as a night takes those that are new
            history = replace(
                history, sources=np.where(unknown, self._usual_source, history.sources)
            )
        seeing = {
            name: self._in_lists[name].in_list(history, items, source, moment.at(time), length)
            for name, moment in self._moments.items()
        }
        weights = self._in_made_slates if made else self._in_slates
        return TermsInList(seeing, self._features(history, items), weights)

    def in_slate(
        self, history: UserHistory, items: Ints, source: int, time: int | None = None
    ) -> Doubles:
        """Return what terms add together to the items [k] of a slate that a user is shown: [k].

        By the posterior mean of the weights that act in slates, position apart.
        """
        in_list = self.in_list(history, items, source, len(items), time=time)
        if in_list is None:
            parts = self._parts(history, items, self._in_slates.means)
        else:
            parts = in_list.mean_parts(np.arange(len(items)))
        return np.asarray(sum(parts.values(), np.zeros(len(items))))

    def _added(self, history: UserHistory, weights: Weights) -> Additions:
        """Apply weights of terms, [...] in front of their features."""
        of_all = None
        if self._of_all and self._table.num_features:
            of_all = np.concatenate([weights[name] for name in self._of_all], axis=-1)
        if not self._of_met:
            return NO_ADDITIONS if of_all is None else Additions(of_all)
        met = {name: term.met(history) for name, term in self._of_met.items()}
        offsets = {
            name: np.asarray(weights[name], np.float64) @ features.T
            for name, (_, features) in met.items()
        }
        if len(met) == 1:
            (name,) = met
            return Additions(of_all, met[name][0], offsets[name])
        items = np.unique(np.concatenate([items for items, _ in met.values()]))
        total = np.zeros((*next(iter(weights.values())).shape[:-1], len(items)))
        for name, (own, _) in met.items():
            total[..., np.searchsorted(items, own)] += offsets[name]
        return Additions(of_all, items, total)

    def _parts(self, history: UserHistory, items: Ints, weights: Weights) -> dict[str, Doubles]:
        """Return what each term adds to some items [k]: [..., k]."""
        features = self._features(history, items)
        return {n: np.asarray(weights[n] @ own.T, np.float64) for n, own in features.items()}

    def _features(self, history: UserHistory, items: Ints) -> dict[str, Floats]:
        """Return the features of some items [k], by the names of terms: [k, P] each."""
        found, start = {}, 0
        terms = self._of_all | self._of_met
        if not terms:
            return {}
        table = self._table.features_of(items)  # [k, P]
        for name, term in terms.items():
            width = self._ranking.means[name].shape[-1]
            if name in self._of_met:
                found[name] = term.met(history, items)[1]
            elif self._table.num_features:
                found[name], start = table[:, start : start + width], start + width
            else:
                found[name] = np.zeros((len(items), width), np.float32)
        return found


class TermFeatures(NamedTuple):
    """What the terms of a model know of items at a time, by index; 0 for items they have not met.

    Copies: states go on counting, while slates are made of what was known at one moment.
    """

    time: int
    """microseconds since 1970"""
    of_all: Floats | None
    """[n, ΣS] of the terms that rank all items, None if there are none"""
    in_lists: Mapping[str, Floats]
    """[n, P] of each term that acts in lists, by name"""
    widths: tuple[int, ...] = ()
    """S of each term that ranks all items"""


@dataclass(frozen=True)
class TermsInList:
    """What the terms of a model add to K candidates for a slate."""

    _seeing: Mapping[str, ListFeatures]
    """the terms that see the slate, by name"""
    _others: Mapping[str, Floats]
    """features of the other terms, [K, P] each"""
    _weights: TermWeights

    @property
    def sharpness(self) -> float:
        """κ, by which what all parts of the model say is multiplied in a slate."""
        return self._weights.sharpness

    def mean_parts(self, shown: Ints) -> dict[str, Doubles]:
        """Return what each adds where the candidates at `shown` [k] are the slate: [K] each."""
        means = self._weights.means
        parts = self._of_others(means)
        for name, features in self._seeing.items():
            parts[name] = features.mean(shown).astype(np.float64) @ means[name]
        return parts

    def _of_others(self, weights: Weights) -> dict[str, Doubles]:
        return {n: np.asarray(weights[n] @ own.T, np.float64) for n, own in self._others.items()}

    def draws(self, shown: Ints, count: int, seed: int) -> Doubles:
        """Return what all add together in J draws of their weights: [J, K]."""
        rng = np.random.default_rng([seed, 6])
        weights = self._weights.draws(count, rng)
        parts = self._of_others(weights)
        for name, features in self._seeing.items():
            drawn = features.draws(shown, count, rng).astype(np.float64)
            parts[name] = np.einsum("jkp,jp->jk", drawn, weights[name])
        return np.asarray(np.sum(list(parts.values()), axis=0))


def ranking_terms(
    posterior: Posterior, terms: FittedTerms
) -> tuple[dict[str, FeatureTerm], dict[str, FeatureTerm]]:
    """Return the terms that rank all items, and the items met; refuse if one is missing."""
    for name in posterior.parts.weight_names("items"):
        if posterior.parts.terms[name].ranks != "never" and name not in terms.by_name:
            raise SlatewiseError(
                f"the model ranks by {name}, of which nothing is known here.",
                "Give the ranker the terms of the model, SlateModel.terms.",
            )
    return terms.that_rank("all items"), terms.that_rank("items met")


def feature_columns(
    terms: Mapping[str, FeatureTerm], features: Mapping[str, Floats], num_items: int
) -> Floats:
    """Put features [n, P] of terms side by side for I items, 0 for those beyond n: [I, ΣP]."""
    if not terms or features.keys() != terms.keys():
        raise _other_terms(features, terms)
    parts = []
    for name in terms:
        known = features[name][:num_items]
        parts.append(np.zeros((num_items, known.shape[1]), np.float32))
        parts[-1][: len(known)] = known
    return np.concatenate(parts, axis=1)


def _other_terms(given: Mapping[str, Any], terms: Mapping[str, FeatureTerm]) -> SlatewiseError:
    if not terms:
        return SlatewiseError(
            "the model has no term that ranks all items: there is nothing to refresh.",
            "Train it with such a term, as 'popularity'.",
        )
    return SlatewiseError(
        f"the model ranks all items by {', '.join(terms)}, and the states are of "
        f"{', '.join(given) or 'nothing'}.",
        "Give a state for each term, by its name.",
    )
