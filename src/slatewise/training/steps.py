"""One step of training on the CPU: only the items of the batch are read, and written."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.model.adam import Adam
from slatewise.model.kernels.rows import RowAdam, unique_rows
from slatewise.model.likelihood import Candidates, Exposure
from slatewise.model.posterior import Posterior
from slatewise.training.memory import keep_freed_memory
from slatewise.training.objective import ItemRows, negative_elbo
from slatewise.training.peers import ALONE, Peers

if TYPE_CHECKING:
    from slatewise.training.config import TrainingConfig

BETAS = (0.9, 0.999)
EPSILON = 1e-10
"""Gradients are per interaction and per item: small numbers, which 1e-8 would drown."""

SCALE_RATE = 3.0
"""Scales of items learn faster than means: they have further to go, and less noise to average."""


@dataclass(frozen=True)
class StepResult:
    """The loss and likelihood of a step, and whether it was taken."""

    loss: float
    log_likelihood: float
    """mean over the batch's interactions, of the choice within the slate"""
    finite: bool
    """whether the step was taken; a step with a loss or gradient that is not finite is not"""


class Result(Protocol):
    """The result of a step; reading it may wait for the device."""

    @property
    def loss(self) -> float:
        """The loss."""

    @property
    def log_likelihood(self) -> float:
        """Mean over the interactions that count, of the choice within the slate."""

    @property
    def finite(self) -> bool:
        """Whether the step was taken."""


