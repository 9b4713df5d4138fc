"""A flat prior: items are independent."""

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Annotated, Final

import torch
from pydantic import PositiveFloat
from torch import Tensor

from slatewise.config import Config, Search
from slatewise.model.item_centre import ItemCentre
from slatewise.model.kernels.items import ItemDraw
from slatewise.model.part import Noise
from slatewise.model.priors import ItemPrior, Source, by_column, grouped_kl

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class FlatSettings(Config):
    """Settings of the flat prior."""

    sigma_v: Annotated[PositiveFloat, Search(0.01, 10.0)] = 0.5
    """σ_v, flat prior of the item vectors."""


class FlatPrior(ItemPrior):
    """v_i ~ N(0, σ_v²), b_i ~ N(0, σ_b²)."""

    name = "flat"
    Settings = FlatSettings

    @property
    def centres(self) -> Tensor:
        """All items are one group around 0: [1, C]."""
        return torch.zeros(1, self.config.item_columns, device=self._start.device)

    def __init__(
        self,
        config: "ModelConfig",
        groups: Sequence[Hashable],
        noise: Noise,
        centre: ItemCentre | None = None,
    ) -> None:
        super().__init__(config, groups, noise, centre)
        self._scales = self.before_data(config)  # [C]

    def kl(self) -> Tensor:
        """Nothing is learned here, unless items have features."""
        return torch.zeros(()) if self.centre is None else self.centre.kl()

    def drawn_kl(self, drawn: ItemDraw, source: Source) -> Tensor:
        """Closed form."""
        scale = self._scales.to(drawn.squares)[None]
        return grouped_kl(drawn, torch.zeros_like(scale), scale)

    def predictive(self, groups: Tensor, features: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The prior itself."""
        mean = torch.zeros(len(groups), self.config.item_columns, device=groups.device)
        scale = self._scales.to(mean).expand_as(mean)
        if self.centre is None or features is None:
            return mean, scale
        variance = scale.square() + self.centre.variance(features)
        return self.centre.mean(features), variance.sqrt()

    @classmethod
    def before_data(cls, config: "ModelConfig") -> Tensor:
        """The prior itself."""
        return by_column(config, config.of(cls).sigma_v, "sigma")


PART: Final = FlatPrior
