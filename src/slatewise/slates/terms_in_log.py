"""The terms of a model at any moment of a log: what serving would have added then.

Shapes: C users at times of their own, I items, K candidates for a slate, P features.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.features.popularity import SECOND
from slatewise.features.user_history import UserHistory
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.model.terms.term import ListMoment, Lookup
from slatewise.slates.additions import (
    Floats,
    TermsInList,
    TermWeights,
    add_met,
    ranking_terms,
    weights_by_term,
)
from slatewise.slates.second_stage import SOURCE
from slatewise.slates.users import Ints


class TermsInLog:
    """The terms of a model that rank all items, or the best of them again beside their slate.

    Only what came before a moment counts, of the user and of everybody.
    """

    def __init__(self, posterior: Posterior, terms: FittedTerms, log: SlateDataset | None) -> None:
        self._posterior = posterior
        of_all, self._of_met = ranking_terms(posterior, terms)
        self._lookups = {
            name: (term.at_times(log), max(1, round(term.refresh * SECOND)))
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

    def added(
        self, parameters: Parameters, times: Tensor, histories: Sequence[UserHistory]
    ) -> Tensor | float:
        """Return what is added to all items for users at times [C], after histories [C]: [C, I].

        0 for a model without such terms; histories may be left out if nothing asks for them.
        """
        if not (self._lookups or self._of_met):
            return 0.0
        weights = weights_by_term(self._posterior, parameters)
        every = np.arange(len(parameters.items))
        total = torch.zeros(len(times), len(every))
        for name, (lookup, tick) in self._lookups.items():
            # Between two ticks the features of an item stay as they are.
            ticks, rows = torch.unique(times // tick, return_inverse=True)
            for number, moment in enumerate((ticks * tick).tolist()):
                features = torch.from_numpy(lookup(every, np.full(len(every), moment)))
                total[rows == number] += features @ weights[name]
        add_met(total, self._of_met, histories, weights)
        return total

    def in_list(self, history: UserHistory, items: Ints, time: int, length: int) -> TermsInList:
        """Return what terms add to candidates [K] for the slate of a user at a time."""
        moments = np.full(len(items), time)

        def known(lookup: Lookup) -> ListMoment:
            return ListMoment(time, lambda some: lookup(some, np.full(len(some), time)))

        seeing = {
            name: term.in_list(history, items, SOURCE, known(lookup), length)
            for name, (term, lookup) in self._in_lists.items()
        }
        others: dict[str, Floats] = {
            name: lookup(items, moments) for name, (lookup, _) in self._lookups.items()
        }
        others |= {name: term.met(history, items)[1] for name, term in self._of_met.items()}
        return TermsInList(seeing, others, self._weights)
