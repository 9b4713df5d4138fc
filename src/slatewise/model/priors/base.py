"""What all priors of items have.

An item is a row of C numbers: its vector, and where the model has item biases, the bias last. The
bias has prior scales of its own; otherwise a column is like the others. Where features of items are
given, they shift the prior mean (`item_centre`).

Shapes: R items, G groups, C numbers of an item, Q features.
"""

from abc import abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from slatewise.model.gaussian import Gaussian
from slatewise.model.item_centre import ItemCentre
from slatewise.model.kernels.items import ItemDraw, draw_items
from slatewise.model.part import Noise, Part
from slatewise.model.registry import TERMS

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

Source = torch.Generator | Tensor | None
"""Where a draw comes from: a generator, or standard normals in its shape."""

START_SCALE = 0.05
"""Posterior standard deviations at the start; .8 hurts (the paper's exploding scales)."""
START_SPREAD = 0.3
"""Spread of the first group means; item vectors start a third as far around them."""


class ItemPrior(Part):
    """A prior of items, perhaps with parameters of its own that are learned."""

    has_no: ClassVar[Mapping[str, str]] = {"parameters": "Put what it learns into `learned`."}

    def __init__(
        self,
        config: "ModelConfig",
        groups: Sequence[Hashable],
        noise: Noise,
        centre: ItemCentre | None = None,
    ) -> None:
        super().__init__(config)
        self.centre = centre
        self.groups = groups
        # Drawn by every prior, so that the items of all of them start from the same noise.
        start = START_SPREAD * noise(len(groups), config.dimensions)
        self._start = pad(start, (0, config.item_columns - config.dimensions))  # [G, C]
        self.learned: dict[str, Gaussian] = {}
        """the posterior of the prior's own parameters, by name"""
        self.rows: dict[str, Sequence[Hashable] | None] = {}
        """names of their rows, by which a warm start finds them again"""
        if centre is not None:
            self.learned["feature_weights"] = centre.weights
            self.rows["feature_weights"] = None

    def to_(self, device: torch.device | str) -> None:
        """Move what is not learned to a device, in place."""
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                setattr(self, name, value.to(device))

    @property
    @abstractmethod
    def centres(self) -> Tensor:
        """Where the items of each group are expected, features apart: [G, C]."""

    @property
    def own_scales(self) -> Mapping[str, Tensor | float]:
        """σ of N(0, σ²), the hyper-prior of what is `learned`, by name: [C] or one for all.

        Those for which there is none are in `kl` alone.
        """
        if self.centre is None:
            return {}
        return {"feature_weights": float(self.centre.settings.sigma_features)}

    @abstractmethod
    def kl(self) -> Tensor:
        """KL divergence of the prior's own parameters from their hyper-prior: []."""

    @abstractmethod
    def drawn_kl(self, drawn: ItemDraw, source: Source) -> Tensor:
        """Return Σ shares · E KL of the items drawn from the prior, from sums over groups: []."""

    @property
    def noise_shape(self) -> tuple[int, ...] | None:
        """Shape of the normals that `drawn_kl` takes as its source; None if it draws nothing."""
        return None

    @abstractmethod
    def predictive(self, groups: Tensor, features: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [R, C] of unseen items of groups [R]."""

    @classmethod
    @abstractmethod
    def before_data(cls, config: "ModelConfig") -> Tensor:
        """Return the standard deviation of each number of an item before any training: [C]."""

    def draw(
        self,
        items: Gaussian,
        groups: Tensor,
        shares: Tensor,
        source: Source,
        features: Tensor | None = None,
    ) -> ItemDraw:
        """Draw items of groups [R] and features [R, Q], with the sums that `drawn_kl` needs."""
        centres = self.centres.to(items.mean)
        groups = groups if len(centres) > 1 else torch.zeros_like(groups)
        offsets = None
        if self.centre is not None and features is not None:
            offsets = self.centre.mean(features)
        drawn = draw_items(
            items.mean,
            items.raw,
            source if isinstance(source, Tensor) else items.noise(source),
            sigma_max=items.sigma_max,
            groups=groups,
            weights=shares,
            centres=centres,
            offsets=offsets,
        )
        if self.centre is None or features is None:
            return drawn
        wobble = self.centre.variances(features, groups, shares, len(centres))
        return replace(drawn, squares=drawn.squares + wobble)


def by_column(config: "ModelConfig", of_vectors: float, further: str) -> Tensor:
    """Return a scale for each number of an item: [C].

    Vectors have one; columns that terms add have theirs in the field `further` of `ItemColumn`.
    """
    columns = [column for name in config.terms for column in TERMS[name].item_columns(config)]
    scales = [of_vectors] * config.dimensions + [getattr(column, further) for column in columns]
    return torch.tensor(scales, dtype=torch.float64)


def grouped_kl(drawn: ItemDraw, centre_variance: Tensor, scale: Tensor) -> Tensor:
    """Sum E KL(N(mean, σ²) || N(μ_g, S_g²)) over the items of all groups: [].

    As `gaussian_kl`, but ½ · E (v − μ_g)² / S_g² and log S_g are taken once for each group and not
    for each item: `centre_variance` and `scale` are Var μ_g and S_g, both [G, C].
    """
    mass = drawn.mass[:, None]
    distance = (drawn.squares + mass * centre_variance) / scale.square()  # [G, C]
    return (0.5 * distance + mass * (scale.log() - 0.5)).sum() - drawn.log_scale


BASE = ItemPrior
