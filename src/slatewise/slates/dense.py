"""Ranking for many users at once by matrix products, for catalogues whose scores fit in memory."""

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.features.popularity import SECOND
from slatewise.model.fitted import SlateModel
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import present_profiles
from slatewise.model.terms import FittedTerms
from slatewise.model.utility import ranking_utilities
from slatewise.ranking import Filter
from slatewise.slates.additions import (
    add_met,
    feature_columns,
    ranking_terms,
    weights_by_term,
)
from slatewise.slates.interleaving import interleave
from slatewise.slates.users import Ints, Users

Score = Callable[[slice], Tensor]
"""Computes scores [C, I] of all items for some of the users."""

_CELLS = 1 << 24
"""Scores of users x items held at once."""


class DenseRanker:
    """A `Ranker` for experiments, on the device of the posterior.

    Users of one call share the draws of the posterior: each slate has its right distribution, but
    slates of one call are not independent of each other. The expectation is an average over draws
    of users and items alike. Group caps are not supported.
    """

    def __init__(
        self,
        posterior: Posterior,
        terms: FittedTerms | None = None,
        features: npt.NDArray[np.float32] | None = None,
    ) -> None:
        """Take a posterior, its terms, and the `feature_columns` of those that rank all items."""
        self._posterior = posterior
        self._of_all, self._of_met = ranking_terms(posterior, terms or FittedTerms())
        if self._of_all and features is None:
            raise SlatewiseError(
                f"the model ranks by {', '.join(self._of_all)}, of which nothing is known here.",
                "Give the ranker the features of all items, or train without.",
            )
        device = posterior.items.mean.device
        self._features = None if features is None else torch.from_numpy(features).to(device)

    @classmethod
    def after(cls, model: SlateModel, log: SlateDataset) -> "DenseRanker":
        """Rank by a model right after everything in a log of its items."""
        terms = model.terms.that_rank("all items")
        if not terms:
            return cls(model.posterior, model.terms)
        states = {name: term.state_after(log) for name, term in terms.items()}
        time = int(log.times.max()) + round(max(t.refresh for t in terms.values()) * SECOND)
        features = {name: state.features(time) for name, state in states.items()}
        columns = feature_columns(terms, features, len(model.item_ids))
        return cls(model.posterior, model.terms, columns)

    def by_mean(self, users: Users, k: int) -> Ints:
        """Rank by relevance at the posterior mean: [B, k]."""
        with torch.no_grad():
            parameters = self._posterior.mean()
            profiles = self._profiles(users, parameters)
            return self._best(users, k, self._utility(users, parameters, profiles))

    def by_draws(self, users: Users, k: int, draws: int) -> Ints:
        """Rank by relevance in J posterior draws each: [B, J, k]."""
        seeded = self._seeded(users)
        rankings = [self._best(users, k, self._draw(users, seeded)) for _ in range(draws)]
        return np.stack(rankings, axis=1)

    def by_expectation(self, users: Users, k: int, draws: int) -> Ints:
        """Rank by relevance averaged over posterior draws: [B, k]."""
        seeded = self._seeded(users)
        drawn = [self._draw(users, seeded) for _ in range(draws)]

        def relevance(rows: slice) -> Tensor:
            total = torch.zeros(())
            for utility in drawn:
                total = total + torch.exp(utility(rows))
            return total

        return self._best(users, k, relevance)

    def at_random(self, users: Users, k: int) -> Ints:
        """Take items uniformly from all that may be shown: [B, k]."""
        seeded = self._seeded(users)
        device, num_items = self._posterior.items.mean.device, len(self._posterior.items.mean)

        def chance(rows: slice) -> Tensor:
            shape = (len(users.histories[rows]), num_items)
            return torch.rand(shape, generator=seeded, device=device)

        return self._best(users, k, chance)

    def interleave(self, users: Users, rankings: Ints, k: int) -> Ints:
        """Merge rankings [B, J, L] into slates: [B, k]."""
        return interleave(rankings, k)

    def _seeded(self, users: Users) -> torch.Generator:
        words = np.random.SeedSequence([0, *users.seeds]).generate_state(1, np.uint64)
        device = self._posterior.items.mean.device
        return torch.Generator(device).manual_seed(int(words[0] >> np.uint64(1)))

    def _draw(self, users: Users, seeded: torch.Generator) -> Score:
        """Draw everything and, with it, where users are; return the utilities in that draw."""
        with torch.no_grad():
            parameters = self._posterior.sample(seeded)
            profiles = self._profiles(users, parameters, seeded)
            return self._utility(users, parameters, profiles)

    def _utility(self, users: Users, parameters: Parameters, profiles: Tensor) -> Score:
        """Return what computes the utilities [C, I] of all items to some of the users."""
        weights = weights_by_term(self._posterior, parameters)
        of_all = torch.zeros(())
        if self._features is not None:
            of_all = self._features @ torch.cat([weights[name] for name in self._of_all])  # [I]

        def utility(rows: slice) -> Tensor:
            scores = ranking_utilities(parameters, profiles[rows], of_all)
            add_met(scores, self._of_met, users.histories[rows], weights)
            return scores

        return utility

    def _profiles(
        self, users: Users, parameters: Parameters, seeded: torch.Generator | None = None
    ) -> Tensor:
        batch = users.interactions().to(parameters.items.device)
        return present_profiles(parameters, batch, seeded)

    def _best(self, users: Users, k: int, score: Score) -> Ints:
        """Return the k items of greatest score that may be shown, users in chunks: [B, k]."""
        num_items = len(self._posterior.items.mean)
        slates = np.full((len(users), k), -1, dtype=np.int64)
        step = max(1, _CELLS // num_items)
        for start in range(0, len(users), step):
            rows = slice(start, start + step)
            scores = score(rows)  # [C, I]
            _hide(scores, users.filters[rows])
            best = scores.topk(min(k, num_items), dim=1)
            shown = torch.where(best.values > -torch.inf, best.indices, -1)
            slates[rows, : shown.shape[1]] = shown.cpu().numpy()
        return slates


def _hide(scores: Tensor, filters: Sequence[Filter]) -> None:
    """Give what may not be shown a score of −∞, in place: scores [C, I]."""
    for row, wanted in enumerate(filters):
        if wanted.caps is not None:
            raise SlatewiseError("a dense ranking knows no group caps.", "Use a Recommender.")
        if wanted.allow is not None:
            hidden = torch.ones(scores.shape[1], dtype=torch.bool, device=scores.device)
            hidden[torch.as_tensor(wanted.allow)] = False
            scores[row, hidden] = -torch.inf
        excluded = np.asarray(wanted.exclude, dtype=np.int64)
        if len(excluded):
            scores[row, torch.from_numpy(excluded)] = -torch.inf
