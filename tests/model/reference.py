"""What is defined item by item, or draw by draw, beside what computes it in one go."""

import torch
from torch import Tensor

from slatewise.model.gaussian import Gaussian, gaussian_kl
from slatewise.model.parameters import Parameters
from slatewise.model.posterior import Posterior
from slatewise.model.priors import ItemPrior, Source
from slatewise.model.priors.hierarchical import HierarchicalPrior


def item_kl(
    prior: ItemPrior,
    items: Gaussian,
    groups: Tensor,
    source: Source,
    features: Tensor | None = None,
) -> Tensor:
    """Expected KL divergence of items [R, C] of groups [R] from a prior of ours: [R]."""
    if isinstance(prior, HierarchicalPrior):
        scale = prior._scales(source).index_select(0, groups)  # [R, C]
        centre = prior.means.mean.index_select(0, groups)
        variance = prior.means.scale.index_select(0, groups).square()
    else:
        scale = prior._scales.to(items.mean).expand_as(items.mean)  # type: ignore[attr-defined]
        centre, variance = torch.zeros_like(items.mean), torch.zeros_like(items.mean)
    mean = items.mean
    if prior.centre is not None and features is not None:
        mean = mean - prior.centre.mean(features)
        variance = variance + prior.centre.variance(features)
    divergence = gaussian_kl(mean, items.scale, centre, scale) + 0.5 * variance / scale.square()
    return divergence.sum(-1)


def samples_around(
    posterior: Posterior, items: Tensor, generator: torch.Generator | None = None
) -> Parameters:
    """Draw J times all that moves users, around J draws of items [J, R, C]: all [J, …]."""
    values = {
        name: part.samples(len(items), generator)
        for name, part in posterior.shared.items()
        if name not in posterior.prior.learned
    }
    return posterior.parameters(items, values)
