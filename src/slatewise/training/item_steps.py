"""All items of a posterior in a step: drawn at its start, moved by Adam at its end.

Shapes: I items, C numbers of an item, G groups.
"""

from typing import TYPE_CHECKING, NamedTuple, Protocol

import torch
from torch import Tensor

from slatewise.model.kernels.items import ItemDraw
from slatewise.model.noise import normals
from slatewise.model.posterior import Posterior
from slatewise.training.steps import BETAS, EPSILON, SCALE_RATE

if TYPE_CHECKING:
    from slatewise.model.kernels.gpu.parts import RowGradient

MOMENTS = ("exp_avg", "exp_avg_sq")


class AdamStep(NamedTuple):
    """How far Adam goes, in numbers that stay on the device."""

    taken: Tensor
    """[] 1 for a step that is taken, 0 for one that is not"""
    rate: Tensor
    """[]"""
    correction: Tensor
    """[] of the first moment"""
    root: Tensor
    """[] of the root of the second moment"""

    def moved(
        self, value: Tensor, slope: Tensor, first: Tensor, second: Tensor, faster: float = 1.0
    ) -> None:
        """Move a value and its moments, in place, if the step is taken."""
        one = first + (1 - BETAS[0]) * (slope - first)
        two = second + (1 - BETAS[1]) * (slope.square() - second)
        change = faster * self.rate / self.correction * one / (two.sqrt() / self.root + EPSILON)
        is_taken = self.taken > 0
        for old, new in ((value, value - change), (first, one), (second, two)):
            old.copy_(torch.where(is_taken, new, old))


class ItemSteps(Protocol):
    """Draws items and moves them."""

    gradient: "RowGradient | None"
    """to which kernels add gradients of items; None where autograd has them"""
    moments: dict[str, Tensor]

    def draw(self, key: Tensor) -> ItemDraw:
        """Draw all items with noise of a key [1]; the first I · C counters are theirs."""

    def update(self, key: Tensor, adam: AdamStep) -> None:
        """Move all items by their gradients, and clear these."""

    @property
    def gradients(self) -> list[Tensor]:
        """The gradients, which workers add up in place; none of items that stay."""


class PlainItems:
    """The reference, in plain torch: for a CPU, any precision, and priors of any kind."""

    gradient: "RowGradient | None" = None

    def __init__(self, posterior: Posterior, weights: Tensor, *, frozen: bool) -> None:
        self._posterior, self._weights, self._frozen = posterior, weights, frozen
        self._leaves = [posterior.items.mean, posterior.items.raw]
        for leaf in self._leaves:
            leaf.requires_grad_(not frozen)
        self.moments = {} if frozen else _moments(posterior)

    def draw(self, key: Tensor) -> ItemDraw:
        """Draw them, differentiably."""
        own = self._posterior
        noise = normals(key, 1, tuple(own.items.mean.shape)).to(own.items.mean.dtype)
        groups, features = own.item_groups, own.item_features
        return own.prior.draw(own.items, groups, self._weights, noise, features)

    def update(self, key: Tensor, adam: AdamStep) -> None:
        """Move means and scales."""
        for name, leaf in zip(("mean", "raw"), self._leaves, strict=True):
            if leaf.grad is not None and not self._frozen:
                first, second = (self.moments[f"{name}.{kind}"] for kind in MOMENTS)
                faster = SCALE_RATE if name == "raw" else 1.0
                with torch.no_grad():
                    adam.moved(leaf, leaf.grad, first, second, faster)
            leaf.grad = None

    @property
    def gradients(self) -> list[Tensor]:
        """Those of means and free scales, divergence included: [I, C] each."""
        return [leaf.grad for leaf in self._leaves if leaf.grad is not None]


class FusedItems:
    """Draws and updates items by two kernels; both make the same noise, so that none is stored."""

    def __init__(
        self, posterior: Posterior, weights: Tensor, views: Tensor, *, frozen: bool
    ) -> None:
        from slatewise.model.kernels.gpu.items import ItemTable  # noqa: PLC0415
        from slatewise.model.kernels.gpu.parts import RowGradient  # noqa: PLC0415

        self._prior, items = posterior.prior, posterior.items
        self._features = posterior.item_features
        groups = posterior.item_groups
        count = len(self._prior.centres)
        groups = groups if count > 1 else torch.zeros_like(groups)
        items.requires_grad_(False)
        self._table = ItemTable(items.mean, items.raw, items.sigma_max, groups, weights)
        self._mass = weights.new_zeros(count).index_add_(0, groups, weights)
        self._squares = None
        if self._prior.centre is not None and self._features is not None:
            self._squares = self._prior.centre.square_sums(self._features, groups, weights, count)
        self.gradient = None if frozen else RowGradient(len(views), items.mean.shape[1], views)
        self.moments = {} if frozen else _moments(posterior)

    def draw(self, key: Tensor) -> ItemDraw:
        """Draw them; their own gradients go to `gradient`, and to what `update` knows."""
        centre, offsets = self._prior.centre, None
        if centre is not None and self._features is not None:
            offsets = centre.mean(self._features)
        centres = self._prior.centres
        vectors, squares, log_scale = self._table.draw(key, centres, offsets)
        if centre is not None and self._squares is not None:
            squares = squares + centre.summed_variances(self._squares)
        return ItemDraw(vectors, squares, log_scale, self._mass)

    def update(self, key: Tensor, adam: AdamStep) -> None:
        """Move means and scales."""
        if self.gradient is not None:
            taken = torch.stack([part.float() for part in adam])
            self._table.update(
                key,
                self.gradient,
                self.moments,
                taken,
                faster=SCALE_RATE,
                betas=BETAS,
                epsilon=EPSILON,
            )

    @property
    def gradients(self) -> list[Tensor]:
        """The gradient of the likelihood: [I and copies, C]."""
        return [] if self.gradient is None else [self.gradient.buffer]


def _moments(posterior: Posterior) -> dict[str, Tensor]:
    items = posterior.items
    return {
        f"{name}.{kind}": torch.zeros_like(getattr(items, name).detach())
        for name in ("mean", "raw")
        for kind in MOMENTS
    }
