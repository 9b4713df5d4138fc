"""The second stage: what a ranking of all items finds, ranked once more with the slate in view.

Terms that see whole slates cannot rank millions of items. They rank some hundred candidates, each
beside the slate that is being made: at first the best by the ranking of all items, then the best by
what these terms say beside those. A candidate outside it is seen in place of its last item.

Shapes: K candidates, k items of the slate, J draws, D dimensions.
"""

from typing import TYPE_CHECKING

import numpy as np
import torch

from slatewise.model.gaussian import keyed_noise
from slatewise.model.relevance import Relevance
from slatewise.ranking import ItemTable
from slatewise.slates.additions import Doubles, TermsInList
from slatewise.slates.users import Ints

if TYPE_CHECKING:
    from slatewise.slates.exact import Profiles


class SecondStage:
    """Candidates for the slate of one user, as terms see them that see whole slates."""

    def __init__(self, terms: TermsInList, items: Ints, own: Doubles, length: int) -> None:
        self._terms = terms
        self.items = items
        """[K] the candidates, the best of the ranking of all items first"""
        shown = np.arange(min(length, len(items)))
        utilities = own + _total(terms, shown)
        self.shown: Ints = np.argsort(-utilities, kind="stable")[: len(shown)]
        """[k] the slate that candidates are seen beside, as indices"""
        self.mean: Doubles = terms.sharpness * (own + _total(terms, self.shown))
        """[K] utilities at the posterior mean, of which relevance and bias are `own` [K]"""

    def draws(
        self, drawn: "Profiles", table: ItemTable, relevance: Relevance, seed: int
    ) -> Doubles:
        """Return utilities in J draws of everything that is uncertain, the user's given: [J, K].

        The noise of an item depends on seed, draw and item alone.
        """
        items, count, columns = self.items, len(drawn.profiles), table.dimensions + 1
        drawn_noise = keyed_noise((seed, 7), torch.from_numpy(items), count * columns)
        noise = (
            drawn_noise.numpy().reshape(len(items), count, -1).transpose(1, 0, 2)
        )  # [J, K, D + 1]
        vectors = table.means_of(items) + table.scales_of(items) * noise[..., :-1]
        # A clicked item has one vector in a draw: that which moved the user is also ranked.
        moved, at = np.intersect1d(items, drawn.items, return_indices=True)[1:]
        vectors[:, moved] = drawn.vectors[:, at]
        utilities = relevance.of_arrays(drawn.profiles[:, None], vectors).astype(np.float64)
        utilities += table.biases_of(items) + table.bias_scales_of(items) * noise[..., -1]
        return self._terms.sharpness * (utilities + self._terms.draws(self.shown, count, seed))

    def ranked(self, utilities: Doubles) -> Ints:
        """Return the candidates in the order of utilities [..., K], best first: [..., K]."""
        return self.items[np.argsort(-utilities, axis=-1, kind="stable")]


def _total(terms: TermsInList, shown: Ints) -> Doubles:
    return np.asarray(np.sum(list(terms.mean_parts(shown).values()), axis=0))
