"""How relevant the items of a slate are, and how sure that is, at a small price.

Posterior draws are made once and serve everybody: the relevance of two items, or of one item
yesterday and today, differs by what is known and not by chance. Where a user is in each draw can be
kept with her; then a slate of 20 takes 30 µs, where fresh draws for everybody would take 900.

J draws, k items, D dimensions, E events.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.features.user_history import UserHistory
from slatewise.ranking.loops.drawn import drawn_relevance
from slatewise.ranking.request import loops_of
from slatewise.slates.exact import ExactRanker
from slatewise.slates.users import Users

Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

DRAWS: Final = 32
"""Posterior draws behind the relevance and uncertainty of the items of a slate."""
_SLOTS: Final = 4_096
"""Items whose rows are so far apart share their random numbers; within a slate that is rare, and
changes neither mean nor scale of any of them."""
_SEED: Final = 0


class Relevance:
    """Draws of everything that a model is uncertain of, the same for all."""

    def __init__(self, ranker: ExactRanker, draws: int = DRAWS) -> None:
        rng = np.random.default_rng(_SEED)
        size = (_SLOTS, draws, ranker.table.dimensions)
        self._relevance = ranker.relevance
        self._table, self._source_index = ranker.table, ranker.dynamics.source_index
        self._noise = rng.standard_normal(size, dtype=np.float32)
        self._bias_noise = rng.standard_normal(size[:2], dtype=np.float32)
        self._follow = ranker.dynamics.drawn_once(draws, _SEED + 1)
        self._added = ranker.terms.drawn_once(draws, _SEED + 2)
        self._terms, self._source_of, self._draws = ranker.terms, ranker.source_of, draws

    def profiles(self, history: UserHistory) -> Floats:
        """Return where a user is, in every draw: [J, D]."""
        moves = history.moves(self._source_index)
        vectors = np.ascontiguousarray(self._vectors(moves.items).transpose(1, 0, 2))
        return self._follow(moves.averages(vectors), moves.kinds)

    def of(self, user: Users, profiles: Floats, items: Ints) -> tuple[Doubles, Doubles]:
        """Return the mean of exp(utility) over draws, and its scale, of items for one user: [k].

        Where terms see slates, of the items as a slate.
        """
        added, sharpness = self._by_terms(user, items)
        if isinstance(self._relevance.ranking, str):
            mean, scale = np.empty(len(items)), np.empty(len(items))
            own = self._noise, self._bias_noise, profiles, np.ascontiguousarray(added), sharpness
            loops, columns = loops_of(self._relevance.ranking), self._table.snapshot()[1]
            drawn_relevance(loops, columns, self._table.checked(items), *own, mean, scale)
            return mean, scale
        utilities = self._relevance.of_arrays(profiles, self._vectors(items)).astype(np.float64)
        biases = self._bias_noise[items % _SLOTS] * self._table.bias_scales_of(items)[:, None]
        utilities += biases + self._table.biases_of(items)[:, None]
        if added.size:
            utilities += added.T
        relevance = np.exp(sharpness * utilities)
        return relevance.mean(axis=1), relevance.std(axis=1)

    def _by_terms(self, user: Users, items: Ints) -> tuple[Doubles, float]:
        """Return what terms add in every draw, [J, k] or nothing, and what all is multiplied by."""
        if self._terms.candidates and len(items):
            asked = user.histories[0], items, self._source_of(user), len(items)
            in_list = self._terms.in_list(*asked, time=user.time, made=True)
            assert in_list is not None
            added = in_list.draws(np.arange(len(items)), self._draws, _SEED + 3)
            return added, in_list.sharpness
        return self._added(user.histories[0], items), 1.0

    def _vectors(self, items: Ints) -> Floats:
        """Return the draws of items [n], each the same wherever it comes up: [n, J, D]."""
        vectors = self._noise[items % _SLOTS]
        vectors *= self._table.scales_of(items)[:, None]
        vectors += self._table.means_of(items)[:, None]
        return vectors
