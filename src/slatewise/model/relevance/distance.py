"""The paper's relevance: the closer an item is to the user, the better (eq. click-softmax)."""

from typing import ClassVar, Final

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from slatewise.model.relevance import Array, Relevance


class Distance(Relevance):
    """−‖z − v‖."""

    name = "distance"
    fused: ClassVar[bool] = True
    words: ClassVar[str] = "how close it is to the user"

    def pairs(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return −‖z − v‖, whose derivative at zero is zero instead of NaN."""
        return -safe_norm(profiles - vectors)

    def many(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return −‖z − v‖ through one matrix product."""
        return -many_distances(profiles, vectors)

    def exact(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return −‖z − v‖ by differences: a product would rank close items by rounding errors.

        A GPU multiplies in double precision about as fast, with as few errors.
        """
        if profiles.device.type != "cpu":
            return -double_distances(profiles, vectors)
        return -torch.cdist(profiles, vectors, compute_mode="donot_use_mm_for_euclid_dist")

    def with_spread(
        self, profiles: Tensor, vectors: Tensor, variances: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Add a coordinate that moves items away from all users: −√(‖z − μ‖² + Σσ²).

        The root of the expected square. At the mean alone, items that are hardly known look as
        close as those that are surely there.
        """
        return pad(profiles, (0, 1)), torch.cat([vectors, variances.sqrt()[:, None]], dim=1)

    def gradients(self, profile: Array, vectors: Array, variances: Array) -> tuple[Array, Array]:
        """Return −√(‖z − μ‖² + Σσ²), and its derivatives (z − μ) / √(‖z − μ‖² + Σσ²)."""
        gaps = profile - vectors
        length = np.sqrt(np.square(gaps).sum(axis=1) + variances)
        return -length, gaps / np.maximum(length, 1e-12)[:, None]

    def of_arrays(self, profiles: Array, vectors: Array) -> Array:
        """Return −‖z − v‖."""
        gaps = profiles - vectors
        return np.asarray(-np.sqrt(np.einsum("...d,...d->...", gaps, gaps)))


def safe_norm(difference: Tensor) -> Tensor:
    """Return Euclidean norms whose derivative at zero is zero instead of NaN."""
    squared = difference.square().sum(-1)
    zero = squared == 0
    return torch.where(zero, 0.0, torch.where(zero, 1.0, squared).sqrt())


def many_distances(profiles: Tensor, items: Tensor) -> Tensor:
    """Return Euclidean distances [M, K] through one matrix product.

    Expanding the square costs digits where points are close: around the items' centre, a distance
    is wrong by a few thousandths where points coincide, which a sum over a catalogue does not
    notice.
    """
    centre = items.mean(0)
    profiles, items = profiles - centre, items - centre
    squares = profiles.square().sum(1)[:, None] + items.square().sum(1)
    return (squares - 2 * profiles @ items.T).clamp(min=1e-6).sqrt()


def double_distances(profiles: Tensor, items: Tensor) -> Tensor:
    """Return Euclidean distances [M, K] through one matrix product in double precision."""
    profiles, items = profiles.double(), items.double()
    squares = torch.addmm(items.square().sum(1), profiles, items.T, alpha=-2)  # [M, K]
    return squares.add_(profiles.square().sum(1)[:, None]).clamp_(min=0).sqrt_()


PART: Final = Distance
DISTANCE: Final = Distance()
