"""Independent Gaussians, of which the posterior is made (eq. meanfield_posterior)."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slatewise.compiled.splitmix import mixed, shifted


@dataclass
class Gaussian:
    """A tensor of independent normals whose standard deviations stay below σ_max.

    The free parameters are `mean` and `raw`; scale = σ_max · sigmoid(raw).
    """

    mean: Tensor
    raw: Tensor
    sigma_max: float

    @classmethod
    def around(cls, mean: Tensor, scale: float, sigma_max: float) -> "Gaussian":
        """Start at a mean with one scale everywhere."""
        share = min(scale / sigma_max, 0.99)
        return cls(mean, torch.full_like(mean, math.log(share / (1 - share))), sigma_max)

    @property
    def scale(self) -> Tensor:
        """Standard deviations, in the shape of the mean."""
        return self.sigma_max * torch.sigmoid(self.raw)

    def raw_of(self, scale: Tensor, *, least: float = 0.0, most: float) -> Tensor:
        """Return the free numbers of scales, kept between two shares of σ_max."""
        return torch.logit((scale / self.sigma_max).clamp(least, most))

    def rows(self, rows: Tensor) -> "Gaussian":
        """Take some rows, as tensors of their own."""
        mean, raw = (part.index_select(0, rows) for part in (self.mean, self.raw))
        return Gaussian(mean, raw, self.sigma_max)

    def noise(self, generator: torch.Generator | None = None) -> Tensor:
        """Draw standard normals, in the shape of the mean."""
        return torch.randn(
            self.mean.shape, generator=generator, device=self.mean.device, dtype=self.mean.dtype
        )

    def sample(self, source: torch.Generator | Tensor | None = None) -> Tensor:
        """Draw once, differentiably in the free parameters; `source` may be the noise itself."""
        noise = source if isinstance(source, Tensor) else self.noise(source)
        return self.mean + self.scale * noise

    def samples(self, count: int, generator: torch.Generator | None = None) -> Tensor:
        """Draw `count` times: [J, …], without gradient."""
        shape = (count, *self.mean.shape)
        noise = torch.randn(
            shape, generator=generator, device=self.mean.device, dtype=self.mean.dtype
        )
        return torch.addcmul(self.mean.detach(), self.scale.detach(), noise)

    def to_(self, device: torch.device | str) -> None:
        """Move to a device, in place."""
        self.mean, self.raw = self.mean.to(device), self.raw.to(device)

    def requires_grad_(self, on: bool = True) -> "Gaussian":
        """Ask for gradients in the free parameters, or no longer."""
        self.mean.requires_grad_(on)
        self.raw.requires_grad_(on)
        return self

    def kl(self, prior_scale: float | Tensor) -> Tensor:
        """KL divergence from N(0, prior_scale²), entry by entry; scales may be [D], by column."""
        if isinstance(prior_scale, Tensor):
            scale = prior_scale.to(self.mean.device, self.mean.dtype)
        else:  # filled there: a copy from the host would have to be waited for
            dtype, device = self.mean.dtype, self.mean.device
            scale = torch.full((), prior_scale, dtype=dtype, device=device)
        return gaussian_kl(self.mean, self.scale, self.mean.new_zeros(()), scale)


def keyed_noise(key: Sequence[int], rows: Tensor, columns: int) -> Tensor:
    """Return standard normals for rows [R] that depend on key, row and column alone: [R, C].

    A generator would give a row other noise with other rows beside it. Numbers of cells go through
    SplitMix64 (Steele, Lea and Flood, 2014), then through the normal quantile.
    """
    start = np.random.SeedSequence(list(key)).generate_state(1, np.uint64).view(np.int64)
    column = torch.arange(1, columns + 1, device=rows.device)
    cells = rows.long()[:, None] * columns + column  # [R, C]
    uniform = (shifted(mixed(int(start[0]), cells), 11).double() + 0.5) * 2.0**-53
    noise: Tensor = torch.special.ndtri(uniform)
    return noise.float()


def gaussian_kl(mean: Tensor, scale: Tensor, prior_mean: Tensor, prior_scale: Tensor) -> Tensor:
    """KL(N(mean, scale²) || N(prior_mean, prior_scale²)), entry by entry, in closed form."""
    ratio = (scale / prior_scale).square()
    offset = ((mean - prior_mean) / prior_scale).square()
    return 0.5 * (ratio + offset - 1 - ratio.log())
