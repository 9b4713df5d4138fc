"""Plain rankings of all items at once, by draws of the whole posterior: what the exact ranker is
compared with."""

from dataclasses import replace

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import offsets_of
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import present_profiles
from slatewise.model.terms import FittedTerms
from slatewise.model.utility import ranking_utilities
from slatewise.slates import Users
from slatewise.slates.interleaving import interleave
from slatewise.slates.term_weights import weights_by_term
from slatewise.slates.terms_in_log import add_met
from slatewise.slates.users import Ints


class DenseRanker:
    """Ranks by the utility as it is defined; users of one call share the draws. No filters."""

    def __init__(
        self,
        posterior: Posterior,
        terms: FittedTerms | None = None,
        popularity: npt.NDArray[np.float32] | None = None,
    ) -> None:
        self._posterior, self._terms, self._popularity = posterior, terms, popularity

    def by_mean(self, users: Users, k: int) -> Ints:
        """Rank by the closed form: [B, k]."""
        return self._best(users, k, self._posterior.expected())

    def by_draws(self, users: Users, k: int, draws: int) -> Ints:
        """Rank by J draws: [B, J, k]."""
        seeded = torch.Generator().manual_seed(users.seeds[0])
        with torch.no_grad():
            drawn = [self._posterior.sample(seeded) for _ in range(draws)]
            return np.stack([self._best(users, k, one, seeded) for one in drawn], axis=1)

    def by_expectation(self, users: Users, k: int, draws: int) -> Ints:
        raise NotImplementedError

    def at_random(self, users: Users, k: int) -> Ints:
        """Take items at random: [B, k]."""
        seeded = torch.Generator().manual_seed(users.seeds[0])
        chance = torch.rand(len(users), len(self._posterior.items.mean), generator=seeded)
        return chance.topk(k, dim=1).indices.numpy()

    def interleave(self, users: Users, rankings: Ints, k: int) -> Ints:
        """Merge rankings [B, J, L] into slates: [B, k]."""
        return interleave(rankings, k)

    def _best(
        self, users: Users, k: int, parameters: Parameters, seeded: torch.Generator | None = None
    ) -> Ints:
        weights = weights_by_term(self._posterior, parameters)
        popular = torch.zeros(())
        if self._popularity is not None:
            popular = torch.from_numpy(self._popularity) @ weights["popularity"]  # [I]
        with torch.no_grad():
            profiles = present_profiles(parameters, interactions_of(users), seeded)
            scores = ranking_utilities(parameters, profiles, popular)
            if self._terms is not None:
                add_met(scores, self._terms.that_rank("items met"), users.histories, weights)
        return scores.topk(k, dim=1).indices.numpy()


def interactions_of(users: Users) -> Interactions:
    """Return clicks, and slates without a click, as interactions."""
    moves = [history.moves(np.arange(256)) for history in users.histories]
    kinds = torch.from_numpy(_joined([user.kinds for user in moves]))  # [N]
    steps = torch.from_numpy(offsets_of(np.array([len(user.kinds) for user in moves])))
    return replace(
        Interactions.of_clicks(kinds, steps),
        sources=kinds.clamp(min=0).byte(),
        clicks=torch.where(kinds < 0, 0, -1).int(),
        slate_offsets=torch.from_numpy(offsets_of(_joined([np.diff(u.offsets) for u in moves]))),
        slate_items=torch.from_numpy(_joined([user.items for user in moves])).int(),
    )


def _joined(parts: list[Ints]) -> Ints:
    return np.concatenate([np.empty(0, np.int64), *parts])
