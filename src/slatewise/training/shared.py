"""All parameters of a posterior but the items, side by side in one vector.

They are many and small, and what costs on a GPU is the number of operations: so they are drawn,
held to their prior and moved together, and autograd sees only the draw, and what parts know of
their own.

Shapes: n parameters.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from slatewise.model.posterior import Posterior
from slatewise.training.item_steps import MOMENTS, AdamStep


class SharedParameters:
    """The means and free scales of everything but the items; the posterior has views of them."""

    def __init__(self, posterior: Posterior, frozen: Collection[str]) -> None:
        self._parts = posterior.shared
        self._sigma_max = posterior.config.sigma_max
        self._sizes = [part.mean.numel() for part in self._parts.values()]
        self._flat = torch.stack(
            [
                torch.cat([getattr(part, name).detach().flatten() for part in self._parts.values()])
                for name in ("mean", "raw")
            ]
        )  # [2, n]
        first = self._flat[0]
        learned = [
            torch.full((size,), float(name not in frozen))
            for name, size in zip(self._parts, self._sizes, strict=True)
        ]
        self._learned = torch.cat(learned).to(first)
        known = posterior.prior_scales
        scales = [
            torch.as_tensor(known.get(name, torch.inf)).to(first).expand(part.mean.shape).flatten()
            for name, part in self._parts.items()
        ]
        # 0 where a part has the divergence itself.
        self._precision = torch.cat(scales).square().reciprocal()  # [n]
        self._counted = (self._precision > 0).to(first)
        self._own = {*posterior.prior.learned, *(self._parts.keys() - known.keys())}
        self.moments = {kind: torch.zeros_like(self._flat) for kind in MOMENTS}
        self._values = self._noise = first
        self._leaves: dict[str, tuple[Tensor, Tensor]] = {}
        self._pull = 0.0
        self._show()

    @property
    def size(self) -> int:
        """How many there are."""
        return sum(self._sizes)

    def _views(self) -> Iterator[tuple[str, Tensor, Tensor]]:
        """Yield the means and free scales of each part, in its shape."""
        views = zip(*(torch.split(each, self._sizes) for each in self._flat), strict=True)
        for (name, part), (mean, raw) in zip(self._parts.items(), views, strict=True):
            yield name, mean.view(part.mean.shape), raw.view(part.mean.shape)

    def _show(self) -> None:
        """Make each part of the posterior a view of its own numbers."""
        for name, mean, raw in self._views():
            self._parts[name].mean, self._parts[name].raw = mean, raw

    @contextmanager
    def differentiable(self) -> Iterator[None]:
        """Give parts that know their own divergence views through which gradients flow."""
        self._leaves = {}
        for name, mean, raw in self._views():
            if name in self._own:
                part = self._parts[name]
                part.mean, part.raw = mean.requires_grad_(), raw.requires_grad_()
                self._leaves[name] = part.mean, part.raw
        try:
            yield
        finally:
            self._show()

    def sample(self, noise: Tensor) -> dict[str, Tensor]:
        """Draw all of them with noise [n], by name."""
        mean, raw = self._flat
        self._noise = noise.to(mean.dtype)
        drawn = torch.addcmul(mean, torch.sigmoid(raw), self._noise, value=self._sigma_max)
        self._values = drawn.requires_grad_()
        parts = torch.split(drawn, self._sizes)
        named = zip(self._parts.items(), parts, strict=True)
        return {name: values.view(part.mean.shape) for (name, part), values in named}

    def divergence(self, factor: float) -> Tensor:
        """Return `factor` · KL from the priors N(0, σ²): [], whose gradient `gradients` adds."""
        self._pull = factor
        mean, raw = self._flat
        ratio = (self._sigma_max * torch.sigmoid(raw)).square() * self._precision
        logs = torch.log(ratio + (1 - self._counted))
        each: Tensor = ratio + mean.square() * self._precision - self._counted - logs
        return 0.5 * factor * each.sum()

    def gradients(
        self, limit: float, average: Callable[[Tensor], Tensor] = lambda found: found
    ) -> tuple[Tensor, Tensor]:
        """Return the gradients [2, n], limited in norm and 0 where frozen, and their norm before.

        After a backward pass through what `sample` and `divergence` returned. They are those of
        several workers once `average`d.
        """
        mean, raw = self._flat
        share = torch.sigmoid(raw)
        scale = self._sigma_max * share
        drawn = self._values.grad
        drawn = torch.zeros_like(mean) if drawn is None else drawn
        of_mean = drawn + self._pull * self._precision * mean
        of_scale = drawn * self._noise * scale
        of_scale = of_scale + self._pull * (scale.square() * self._precision - self._counted)
        found = torch.stack([of_mean, of_scale * (1 - share)])
        parts = torch.split(found, self._sizes, dim=1)
        for name, rows in zip(self._parts, parts, strict=True):
            for row, leaf in zip(rows, self._leaves.get(name, ()), strict=False):
                if leaf.grad is not None:
                    row.add_(leaf.grad.flatten())
        found = average(found * self._learned)
        norm = torch.linalg.vector_norm(found)
        return (limit / (norm + 1e-6)).clamp(max=1.0) * found, norm

    def update(self, gradients: Tensor, adam: AdamStep) -> None:
        """Move all of them, in place."""
        first, second = (self.moments[kind] for kind in MOMENTS)
        adam.moved(self._flat, gradients, first, second)
