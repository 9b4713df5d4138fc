"""All parameters of a posterior but the items, side by side in one vector.

They are many and small, and what costs on a GPU is the number of operations.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from slatewise.model.posterior import Posterior
from slatewise.training.item_steps import MOMENTS, AdamStep

_FIELDS = ("mean", "raw")


class SharedParameters:
    """The means and free scales of everything but the items; the posterior has views of them."""

    def __init__(self, posterior: Posterior, frozen: Collection[str]) -> None:
        self._parts = posterior.shared
        self._sigma_max = posterior.config.sigma_max
        self._shapes = [part.mean.shape for part in self._parts.values()]
        self._sizes = [shape.numel() for shape in self._shapes]
        self._leaves = []
        for name in _FIELDS:
            flat = [getattr(part, name).detach().flatten() for part in self._parts.values()]
            self._leaves.append(torch.cat(flat).clone())
        first = self._leaves[0]
        learned = [torch.full((n,), float(name not in frozen)) for name, n in self._named]
        self._learned = torch.cat(learned).to(first)
        self.moments = {
            f"{name}.{kind}": torch.zeros_like(first) for name in _FIELDS for kind in MOMENTS
        }
        self._show(self._leaves)

    @property
    def _named(self) -> list[tuple[str, int]]:
        return list(zip(self._parts, self._sizes, strict=True))

    @property
    def size(self) -> int:
        """How many there are."""
        return sum(self._sizes)

    @contextmanager
    def differentiable(self) -> Iterator[None]:
        """Let the posterior have views through which gradients flow."""
        for leaf in self._leaves:
            leaf.requires_grad_()
        self._show(self._leaves)
        try:
            yield
        finally:
            for leaf in self._leaves:
                leaf.requires_grad_(False)
            self._show([leaf.detach() for leaf in self._leaves])

    def _show(self, flat: list[Tensor]) -> None:
        """Let each part of the posterior be a view of its own numbers."""
        for name, values in zip(_FIELDS, flat, strict=True):
            views = torch.split(values, self._sizes)
            for part, view, shape in zip(self._parts.values(), views, self._shapes, strict=True):
                setattr(part, name, view.view(shape))

    def sample(self, noise: Tensor) -> dict[str, Tensor]:
        """Draw all of them with noise [n], by name."""
        mean, raw = self._leaves
        drawn = mean + self._sigma_max * torch.sigmoid(raw) * noise.to(mean.dtype)
        parts = torch.split(drawn, self._sizes)
        named = zip(self._parts, parts, self._shapes, strict=True)
        return {name: part.view(shape) for name, part, shape in named}

    def gradients(self, limit: float) -> tuple[list[Tensor], Tensor]:
        """Return the gradients, limited in norm and 0 where frozen, and their norm before."""
        empty = torch.zeros_like(self._learned)
        found = [empty if leaf.grad is None else leaf.grad * self._learned for leaf in self._leaves]
        for leaf in self._leaves:
            leaf.grad = None
        norm = torch.linalg.vector_norm(torch.cat(found))
        factor = (limit / (norm + 1e-6)).clamp(max=1.0)
        return [factor * each for each in found], norm

    def update(self, gradients: list[Tensor], adam: AdamStep) -> None:
        """Move all of them, in place."""
        for name, leaf, slope in zip(_FIELDS, self._leaves, gradients, strict=True):
            first, second = (self.moments[f"{name}.{kind}"] for kind in MOMENTS)
            adam.moved(leaf, slope, first, second)
