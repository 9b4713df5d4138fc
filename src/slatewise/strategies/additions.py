"""What the terms of the utility add to the scores of items, beside biases and distances.

Weights of popularity act on features that the table holds for all items, those of a user's history
on the few items that she met. J draws, P features of popularity, m items met, k items asked for.
"""

from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.features.history import met_features
from slatewise.features.popularity_state import PopularityState
from slatewise.features.user_history import UserHistory
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.history import HistoryTerm
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.ranking import Additions, ItemTable
from slatewise.strategies.users import Ints

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]


class RankingTerms:
    """The terms of a model that rank, as serving computes them.

    Click propensity and position do not: they are the same for all items.
    """

    def __init__(self, posterior: Posterior, terms: FittedTerms, table: ItemTable) -> None:
        self._history = history_term(terms)
        self._table = table
        self._weights = {
            name: (part.mean.detach().cpu().numpy(), part.scale.detach().cpu().numpy())
            for name, part in posterior.shared.items()
            if name in terms.by_name and terms.by_name[name].acts_on == "items"
        }

    def mean(self, history: UserHistory) -> Additions:
        """Return what is added for a user by the posterior mean: weights [P], offsets [m]."""
        return self._added(history, {name: mean for name, (mean, _) in self._weights.items()})

    def draws(self, history: UserHistory, draws: int, seed: int) -> Additions:
        """Return what is added in J draws of the weights: weights [J, P], offsets [J, m]."""
        rng, drawn = np.random.default_rng([seed, 4]), {}
        for name, (mean, scale) in self._weights.items():
            drawn[name] = mean + scale * rng.standard_normal((draws, *mean.shape))
        return self._added(history, drawn)

    def drawn_once(self, draws: int, seed: int) -> Callable[[UserHistory, Ints], Doubles | float]:
        """Draw the weights J times, once; return what they add to items [k] for a user: [J, k].

        0 without any term.
        """
        rng = np.random.default_rng(seed)
        drawn = {
            name: mean + scale * rng.standard_normal((draws, *mean.shape))
            for name, (mean, scale) in self._weights.items()
        }

        def added(history: UserHistory, items: Ints) -> Doubles | float:
            total: Doubles | float = 0.0
            if "popularity" in drawn and self._table.num_features:
                total = drawn["popularity"] @ self._table.features_of(items).T
            if self._history is not None:
                features = history_features(self._history, history, items)[1]
                total = total + drawn["history"] @ features.T
            return total

        return added

    def _added(self, history: UserHistory, weights: Mapping[str, npt.ArrayLike]) -> Additions:
        """Apply weights of terms, [...] in front of their features."""
        popularity = weights.get("popularity") if self._table.num_features else None
        if self._history is None:
            return Additions(popularity)
        items, features = history_features(self._history, history)
        offsets = np.asarray(weights["history"], np.float64) @ features.T
        return Additions(popularity, items, offsets)

    def drawn_for(
        self, history: UserHistory, items: Ints, draws: int, seed: int
    ) -> Doubles | float:
        """Return what those draws add to some items [k]: [J, k], or 0 without any term."""
        if not self._weights:
            return 0.0
        added, total = self.draws(history, draws, seed), np.zeros((draws, len(items)))
        if added.weights is not None:
            total += np.asarray(added.weights) @ self._table.features_of(items).T
        if added.offsets is not None:
            rows, places = np.nonzero(items[:, None] == np.asarray(added.items))
            total[:, rows] += np.asarray(added.offsets)[:, places]
        return total

    def mean_parts(self, history: UserHistory, items: Ints) -> dict[str, Doubles]:
        """Return what each term adds to some items by the posterior mean: [k] each."""
        parts: dict[str, Doubles] = {}
        if "popularity" in self._weights:
            features, mean = self._table.features_of(items), self._weights["popularity"][0]
            parts["popularity"] = (
                features @ mean if features.shape[1] else np.zeros(len(items))
            ).astype(np.float64)
        if self._history is not None:
            features = history_features(self._history, history, items)[1]
            parts["history"] = (features @ self._weights["history"][0]).astype(np.float64)
        return parts


def history_term(terms: FittedTerms) -> HistoryTerm | None:
    """Return the term of a user's history, if there is one."""
    term = terms.by_name.get("history")
    return term if isinstance(term, HistoryTerm) else None


def history_features(
    term: HistoryTerm, history: UserHistory, items: Ints | None = None
) -> tuple[Ints, Floats]:
    """Return items [m] and their features [m, 3] as the model has them, after a history.

    Of the items given, or without any, of all with a feature other than 0.
    """
    items, features = met_features(history, items)
    return items, np.divide(features, np.array(term.sizes), dtype=np.float32)


def popularity_features(
    terms: FittedTerms, state: PopularityState, time: int, num_items: int
) -> Floats:
    """Return the features [I, P] of all items at a time, as the model has them.

    Items that the state does not know are new, and have 0.
    """
    term = terms.by_name.get("popularity")
    if not isinstance(term, PopularityTerm):
        raise SlatewiseError(
            "the model has no popularity to refresh.", "Train it with the term 'popularity'."
        )
    if state.popularity != term.popularity:
        raise SlatewiseError(
            "this popularity is counted otherwise than that of the model.",
            "Make the state with model.terms.by_name['popularity'].popularity.",
        )
    known = state.features(time) / np.array(term.sizes, np.float32)
    features = np.zeros((num_items, known.shape[1]), np.float32)
    features[: len(known)] = known[:num_items]
    return features
