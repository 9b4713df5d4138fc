"""What is believed of items before any click (Section priors of the paper).

An item is a row of C numbers: its vector, and where the model has item biases, the bias last. The
bias has prior scales of its own; otherwise a column is like the others. Where features of items are
given, the prior is around what they say (`item_centre`).
"""

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import torch
from torch import Tensor

from slatewise.model.gaussian import Gaussian, gaussian_kl
from slatewise.model.item_centre import ItemCentre
from slatewise.model.kernels.items import ItemDraw, draw_items

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

Source = torch.Generator | Tensor | None
"""Where a draw comes from: a generator, or standard normals in its shape."""


class ItemPrior(Protocol):
    """A prior of items, perhaps with parameters of its own that are learned."""

    @property
    def learned(self) -> dict[str, Gaussian]:
        """The posterior of the prior's own parameters, by name."""

    def kl(self) -> Tensor:
        """KL divergence of those from their hyper-prior: []."""

    def item_kl(
        self, items: Gaussian, groups: Tensor, source: Source, features: Tensor | None = None
    ) -> Tensor:
        """Expected KL divergence of items [R, C] of groups [R] from the prior: [R]."""

    def draw(
        self,
        items: Gaussian,
        groups: Tensor,
        shares: Tensor,
        generator: torch.Generator | None,
        features: Tensor | None = None,
    ) -> ItemDraw:
        """Draw items of groups [R] and features [R, Q], with the sums that `drawn_kl` needs."""

    def drawn_kl(self, drawn: ItemDraw, source: Source) -> Tensor:
        """Return Σ shares · item_kl of the items drawn, from sums over groups alone: []."""

    def predictive(self, groups: Tensor, features: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean and standard deviation [R, C] of items nobody has seen, of groups [R]."""


class FlatPrior:
    """v_i ~ N(0, σ_v²), b_i ~ N(0, σ_b²): items know nothing of each other."""

    def __init__(self, config: "ModelConfig", centre: ItemCentre | None = None) -> None:
        self._scales = _by_column(config, config.sigma_v, config.sigma_bias)
        self._centre = centre
        self.learned = _weights_of(centre)

    def kl(self) -> Tensor:
        """Nothing is learned here, unless items have features."""
        return torch.zeros(()) if self._centre is None else self._centre.kl()

    def item_kl(
        self, items: Gaussian, groups: Tensor, source: Source, features: Tensor | None = None
    ) -> Tensor:
        """Closed form; groups do not matter."""
        if self._centre is None or features is None:
            return items.kl(self._scales).sum(-1)
        wobble = self._centre.variance(features) / self._scales.to(items.mean).square()
        offsets = self._centre.without(items, features)
        return (offsets.kl(self._scales) + 0.5 * wobble).sum(-1)

    def draw(
        self,
        items: Gaussian,
        groups: Tensor,
        shares: Tensor,
        generator: torch.Generator | None,
        features: Tensor | None = None,
    ) -> ItemDraw:
        """All items are one group around 0."""
        zero = items.mean.new_zeros(1, len(self._scales), requires_grad=False)
        one_group = torch.zeros_like(groups)
        return _draw(items, one_group, shares, zero, generator, self._centre, features)

    def drawn_kl(self, drawn: ItemDraw, source: Source) -> Tensor:
        """Closed form."""
        scale = self._scales.to(drawn.squares)[None]
        return _grouped_kl(drawn, torch.zeros_like(scale), scale)

    def predictive(self, groups: Tensor, features: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The prior itself."""
        mean = torch.zeros(len(groups), len(self._scales), device=groups.device)
        scale = self._scales.to(mean).expand_as(mean)
        if self._centre is None or features is None:
            return mean, scale
        variance = scale.square() + self._centre.variance(features)
        return self._centre.mean(features), variance.sqrt()


class HierarchicalPrior:
    """v_i ~ N(μ_g, S_g²) with μ_g ~ N(0, κ_μ²) and S_g folded normal with κ_Σ, entry by entry.

    Biases likewise, with κ_b for both.
    The folded normal is |x| with x ~ N(0, κ_Σ²). Two changes keep its funnel harmless: the scale
    is √(x² + floor²), and the expectation over μ_g is taken in closed form, not by sampling.
    """

    def __init__(
        self,
        config: "ModelConfig",
        means: Tensor,
        posterior_scale: float,
        centre: ItemCentre | None = None,
    ) -> None:
        self._centre = centre
        self._kappa_mu = _by_column(config, config.kappa_mu, config.kappa_bias)
        self._kappa_sigma = _by_column(config, config.kappa_sigma, config.kappa_bias)
        self._floor = config.scale_floor
        spread = torch.full_like(means, 0.5)
        self.means = Gaussian.around(means, posterior_scale, config.sigma_max)  # [G, C]
        self.spreads = Gaussian.around(spread, posterior_scale, config.sigma_max)  # [G, C]
        self.learned = {"group_means": self.means, "group_spreads": self.spreads}
        self.learned |= _weights_of(centre)

    def kl(self) -> Tensor:
        """Closed form for all."""
        total = self.means.kl(self._kappa_mu).sum() + self.spreads.kl(self._kappa_sigma).sum()
        return total if self._centre is None else total + self._centre.kl()

    def item_kl(
        self, items: Gaussian, groups: Tensor, source: Source, features: Tensor | None = None
    ) -> Tensor:
        """Closed form in v_i, μ_g and W, one draw of the group scales (their mean if no source)."""
        scale = self._scales(source).index_select(0, groups)  # [R, C]
        centre = self.means.mean.index_select(0, groups)
        divergence = 0.5 * (self.means.scale.index_select(0, groups) / scale).square()
        if self._centre is not None and features is not None:
            items = self._centre.without(items, features)
            divergence = divergence + 0.5 * self._centre.variance(features) / scale.square()
        divergence = gaussian_kl(items.mean, items.scale, centre, scale) + divergence
        return divergence.sum(-1)

    def draw(
        self,
        items: Gaussian,
        groups: Tensor,
        shares: Tensor,
        generator: torch.Generator | None,
        features: Tensor | None = None,
    ) -> ItemDraw:
        """Items of a group are around its mean."""
        return _draw(items, groups, shares, self.means.mean, generator, self._centre, features)

    def drawn_kl(self, drawn: ItemDraw, source: Source) -> Tensor:
        """Closed form in v_i and μ_g, one draw of the group scales (their mean if no source)."""
        return _grouped_kl(drawn, self.means.scale.square(), self._scales(source))

    def _scales(self, source: Source) -> Tensor:
        """Draw the group scales S_g: [G, C]."""
        spread = self.spreads.mean if source is None else self.spreads.sample(source)
        return (spread.square() + self._floor**2).sqrt()

    def predictive(self, groups: Tensor, features: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Mean μ_g, variance Var μ_g + E S_g²: the first two moments of the group predictive.

        Features add the mean and the variance of what they say.
        """
        spread = self.spreads.mean.square() + self.spreads.scale.square() + self._floor**2
        mean, variance = self.means.mean[groups], (self.means.scale.square() + spread)[groups]
        if self._centre is None or features is None:
            return mean, variance.sqrt()
        return mean + self._centre.mean(features), (
            variance + self._centre.variance(features)
        ).sqrt()


def _by_column(config: "ModelConfig", of_vectors: float, of_biases: float) -> Tensor:
    """Return a scale for each number of an item: [C]."""
    scales = [of_vectors] * config.dimensions + [of_biases]
    return torch.tensor(scales[: config.item_columns], dtype=torch.float64)


def _weights_of(centre: ItemCentre | None) -> dict[str, Gaussian]:
    return {} if centre is None else {"feature_weights": centre.weights}


def _draw(
    items: Gaussian,
    groups: Tensor,
    shares: Tensor,
    centres: Tensor,
    generator: torch.Generator | None,
    centre: ItemCentre | None,
    features: Tensor | None,
) -> ItemDraw:
    offsets = None if centre is None or features is None else centre.mean(features)
    drawn = draw_items(
        items.mean,
        items.raw,
        items.noise(generator),
        sigma_max=items.sigma_max,
        groups=groups,
        weights=shares,
        centres=centres,
        offsets=offsets,
    )
    if centre is None or features is None:
        return drawn
    wobble = centre.variances(features, groups, shares, len(centres))
    return replace(drawn, squares=drawn.squares + wobble)


def _grouped_kl(drawn: ItemDraw, centre_variance: Tensor, scale: Tensor) -> Tensor:
    """Sum E KL(N(mean, σ²) || N(μ_g, S_g²)) over the items of all groups: [].

    As `gaussian_kl`, but ½ · E (v − μ_g)² / S_g² and log S_g are taken once for each group and not
    for each item: `centre_variance` and `scale` are Var μ_g and S_g, both [G, C].
    """
    mass = drawn.mass[:, None]
    distance = (drawn.squares + mass * centre_variance) / scale.square()  # [G, C]
    return (0.5 * distance + mass * (scale.log() - 0.5)).sum() - drawn.log_scale