class SparseSteps:
    """Takes steps whose cost does not grow with the catalogue."""

    def __init__(
        self,
        posterior: Posterior,
        interactions: Interactions,
        config: "TrainingConfig",
        exposure: Exposure | None,
        *,
        frozen_items: bool = False,
        frozen_users: bool = False,
        peers: Peers = ALONE,
    ) -> None:
        keep_freed_memory()
        self._peers = peers
        self.seeds = peers.seeds
        self.posterior = posterior
        self._interactions = interactions
        self._exposure = exposure
        self._limit = config.gradient_limit
        self._frozen_items = frozen_items
        self.users = torch.nonzero(interactions.train_end > 0).squeeze(1)
        self.total = peers.total(int(interactions.train_end.sum()))
        self.views = peers.sum(training_views(interactions, len(posterior.item_groups)))
        everyone = peers.total(len(self.users))
        steps_per_epoch = math.ceil(everyone / config.batch(everyone, posterior.config.likelihood))
        self._expected = self.views.float()
        if exposure is not None:
            drawn = peers.size * min(posterior.config.negatives, len(self.views))
            self._expected += drawn * steps_per_epoch / len(self.views)
        rate = config.rate
        items = posterior.items
        self._rows = {
            "mean": RowAdam(items.mean, lr=rate, betas=BETAS, eps=EPSILON),
            "raw": RowAdam(items.raw, lr=rate, betas=BETAS, eps=EPSILON),
        }
        frozen = frozen_parameters(posterior, items=frozen_items, users=frozen_users)
        self._shared = {
            f"{name}.{field}": getattr(part, field).requires_grad_()
            for name, part in posterior.shared.items()
            for field in ("mean", "raw")
            if name not in frozen
        }
        self._adam = Adam(self._shared.values(), betas=BETAS, epsilon=EPSILON)
        self._scratch = torch.full((len(posterior.item_groups),), -1, dtype=torch.int32)

    def step(self, users: Tensor, generator: torch.Generator, rate: float) -> StepResult:
        """Update the posterior from the training interactions of some users [B]."""
        batch = self._interactions.of_users(users, self._interactions.train_end[users])
        drawn = self._draw_candidates(generator)
        cells = batch.slate_items if drawn is None else torch.cat([batch.slate_items, drawn])
        rows, local, counts = unique_rows(cells, self._scratch)
        batch = batch.with_items(local[: len(batch.slate_items)])
        candidates = None
        if drawn is not None:
            candidates = Candidates(local[len(batch.slate_items) :].long(), len(self.views))
        items = self.posterior.items.rows(rows).requires_grad_(not self._frozen_items)
        groups = self.posterior.item_groups.index_select(0, rows)
        # Each cell of a row carries its share of the row's divergence, so that an epoch adds up to
        # all of it. A row that no cell is expected of has no share; the floor avoids 0 / 0.
        expected = self._expected.index_select(0, rows).clamp(min=1e-9)
        features = self.posterior.features_of(rows)
        touched = ItemRows(items, groups, counts / expected, features)
        loss, likelihood = negative_elbo(
            self.posterior, touched, batch, self.total, generator, self._exposure, candidates
        )
        self._adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        gradients = [] if self._frozen_items else [_gradient(items.mean), _gradient(items.raw)]
        numbers = torch.stack([loss.detach(), likelihood.slate.mean().detach()])
        if self._peers.size > 1:
            rows, gradients = self._exchange(rows, gradients, numbers, len(batch.clicks))
        mean_loss, mean_likelihood = numbers.tolist()
        finite = self._update(rows, gradients, rate) if math.isfinite(mean_loss) else False
        return StepResult(mean_loss, mean_likelihood, finite)

    def _exchange(
        self, rows: Tensor, gradients: list[Tensor], numbers: Tensor, count: int
    ) -> tuple[Tensor, list[Tensor]]:
        """Average gradients and numbers over all workers, each by its `count` of interactions.

        That is the loss of the whole batch, but that every worker has drawn its own noise.
        """
        shared = [_gradient(one) for one in self._shared.values()]
        own = torch.cat([numbers, *(one.flatten() for one in shared)]) * count
        summed = self._peers.sum(torch.cat([own, own.new_tensor([count])]))
        total = summed[-1].clamp(min=1)
        numbers.copy_(summed[:2] / total)
        done = 2
        for parameter in self._shared.values():
            part = summed[done : done + parameter.numel()]
            parameter.grad = (part / total).view_as(parameter)
            done += parameter.numel()
        if not gradients:
            return rows, []
        weighted = torch.cat(gradients, 1) * (count / total)
        rows, whole = self._peers.exchange_rows(rows, weighted, self._scratch)
        return rows, list(whole.chunk(len(gradients), 1))

    def _draw_candidates(self, generator: torch.Generator) -> Tensor | None:
        if self._exposure is None:
            return None
        catalogue, wanted = len(self.views), self.posterior.config.negatives
        if catalogue <= wanted:
            return torch.arange(catalogue, dtype=torch.int32)
        # A permutation costs the whole catalogue: where that is large, draw and drop duplicates.
        if catalogue <= 8 * wanted:
            return torch.randperm(catalogue, generator=generator)[:wanted].int()
        # A quarter more than wanted: in a catalogue of this size, at most a tenth are duplicates.
        size = (wanted + wanted // 4 + 16,)
        drawn = torch.randint(catalogue, size, generator=generator, dtype=torch.int32)
        # In the order of the draws: the first of the sorted items would favour low numbers.
        distinct = np.unique(drawn.numpy(), return_index=True)[1]
        return drawn[torch.as_tensor(np.sort(distinct))[:wanted]]

    def _update(self, rows: Tensor, gradients: list[Tensor], rate: float) -> bool:
        """Take the step by the gradients of shared parameters and of item rows [R, D]."""
        norm = torch.nn.utils.clip_grad_norm_(self._shared.values(), self._limit, foreach=True)
        # A sum is not finite where one entry is not, and is the cheapest way to see it.
        if not all(math.isfinite(number) for number in (norm, *(g.sum() for g in gradients))):
            return False
        self._adam.step(rate)
        for name, gradient in zip(("mean", "raw"), gradients, strict=False):
            faster = SCALE_RATE if name == "raw" else 1.0
            self._rows[name].step(rows, gradient, faster * rate)
        return True

    def state(self) -> dict[str, Tensor]:
        """Return the state of the optimiser, to be saved."""
        tensors = adam_state(self._adam, self._shared)
        for name, rows in self._rows.items():
            tensors |= {f"rows.{name}.{key}": value for key, value in rows.state().items()}
        return tensors

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for name, parameter in self._shared.items():
            if found := without_prefix(tensors, f"adam.{name}."):
                self._adam.state[parameter] = found
        for name, rows in self._rows.items():
            rows.load_state(without_prefix(tensors, f"rows.{name}."))


def frozen_parameters(posterior: Posterior, *, items: bool, users: bool) -> set[str]:
    """Name the shared parameters that stay: of the prior of items, and of what moves users."""
    return {*(posterior.prior.learned if items else ()), *(posterior.moving if users else ())}


def training_views(interactions: Interactions, num_items: int) -> Tensor:
    """Count how often each item was seen in training: [I]."""
    device = interactions.slate_items.device
    views = torch.zeros(num_items, dtype=torch.int64, device=device)
    for users in torch.split(torch.arange(interactions.num_users, device=device), 1 << 16):
        part = interactions.of_users(users, interactions.train_end[users])
        views += torch.bincount(part.slate_items, minlength=num_items)
    return views


def adam_state(adam: Adam, parameters: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the state of Adam for parameters by name, to be saved."""
    return {
        f"adam.{name}.{key}": torch.as_tensor(value)
        for name, parameter in parameters.items()
        for key, value in adam.state.get(parameter, {}).items()
    }


def without_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """Return the tensors whose name starts with `prefix`, by the rest of their name."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}


def _gradient(parameter: Tensor) -> Tensor:
    """Return the gradient of a parameter, zero where the loss does not depend on it."""
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
