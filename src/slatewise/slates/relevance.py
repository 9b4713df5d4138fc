"""How relevant the items of a slate are, and how sure that is, at a small price.

Posterior draws are made once and serve everybody: the relevance of two items, or of one item
yesterday and today, differs by what is known and not by chance. Where a user is in each draw can be
kept with her; then a slate of 20 takes 60 µs, where fresh draws for everybody would take 900.

J draws, k items, D dimensions, E events.
"""

from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.features.user_history import UserHistory
from slatewise.slates.exact import ExactRanker
from slatewise.slates.second_stage import SOURCE

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
        self._terms, self._draws = ranker.terms, draws

    def profiles(self, history: UserHistory) -> Floats:
        """Return where a user is, in every draw: [J, D]."""
        moves = history.moves(self._source_index)
        vectors = np.ascontiguousarray(self._vectors(moves.items).transpose(1, 0, 2))
        return self._follow(moves.averages(vectors), moves.kinds)

    def of(self, history: UserHistory, profiles: Floats, items: Ints) -> tuple[Doubles, Doubles]:
        """Return the mean of exp(utility) over draws, and its scale, of items: [k].

        Where terms see slates, of the items as a slate.
        """
        vectors = self._vectors(items)  # [k, J, D]
        utilities = self._relevance.of_arrays(profiles, vectors).astype(np.float64)
        biases = self._bias_noise[items % _SLOTS] * self._table.bias_scales_of(items)[:, None]
        utilities += biases + self._table.biases_of(items)[:, None]
        if self._terms.candidates and len(items):
            in_list = self._terms.in_list(history, items, SOURCE, len(items), made=True)
            assert in_list is not None
            utilities += in_list.draws(np.arange(len(items)), self._draws, _SEED + 3).T
            utilities *= in_list.sharpness
        else:
            utilities += np.asarray(self._added(history, items)).T
        relevance = np.exp(utilities, out=utilities)
        return relevance.mean(axis=1), relevance.std(axis=1)

    def _vectors(self, items: Ints) -> Floats:
        """Return the draws of items [n], each the same wherever it comes up: [n, J, D]."""
        vectors = self._noise[items % _SLOTS]
        vectors *= self._table.scales_of(items)[:, None]
        vectors += self._table.means_of(items)[:, None]
        return vectors
