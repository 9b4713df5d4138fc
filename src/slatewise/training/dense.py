"""One step of training on a GPU: all items in every step, in a few compiled passes.

A GPU writes a whole item table faster than it finds out which rows a batch touches. The objective
is that of the sparse step in expectation: there each view of an item carries its share of the
item's divergence, here every step carries 1 / N of it, for all items that are ever touched.
"""

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.model.dynamics import Recurrent
from slatewise.model.likelihood import Candidates, Exposure
from slatewise.model.padded import PaddedBatch, padded_likelihood, vectors_of
from slatewise.model.parts import refuse_device
from slatewise.model.posterior import Posterior
from slatewise.training.steps import (
    BETAS,
    EPSILON,
    SCALE_RATE,
    StepResult,
    adam_state,
    frozen_parameters,
    training_views,
    without_prefix,
)

if TYPE_CHECKING:
    from slatewise.training.config import TrainingConfig

_CHUNK = 32
"""Interactions in one compiled pass of the dynamics; compiling takes time in proportion."""
_MOST_CELLS = 1 << 30
"""B · T · S beyond which a batch does not fit the memory of a GPU (about 20 bytes each)."""

Noise = dict[str, Tensor]
"""Standard normals: [I, D] for `items`, in its shape for each name in `Posterior.shared`, and
[G, D] for the `prior`'s own draw where it needs one."""


def draw_noise(posterior: Posterior, generator: torch.Generator) -> Noise:
    """Draw the noise of one step."""
    parts = {"items": posterior.items, **posterior.shared}
    noise = {name: part.noise(generator) for name, part in parts.items()}
    if "group_spreads" in parts:
        noise["prior"] = parts["group_spreads"].noise(generator)
    return noise


def draw_parameters(
    posterior: Posterior, noise: Noise, carried: Tensor, total: int
) -> tuple[Tensor, dict[str, Tensor], Tensor]:
    """Return items [I, D] and shared values for given noise, and the divergence over N: []."""
    items = posterior.items.sample(noise["items"])  # [I, D]
    values = {name: part.sample(noise[name]) for name, part in posterior.shared.items()}
    each = posterior.prior.item_kl(posterior.items, posterior.item_groups, noise.get("prior"))
    return items, values, (carried * each).sum() + posterior.shared_kl() / total


def advance(
    dynamics: Recurrent, state: Tensor, clicked: Tensor, is_click: Tensor, weights: Any
) -> tuple[Tensor, Tensor]:
    """Go through some interactions of all users; see `Recurrent.advance`."""
    return dynamics.advance(state, clicked, is_click, weights)


class Passes(NamedTuple):
    """The compiled functions: several small ones, so that long histories compile as fast."""

    pad: Callable[..., PaddedBatch] = PaddedBatch.of
    draw: Callable[..., tuple[Tensor, dict[str, Tensor], Tensor]] = draw_parameters
    vectors_of: Callable[..., Tensor] = vectors_of
    advance: Callable[..., tuple[Tensor, Tensor]] = advance
    likelihood: Callable[..., tuple[Tensor, Tensor]] = padded_likelihood

    @classmethod
    def compiled(cls) -> "Passes":
        """Return the functions compiled for the shapes of their first call."""
        # Whole float32 products are what is wanted: distances in fewer digits go wrong.
        warnings.filterwarnings("ignore", message="TensorFloat32 tensor cores")
        return cls(*(torch.compile(part, dynamic=False) for part in cls()))  # type: ignore[arg-type]


_EAGER = Passes()


def dense_negative_elbo(
    posterior: Posterior,
    batch: PaddedBatch,
    noise: Noise,
    carried: Tensor,
    total: int,
    exposure: Exposure | None = None,
    candidates: Candidates | None = None,
    passes: Passes = _EAGER,
) -> tuple[Tensor, Tensor]:
    """Return −ELBO / N for given noise, and the mean log-likelihood within slates, both [].

    The same as `negative_elbo`, padded. `carried` [I] is how much of each item's divergence
    counts: 1 / N in expectation. The candidates point into all items.
    """
    items, values, divergence = passes.draw(posterior, noise, carried, total)
    parameters = posterior.parameters(items, values)
    clicked = passes.vectors_of(items, batch.clicked_items)  # [B, T, D]
    state = parameters.initial_state.expand(len(clicked), -1)
    dynamics = parameters.parts.dynamics
    assert isinstance(dynamics, Recurrent)  # others are refused: they have no "cuda" device
    chunks = []
    for start in range(0, clicked.shape[1], _CHUNK):
        part = slice(start, start + _CHUNK)
        states, state = passes.advance(
            dynamics, state, clicked[:, part], batch.clicks[:, part] >= 0, parameters.weights
        )
        chunks.append(states)
    profiles = dynamics.output(torch.cat(chunks, dim=1), parameters.weights)  # [B, T, D]
    likelihood, slate = passes.likelihood(
        parameters, profiles, clicked, batch, exposure, candidates
    )
    count = batch.real.sum().clamp(min=1)
    return posterior.config.temperature * divergence - likelihood / count, slate / count


