"""The terms of a model at any moment of a log: what serving would have added then.

Shapes: C users at times of their own, T ticks among these, I items, K candidates for a slate, P
features of a term.
"""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.features.popularity import SECOND
from slatewise.features.user_history import UserHistory
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.known import ListMoment
from slatewise.model.terms.term import FeatureTerm, Lookup
from slatewise.slates.additions import (
    Floats,
    TermsInList,
    ranking_terms,
)
from slatewise.slates.term_weights import TermWeights, weights_by_term
from slatewise.slates.users import Ints

_KEPT: Final = 1 << 26
"""Numbers that are kept of each term: of 1.3 million items 51 ticks."""


class TermsInLog:
    """The terms of a model that rank all items, or the best of them again beside their slate.

    Only what came before a moment counts, of the user and of everybody.
    """

    def __init__(self, posterior: Posterior, terms: FittedTerms, log: SlateDataset | None) -> None:
        self._posterior = posterior
        of_all, self._of_met = ranking_terms(posterior, terms)
        self._lookups = {
            name: _TickSums(term.at_times(log), max(1, round(term.refresh * SECOND)))
            for name, term in of_all.items()
        }
        in_lists = {name: term for name, term in terms.by_name.items() if term.in_lists}
        self.candidates = max((term.candidates for term in in_lists.values()), default=0)
        """How many items are ranked again by terms that see slates; 0 for none."""
        self._in_lists = {
            name: (term, term.at_times(log)) for name, term in in_lists.items() if self.candidates
        }
        acting = (*of_all, *self._of_met, *self._in_lists)
        self._weights = TermWeights.in_made_slates(posterior, acting)

    @property
    def need_histories(self) -> bool:
        """Whether they ask what a user met to rank all items."""
        return bool(self._of_met)

    @property
    def rank(self) -> bool:
        """Whether they have a part in a ranking of all items, or of the best again."""
        return bool(self._lookups or self._of_met or self.candidates)

    def added(
        self,
        parameters: Parameters,
        times: Tensor,
        histories: Sequence[UserHistory],
        device: torch.device | str = "cpu",
    ) -> Tensor | float:
        """Return what is added to all items for users at times [C], after histories [C]: [C, I].

        0 for a model without such terms; histories may be left out if nothing asks for them. Only
        what differs between users is put together on the device: give many users of one tick.
        """
        if not (self._lookups or self._of_met):
            return 0.0
        weights = weights_by_term(self._posterior, parameters)
        total = torch.zeros(len(times), len(parameters.items), device=device)
        for name, sums in self._lookups.items():
            of_ticks, rows = sums.at(times, weights[name], len(parameters.items))
            total += of_ticks.to(device).index_select(0, rows.to(device))
        add_met(total, self._of_met, histories, weights)
        return total

    def in_list(
        self, history: UserHistory, items: Ints, source: int, time: int, length: int
    ) -> TermsInList:
        """Return what terms add to candidates [K] for the slate of a user at a time."""
        moments = np.full(len(items), time)

        def known(lookup: Lookup) -> ListMoment:
            return ListMoment(time, lambda some: lookup(some, np.full(len(some), time)))

        seeing = {
            name: term.in_list(history, items, source, known(lookup), length)
            for name, (term, lookup) in self._in_lists.items()
        }
        others: dict[str, Floats] = {
            name: sums.lookup(items, moments)
            for name, sums in self._lookups.items()
            if self._weights.means[name].any()  # those of the first stage say nothing here
        }
        others |= {name: term.met(history, items)[1] for name, term in self._of_met.items()}
        return TermsInList(seeing, others, self._weights)


def add_met(
    scores: Tensor,
    terms: Mapping[str, FeatureTerm],
    histories: Sequence[UserHistory],
    weights: Mapping[str, Tensor],
) -> None:
    """Add to scores [C, I], in place, what terms add to the items that each user met."""
    for name, term in terms.items():
        met = [term.met(history) for history in histories]
        if not met:
            continue
        rows = np.repeat(np.arange(len(met)), [len(items) for items, _ in met])
        items, features = (np.concatenate(part) for part in zip(*met, strict=True))
        values = torch.from_numpy(features) @ weights[name]
        where = [torch.from_numpy(part).to(scores.device) for part in (rows, items)]
        scores[where[0], where[1]] += values.to(scores)


class _TickSums:
    """Σ w_p x_p of one term for all items, tick by tick; those of some ticks are kept."""

    def __init__(self, lookup: Lookup, tick: int) -> None:
        self.lookup = lookup
        self._tick = tick
        """microseconds for which the features of an item stay as they are"""
        self._weights = torch.empty(0)
        self._kept: dict[int, Tensor] = {}

    def at(self, times: Tensor, weights: Tensor, num_items: int) -> tuple[Tensor, Tensor]:
        """Return the sums of the ticks of times [C] by weights [P]: [T, I], and the ticks' rows."""
        if not torch.equal(weights, self._weights):
            self._kept, self._weights = {}, weights
        ticks, rows = torch.unique(times // self._tick, return_inverse=True)
        return torch.stack([self._of(tick, num_items) for tick in ticks.tolist()]), rows

    def _of(self, tick: int, num_items: int) -> Tensor:
        if tick not in self._kept:
            if len(self._kept) >= max(1, _KEPT // num_items):
                # Every batch goes through the ticks from the first on, and finds these again.
                self._kept.popitem()
            moments = np.full(num_items, tick * self._tick)
            features = torch.from_numpy(self.lookup(np.arange(num_items), moments))
            self._kept[tick] = features @ self._weights
        return self._kept[tick]
