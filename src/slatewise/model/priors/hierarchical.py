"""A hierarchical prior: items are around the mean of their group."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import torch
from pydantic import PositiveFloat
from torch import Tensor

from slatewise.config import Config, Search
from slatewise.model.gaussian import Gaussian
from slatewise.model.item_centre import ItemCentre
from slatewise.model.kernels.items import ItemDraw
from slatewise.model.part import Noise
from slatewise.model.priors import START_SCALE, ItemPrior, Source, by_column, grouped_kl

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class HierarchicalSettings(Config):
    """Settings of the hierarchical prior."""

    kappa_mu: Annotated[PositiveFloat, Search(0.1, 20.0)] = 2.0
    """κ_μ, prior of the group means."""
    kappa_sigma: Annotated[PositiveFloat, Search(0.01, 10.0)] = 1.0
    """κ_Σ, folded-normal prior of the group scales."""
    scale_floor: PositiveFloat = 0.1
    """Least group scale: below it the likelihood of item vectors has a funnel without bottom."""


class HierarchicalPrior(ItemPrior):
    """v_i ~ N(μ_g, S_g²) with μ_g ~ N(0, κ_μ²) and S_g folded normal with κ_Σ, entry by entry.

    Biases likewise, with κ_b for both.
    The folded normal is |x| with x ~ N(0, κ_Σ²). Two changes keep its funnel harmless: the scale
    is √(x² + floor²), and the expectation over μ_g is taken in closed form, not by sampling.
    """

    name = "hierarchical"
    Settings = HierarchicalSettings

    def __init__(
        self,
        config: "ModelConfig",
        groups: Sequence[Hashable],
        noise: Noise,
        centre: ItemCentre | None = None,
    ) -> None:
        super().__init__(config, groups, noise, centre)
        self._kappa_mu = by_column(config, self.settings.kappa_mu, "kappa")
        self._kappa_sigma = by_column(config, self.settings.kappa_sigma, "kappa")
        self._floor: float = self.settings.scale_floor
        spread = torch.full_like(self._start, 0.5)
        self.means = Gaussian.around(self._start, START_SCALE, config.sigma_max)  # [G, C]
        self.spreads = Gaussian.around(spread, START_SCALE, config.sigma_max)  # [G, C]
        own = {"group_means": self.means, "group_spreads": self.spreads}
        self.learned = own | self.learned
        self.rows |= dict.fromkeys(own, groups)

    @property
    def centres(self) -> Tensor:
        """The group means: [G, C]."""
        return self.means.mean

    @property
    def own_scales(self) -> Mapping[str, Tensor | float]:
        """κ_μ and κ_Σ."""
        own = {"group_means": self._kappa_mu, "group_spreads": self._kappa_sigma}
        return {**own, **super().own_scales}

    def kl(self) -> Tensor:
        """Closed form for all."""
        total = self.means.kl(self._kappa_mu).sum() + self.spreads.kl(self._kappa_sigma).sum()
        return total if self.centre is None else total + self.centre.kl()

    @property
    def noise_shape(self) -> tuple[int, ...]:
        """One for each group scale: (G, C)."""
        return tuple(self.spreads.mean.shape)

    def drawn_kl(self, drawn: ItemDraw, source: Source) -> Tensor:
        """Closed form in v_i and μ_g, one draw of the group scales (their mean if no source)."""
        return grouped_kl(drawn, self.means.scale.square(), self._scales(source))

    def _scales(self, source: Source) -> Tensor:
        """Draw the group scales S_g: [G, C]."""
        spread = self.spreads.mean if source is None else self.spreads.sample(source)
        return (spread.square() + self._floor**2).sqrt()

    def predictive(self, groups: Tensor, features: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean μ_g, variance Var μ_g + E S_g²: the first two moments of the group predictive.

        Features add the mean and the variance of W x.
        """
        spread = self.spreads.mean.square() + self.spreads.scale.square() + self._floor**2
        mean, variance = self.means.mean[groups], (self.means.scale.square() + spread)[groups]
        if self.centre is None or features is None:
            return mean, variance.sqrt()
        return mean + self.centre.mean(features), (variance + self.centre.variance(features)).sqrt()

    @classmethod
    def before_data(cls, config: "ModelConfig") -> Tensor:
        """√(κ_μ² + κ_Σ² + floor²): groups are unknown before data too."""
        own = config.of(cls)
        mean, spread = (
            by_column(config, kappa, "kappa") for kappa in (own.kappa_mu, own.kappa_sigma)
        )
        return (mean.square() + spread.square() + float(own.scale_floor) ** 2).sqrt()


PART: Final = HierarchicalPrior
