"""One step of training on a GPU: all items in every step, recorded once and replayed.

A GPU writes a whole item table faster than it finds out which rows a batch touches. The objective
is that of the sparse step in expectation: there each view of an item carries its share of the
item's divergence, here every step carries 1 / N of it, for all items that are ever touched.

Nothing in a step waits for the host: which users, which noise and how fast are written into places
that the recorded step reads, and what came out is read on request.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model.likelihood import Candidates, Exposure
from slatewise.model.noise import KeyedNoise
from slatewise.model.parts import refuse_device
from slatewise.model.posterior import Posterior
from slatewise.model.resident import ResidentBatch, Room
from slatewise.model.resident_likelihood import has_kernels, likelihood_in_place, moving_in_place
from slatewise.training.item_steps import AdamStep, FusedItems, ItemSteps, PlainItems
from slatewise.training.peers import ALONE, Peers
from slatewise.training.shared import SharedParameters
from slatewise.training.steps import BETAS, frozen_parameters, training_views, without_prefix

if TYPE_CHECKING:
    from slatewise.training.config import TrainingConfig

_MOST_NUMBERS = 1 << 32
"""Numbers of all states of a batch beyond which it does not fit a GPU: some 20 bytes each."""
_WARM_UP = 2
"""Steps that are run and not taken before one is recorded: kernels compile, libraries wake up."""


class DeviceResult:
    """The result of a step, on its device until it is asked for."""

    def __init__(self, values: Tensor) -> None:
        self._values = values

    @property
    def loss(self) -> float:
        """The loss."""
        return float(self._values[0])

    @property
    def log_likelihood(self) -> float:
        """Mean over the interactions that count, of the choice within the slate."""
        return float(self._values[1])

    @property
    def finite(self) -> bool:
        """Whether the step was taken."""
        return bool(self._values[2])


class DenseSteps:
    """Takes steps over all items; interactions and posterior live on the same device.

    Several workers draw the same noise, so that what they exchange is the gradient of one batch.
    """

    seeds: tuple[int, ...] = ()

    def __init__(
        self,
        posterior: Posterior,
        interactions: Interactions,
        config: "TrainingConfig",
        exposure: Exposure | None,
        *,
        frozen_items: bool = False,
        frozen_users: bool = False,
        compiled: bool = True,
        peers: Peers = ALONE,
    ) -> None:
        refuse_device(posterior.trained_parts, "cuda")
        device = interactions.clicks.device
        self.posterior, self._peers = posterior, peers
        self.users = torch.nonzero(interactions.train_end > 0).squeeze(1)
        _refuse_no_users(self.users, peers)
        self.total = peers.total(int(interactions.train_end.sum()))
        self.views = peers.sum(training_views(interactions, len(posterior.item_groups)))
        self._log, self._limit = interactions, config.gradient_limit
        self._exposure = exposure and replace(
            exposure, source_weights=exposure.source_weights.to(device)
        )
        own, everyone = len(self.users), peers.total(len(self.users))
        batch_users = config.batch(everyone, posterior.config.likelihood)
        self._batch = peers.largest_batch(own, everyone, batch_users)
        evidence = posterior.mean().evidence
        self._room = Room.of(interactions, self.users, self._batch, evidence)
        self._longest = int(interactions.train_end.max())
        self._refuse_too_large()
        dtype = posterior.items.mean.dtype
        touched = (self.views > 0) if exposure is None else torch.ones_like(self.views)
        self._carried = touched.to(dtype) / self.total
        self._fused = compiled and has_kernels(posterior.mean(), exposure)
        self.items: ItemSteps = (
            FusedItems(posterior, self._carried, self.views, frozen=frozen_items)
            if self._fused
            else PlainItems(posterior, self._carried, frozen=frozen_items)
        )
        frozen = frozen_parameters(posterior, items=frozen_items, users=frozen_users)
        self.shared = SharedParameters(posterior, frozen)
        # What a recorded step reads and writes.
        self._users = self.users[: self._batch].clone()
        self._ends = torch.zeros_like(interactions.train_end[self._users])
        self._key = torch.zeros(1, dtype=torch.int64, device=device)
        self._rate = torch.zeros((), device=device)
        self._live = torch.ones((), device=device)
        self._taken = torch.zeros((), dtype=torch.float64, device=device)
        self._results = torch.zeros(3, dtype=torch.float64, device=device)
        exchanges = peers.size == 1 or peers.on_gpus  # in a recorded step
        self._records = self._fused and device.type == "cuda" and exchanges
        self._graph: torch.cuda.CUDAGraph | None = None

    def step(self, users: Tensor, generator: torch.Generator, rate: float) -> DeviceResult:
        """Update the posterior from the training interactions of some users [B]."""
        count = len(users)
        self._users[:count] = users  # a smaller last batch is filled up with users of no
        self._ends.zero_()  # interactions
        self._ends[:count] = self._log.train_end.index_select(0, users)
        self._key.fill_(int(torch.randint(1 << 62, (), generator=generator)))
        self._rate.fill_(rate)
        if not self._records:
            self._run()
        else:
            if self._graph is None:
                self._graph = self._recorded()
            self._graph.replay()
        return DeviceResult(self._results.clone())

    def _recorded(self) -> torch.cuda.CUDAGraph:
        """Record a step, after a few that are not taken."""
        self._live.zero_()
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(_WARM_UP):
                self._run()
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._run()
        self._live.fill_(1)
        return graph

    def _run(self) -> None:
        """Take the step that has been set out."""
        with self.shared.differentiable():
            loss, slate = self.negative_elbo(self._users, self._ends, self._key)
            loss.backward()  # type: ignore[no-untyped-call]
        average = self._peers.averaging(self._ends.sum())
        gradients, norm = self.shared.gradients(self._limit, average)
        if self._peers.size > 1:
            for gradient in self.items.gradients:
                gradient.copy_(average(gradient))
        numbers = average(torch.stack([loss.detach().double(), slate.detach().double()]))
        checked = [numbers[0], norm, *(gradient.sum() for gradient in self.items.gradients)]
        finite = torch.stack([each.double() for each in checked]).isfinite().all()
        taken = self._live * finite
        self._taken += taken
        adam = AdamStep(
            taken,
            self._rate,
            1 - BETAS[0] ** self._taken.clamp(min=1),
            (1 - BETAS[1] ** self._taken.clamp(min=1)).sqrt(),
        )
        self.items.update(self._key, adam)
        with torch.no_grad():
            self.shared.update(gradients, adam)
        self._results.copy_(torch.cat([numbers, finite.double()[None]]))

    def negative_elbo(self, users: Tensor, ends: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Return −ELBO / N with the noise of a key, and the mean log-likelihood within slates.

        The same as `objective.negative_elbo`, of the first `ends` [B] interactions of users [B],
        where they lie. Gradients of items may have gone to `items.gradient`.
        """
        posterior, parts = self.posterior, self.posterior.parts
        noise = KeyedNoise(key, 1 + posterior.items.mean.numel())
        drawn = self.items.draw(key)
        values = self.shared.sample(noise.normals((self.shared.size,)))
        parameters = posterior.parameters(drawn.vectors, values)
        batch = ResidentBatch.of(self._log, users, ends, self._room, parameters.evidence)
        moving = moving_in_place(parameters, batch, self.items.gradient, kernels=self._fused)
        start = parts.initial_state.in_place_start(batch, moving, parameters.initial_state, noise)
        profiles = parts.dynamics.in_place_profiles(
            batch, moving, start.states, parameters.weights, parameters.evidence, self._longest
        )
        likelihood = likelihood_in_place(
            parameters,
            profiles,
            batch,
            start.weights,
            self._exposure,
            self._candidates(noise),
            self.items.gradient,
            kernels=self._fused,
        )
        shape, normals = posterior.prior.noise_shape, None
        if shape is not None:
            normals = noise.normals(shape).to(drawn.squares.dtype)
        divergence = posterior.other_kl() / self.total + posterior.prior.drawn_kl(drawn, normals)
        if not isinstance(start.divergence, float):
            divergence = divergence + start.divergence / batch.real.sum().clamp(min=1)
        temperature = posterior.config.temperature
        loss = likelihood.loss + temperature * divergence
        return loss + self.shared.divergence(temperature / self.total), likelihood.slate

    def _candidates(self, noise: KeyedNoise) -> Candidates | None:
        if self._exposure is None:
            return None
        catalogue, wanted = len(self.views), self.posterior.config.negatives
        if catalogue <= wanted:
            return Candidates(torch.arange(catalogue, device=self.views.device), catalogue)
        return Candidates(noise.distinct(wanted, catalogue), catalogue)

    def _refuse_too_large(self) -> None:
        size, most = self.posterior.parts.dynamics.state_size, self._room.interactions
        numbers = (most + self._batch) * size
        if numbers > _MOST_NUMBERS:
            raise SlatewiseError(
                f"{self._batch:,} users with up to {most:,} interactions, of {size:,} "
                "dimensions each, are too large a batch for a GPU.",
                f"Set batch_users to {max(1, self._batch * _MOST_NUMBERS // numbers):,} or fewer, "
                "or use the CPU (--device cpu).",
            )

    def state(self) -> dict[str, Tensor]:
        """Return the state of the optimiser, to be saved."""
        named = {"items": self.items.moments, "shared": self.shared.moments}
        tensors = {f"{part}.{k}": t for part, own in named.items() for k, t in own.items()}
        return {**tensors, "step": self._taken}

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        if "step" not in tensors:
            raise SlatewiseError(
                "this checkpoint of a run on a GPU was written by an earlier release.",
                "Start another run.",
            )
        self._taken.copy_(tensors["step"])
        for part, own in (("items", self.items.moments), ("shared", self.shared.moments)):
            found = without_prefix(tensors, f"{part}.")
            for name, tensor in own.items():
                tensor.copy_(found[name])


def _refuse_no_users(users: Tensor, peers: Peers) -> None:
    if peers.size > 1 and not len(users):
        raise SlatewiseError(
            f"a worker has no user with training interactions: there are {peers.size} workers.",
            "Use fewer workers.",
        )