class DenseSteps:
    """Takes steps over all items; interactions and posterior live on the same device."""

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
    ) -> None:
        refuse_device(posterior.trained_parts, "cuda")
        device = interactions.clicks.device
        self.posterior = posterior
        self.users = torch.nonzero(interactions.train_end > 0).squeeze(1)
        self.total = int(interactions.train_end.sum())
        self.views = training_views(interactions, len(posterior.item_groups))
        self._interactions = interactions
        self._limit = config.gradient_limit
        self._passes = Passes.compiled() if compiled else _EAGER
        self._exposure = exposure and replace(
            exposure, source_weights=exposure.source_weights.to(device)
        )
        # Fixed shapes, so that everything is compiled once.
        users = len(self.users)
        self._batch = min(config.batch(users, posterior.config.likelihood), users)
        self._steps = int(interactions.train_end.max())
        if self._steps > _CHUNK:
            self._steps = _CHUNK * math.ceil(self._steps / _CHUNK)
        self._longest = int(interactions.scroll_lengths.max())
        self._refuse_too_large()
        touched = (self.views > 0) if exposure is None else torch.ones_like(self.views)
        self._carried = touched.to(posterior.items.mean.dtype) / self.total
        self._generator = torch.Generator(device)
        parts = {"items": posterior.items, **posterior.shared}
        frozen = frozen_parameters(posterior, items=frozen_items, users=frozen_users)
        frozen |= {"items"} if frozen_items else set()
        self._learned = {
            f"{name}.{field}": getattr(part, field).requires_grad_()
            for name, part in parts.items()
            for field in ("mean", "raw")
            if name not in frozen
        }
        scales = [p for name, p in self._learned.items() if name == "items.raw"]
        others = [p for name, p in self._learned.items() if name != "items.raw"]
        groups = [{"params": others, "faster": 1.0}, {"params": scales, "faster": SCALE_RATE}]
        self._adam = torch.optim.Adam(groups, betas=BETAS, eps=EPSILON, fused=True)

    def step(self, users: Tensor, generator: torch.Generator, rate: float) -> StepResult:
        """Update the posterior from the training interactions of some users [B]."""
        self._generator.manual_seed(int(torch.randint(1 << 62, (), generator=generator)))
        self._adam.zero_grad()
        loss, slate = dense_negative_elbo(
            self.posterior,
            self._padded(users),
            draw_noise(self.posterior, self._generator),
            self._carried,
            self.total,
            self._exposure,
            self._draw_candidates(),
            self._passes,
        )
        loss.backward()  # type: ignore[no-untyped-call]
        loss_value, slate_value, norm = torch.stack([loss.detach(), slate, self._clip()]).tolist()
        finite = math.isfinite(loss_value) and math.isfinite(norm)
        if finite:
            for group in self._adam.param_groups:
                group["lr"] = group["faster"] * rate
            self._adam.step()
        return StepResult(loss_value, slate_value, finite)

    def _padded(self, users: Tensor) -> PaddedBatch:
        """Fill up a smaller last batch with users who have no interactions."""
        row = torch.arange(self._batch, device=users.device)
        filled = users[row % len(users)]
        ends = torch.where(row < len(users), self._interactions.train_end[filled], 0)
        shape = (self._steps, self._longest)
        return self._passes.pad(self._interactions, filled, ends, shape, len(self.views))

    def _draw_candidates(self) -> Candidates | None:
        if self._exposure is None:
            return None
        catalogue, wanted = len(self.views), self.posterior.config.negatives
        device = self._generator.device
        if catalogue <= wanted:
            return Candidates(torch.arange(catalogue, device=device), catalogue)
        order = torch.randperm(catalogue, generator=self._generator, device=device)
        return Candidates(order[:wanted], catalogue)

    def _clip(self) -> Tensor:
        """Limit the gradient of everything but the items; return the norm of all of it."""
        gradients = {name: parameter.grad for name, parameter in self._learned.items()}
        items = [g for name, g in gradients.items() if name.startswith("items.") and g is not None]
        shared = [p for name, p in self._learned.items() if not name.startswith("items.")]
        norm = torch.nn.utils.clip_grad_norm_(shared, self._limit)
        return norm + torch.nn.utils.get_total_norm(items)

    def _refuse_too_large(self) -> None:
        cells = self._batch * self._steps * self._longest
        if cells > _MOST_CELLS:
            raise SlatewiseError(
                f"{self._batch:,} users of up to {self._steps:,} interactions with slates of up to "
                f"{self._longest:,} items are too large a batch for a GPU.",
                f"Set batch_users to {self._batch * _MOST_CELLS // cells:,} or fewer, "
                "or use the CPU (--device cpu).",
            )

    def state(self) -> dict[str, Tensor]:
        """Return the state of the optimiser, to be saved."""
        return adam_state(self._adam, self._learned)

    def load_state(self, tensors: dict[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for name, parameter in self._learned.items():
            if found := without_prefix(tensors, f"adam.{name}."):
                device = parameter.device
                self._adam.state[parameter] = {key: v.to(device) for key, v in found.items()}
