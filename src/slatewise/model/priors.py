"""What is believed of item vectors before any click (Section priors of the paper)."""

from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from slatewise.model.gaussian import Gaussian, gaussian_kl

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

Source = torch.Generator | Tensor | None
"""Where a draw comes from: a generator, or standard normals in its shape."""


class ItemPrior(Protocol):
    """A prior of item vectors, perhaps with parameters of its own that are learned."""

    @property
    def learned(self) -> dict[str, Gaussian]:
        """The posterior of the prior's own parameters, by name."""

    def kl(self) -> Tensor:
        """KL divergence of those from their hyper-prior: []."""

    def item_kl(self, items: Gaussian, groups: Tensor, source: Source) -> Tensor:
        """Expected KL divergence of item vectors [R, D] of groups [R] from the prior: [R]."""

    def predictive(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [R, D] of items nobody has seen, of groups [R]."""


class FlatPrior:
    """v_i ~ N(0, σ_v²): items know nothing of each other."""

    def __init__(self, config: "ModelConfig") -> None:
        self._scale = config.sigma_v
        self._dimensions = config.dimensions
        self.learned: dict[str, Gaussian] = {}

    def kl(self) -> Tensor:
        """Nothing is learned here."""
        return torch.zeros(())

    def item_kl(self, items: Gaussian, groups: Tensor, source: Source) -> Tensor:
        """Closed form; groups do not matter."""
        return items.kl(self._scale).sum(-1)

    def predictive(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """The prior itself."""
        mean = torch.zeros(len(groups), self._dimensions, device=groups.device)
        return mean, torch.full_like(mean, self._scale)


class HierarchicalPrior:
    """v_i ~ N(μ_g, S_g²) with μ_g ~ N(0, κ_μ²) and S_g folded normal with κ_Σ, entry by entry.

    The folded normal is |x| with x ~ N(0, κ_Σ²). Two changes keep its funnel harmless: the scale
    is √(x² + floor²), and the expectation over μ_g is taken in closed form, not by sampling.
    """

    def __init__(self, config: "ModelConfig", means: Tensor, posterior_scale: float) -> None:
        self._kappa_mu = config.kappa_mu
        self._kappa_sigma = config.kappa_sigma
        self._floor = config.scale_floor
        spread = torch.full_like(means, 0.5)
        self.means = Gaussian.around(means, posterior_scale, config.sigma_max)  # [G, D]
        self.spreads = Gaussian.around(spread, posterior_scale, config.sigma_max)  # [G, D]
        self.learned = {"group_means": self.means, "group_spreads": self.spreads}

    def kl(self) -> Tensor:
        """Closed form for both."""
        return self.means.kl(self._kappa_mu).sum() + self.spreads.kl(self._kappa_sigma).sum()

    def item_kl(self, items: Gaussian, groups: Tensor, source: Source) -> Tensor:
        """Closed form in v_i and μ_g, one draw of the group scales (their mean if no source)."""
        spread = self.spreads.mean if source is None else self.spreads.sample(source)
        scale = (spread.square() + self._floor**2).sqrt().index_select(0, groups)  # [R, D]
        centre = self.means.mean.index_select(0, groups)
        divergence = gaussian_kl(items.mean, items.scale, centre, scale)
        uncertain_mean = 0.5 * (self.means.scale.index_select(0, groups) / scale).square()
        return (divergence + uncertain_mean).sum(-1)

    def predictive(self, groups: Tensor) -> tuple[Tensor, Tensor]:
        """Mean μ_g, variance Var μ_g + E S_g²: the first two moments of the group predictive."""
        spread = self.spreads.mean.square() + self.spreads.scale.square() + self._floor**2
        variance = self.means.scale.square() + spread  # [G, D]
        return self.means.mean[groups], variance.sqrt()[groups]
