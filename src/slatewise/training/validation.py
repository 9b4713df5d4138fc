"""The likelihood of held-out interactions, one step ahead."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.likelihood import BatchLikelihood, Candidates, Exposure, batch_likelihood
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.profiles import known_profiles
from slatewise.model.steps import ClickSteps
from slatewise.training.peers import ALONE, Peers

_CANDIDATES = 1_000


class Validation:
    """Scores a posterior on the validation interactions, always in the same way."""

    def __init__(
        self,
        interactions: Interactions,
        exposure: Exposure | None,
        num_items: int,
        *,
        draws: int = 0,
        batch_users: int = 4_096,
        seed: int = 0,
        peers: Peers = ALONE,
    ) -> None:
        self._peers = peers
        self._interactions = interactions
        self._exposure = exposure
        self._batch_users = batch_users
        self._draws = draws
        self._seed = seed
        held_out = interactions.valid_end > interactions.train_end
        self.users = torch.nonzero(held_out).squeeze(1)
        self._candidates = None
        if exposure is not None:
            # Drawn once: scores of different epochs differ by the model alone.
            generator = torch.Generator().manual_seed(seed)
            rows = torch.randperm(num_items, generator=generator)[:_CANDIDATES]
            self._candidates = Candidates(rows.to(self.users.device), num_items)

    def score(self, posterior: Posterior) -> float:
        """Return the mean log-likelihood of an interaction.

        Without draws, by the closed form that predictions use (`Posterior.expected`). With draws,
        the probabilities of a choice within the slate are averaged over them, and the
        log-likelihood of its exposure.
        """
        with torch.no_grad():
            parameters = list(self._parameters(posterior))
            total, count = 0.0, 0.0
            for users in torch.split(self.users, self._batch_users):
                batch = self._interactions.of_users(users, self._interactions.valid_end[users])
                scored = held_out(batch)
                found = [self._likelihood(one, batch, scored) for one in parameters]
                slate = torch.stack([one.slate for one in found])  # [J, N]
                averaged = torch.logsumexp(slate, dim=0) - math.log(len(found))
                within = (scored * slate).sum(1)  # [J]
                beyond = torch.stack([one.total for one in found]) - within
                total += float((scored * averaged).sum() + beyond.mean())
                count += float(scored.sum())
        sums = self._peers.sum(torch.tensor([total, count], dtype=torch.float64))
        return float(sums[0] / sums[1])

    def _parameters(self, posterior: Posterior) -> Iterator[Parameters]:
        if not self._draws:
            yield posterior.expected()
            return
        # The same noise every time: scores of different epochs differ by the model alone.
        generator = torch.Generator(self.users.device).manual_seed(self._seed)
        for _ in range(self._draws):
            yield posterior.sample(generator)

    def _likelihood(
        self, parameters: Parameters, batch: Interactions, scored: Tensor
    ) -> BatchLikelihood:
        steps = ClickSteps.of(batch, parameters.evidence)
        profiles = known_profiles(parameters, batch, steps)
        return batch_likelihood(
            parameters,
            profiles,
            steps.state_of,
            batch,
            scored,
            self._exposure,
            self._candidates,
        )


def held_out(batch: Interactions) -> Tensor:
    """Mark with 1 the interactions after each user's training part: [N]."""
    users = torch.repeat_interleave(batch.user_offsets.diff())
    index = torch.arange(len(users), device=users.device) - batch.user_offsets[:-1][users]
    return (index >= batch.train_end[users]).float()
