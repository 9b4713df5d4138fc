"""The approximate posterior q(θ): independent Gaussians, sampled and looked at."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from slatewise.model.dynamics import GruWeights, LinearWeights, Weights
from slatewise.model.evidence import Evidence, places_of
from slatewise.model.gaussian import Gaussian
from slatewise.model.item_centre import ItemCentre
from slatewise.model.parameters import Parameters
from slatewise.model.priors import FlatPrior, HierarchicalPrior, ItemPrior
from slatewise.model.terms import terms_of

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

_START_SCALE = 0.05
"""Posterior standard deviations at the start; .8 hurts (the paper's exploding scales)."""
_UNSEEN_SCALE, _VIEW_PRECISION = 0.5, 1.0
"""First guess of an item's scale: as wide as a group without views, and each view is worth about
one unit of precision, shared by the dimensions."""
_START_SPREAD = 0.3
"""Spread of the first group means; item vectors start a third as far around them."""
_START_EVIDENCE = 0.1
"""artanh ρ at the start: slates are about what people want, more often than not."""
_GAMMA_MEAN, _GAMMA_SCALE = 0.5, 0.3
"""Prior of γ: N(.5, .3) cut to [0, 1]."""
_FREE = ("mean", "raw")
_NODES, _MASSES = (part.tolist() for part in np.polynomial.hermite_e.hermegauss(32))


class Posterior:
    """q(θ) = Π N(μ_k, σ_k²) with σ_k ≤ σ_max (eq. meanfield_posterior).

    `items` [I, C] are the item vectors, with the biases in one more column if the model has them;
    `shared` is everything else by name. They live where `item_groups` does. `sources` are the names
    of a log's sources, by which `evidence` finds its slates.
    """

    def __init__(
        self,
        config: "ModelConfig",
        item_groups: Tensor,
        num_groups: int,
        longest_slate: int,
        generator: torch.Generator | None = None,
        sources: Sequence[str] = (),
        item_features: Tensor | None = None,
    ) -> None:
        self.config = config
        self.item_groups = item_groups  # [I]
        self.item_features = item_features  # [I, Q]
        self.evidence_places = places_of(config.evidence, sources)
        hidden, d = config.state_size, config.dimensions
        bias = (0, config.item_columns - d)

        def around(mean: Tensor) -> Gaussian:
            return Gaussian.around(mean, _START_SCALE, config.sigma_max)

        def noise(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        means = pad(_START_SPREAD * noise(num_groups, d), bias)  # [G, C]; biases start at 0
        centre = None
        if item_features is not None:
            centre = ItemCentre(config, item_features.shape[1], _START_SCALE)
        self.prior: ItemPrior
        if config.prior == "hierarchical":
            self.prior = HierarchicalPrior(config, means, _START_SCALE, centre)
            centres = means[item_groups.cpu()]
        else:
            self.prior = FlatPrior(config, centre)
            centres = torch.zeros(len(item_groups), config.item_columns)
        offsets = pad(_START_SPREAD / 3 * noise(len(item_groups), d), bias)
        self.items = around(centres + offsets)  # [I, C]
        # Twice the items seen make a click about twice as likely: β_s starts in proportion.
        growth = torch.log(torch.arange(1, longest_slate + 1, dtype=torch.float32))
        self.shared = {
            "initial_state": around(torch.zeros(hidden)),
            "no_click": around(growth - 1),
            **self.prior.learned,
        }
        if config.evidence:
            self.shared["evidence"] = around(torch.full((len(config.evidence),), _START_EVIDENCE))
        if config.dynamics == "linear":
            self.shared["drift_logit"] = around(torch.zeros(()))
        else:
            # Start like the linear model: the new gate copies the clicked item.
            copy = torch.cat([torch.zeros(2 * hidden, d), torch.eye(hidden, d)])
            small = 1 / math.sqrt(hidden)
            self.shared["from_item"] = around(copy + 0.1 * small * noise(3 * hidden, d))
            self.shared["from_state"] = around(0.1 * small * noise(3 * hidden, hidden))
            self.shared["output"] = around(torch.eye(d, hidden) + 0.1 * small * noise(d, hidden))
        self._least = {}
        for name, term in terms_of(config).items():
            self.shared[name] = around(torch.zeros(len(term.columns(config))))
            least = torch.tensor(term.least_weights(config))
            if torch.isfinite(least).any():
                self._least[name] = least
        if "position" in config.terms:
            self.shared["position"] = around(torch.zeros(longest_slate))
        priors = {"evidence": config.sigma_evidence, "position": config.sigma_position}
        priors |= dict.fromkeys(terms_of(config), config.sigma_weights)
        self._additional = [name for name in self.shared if name in priors]
        self._additional_scales = torch.tensor(
            [priors[name] for name in self._additional for _ in self.shared[name].mean]
        )
        self.to_(item_groups.device)  # drawn on the CPU: the same everywhere

    def mean(self) -> Parameters:
        """Return the mean of all free parameters, which is also the maximum a posteriori."""
        return self.parameters(
            self.items.mean, {name: part.mean for name, part in self.shared.items()}
        )

    def sample(self, generator: torch.Generator | None = None) -> Parameters:
        """Draw everything once."""
        return self.sample_around(self.items.sample(generator), generator)

    def sample_around(self, items: Tensor, generator: torch.Generator | None = None) -> Parameters:
        """Draw everything but the item vectors, which are given."""
        values, noise = {}, []
        for name, part in self.shared.items():
            if name in self._additional:
                noise.append(part.noise(generator))
            else:
                values[name] = part.sample(generator)
        if noise:
            drawn = self._together().sample(torch.cat(noise))
            parts = torch.split(drawn, [len(each) for each in noise])
            values |= dict(zip(self._additional, parts, strict=True))
        return self.parameters(items, values)

    def samples_around(self, items: Tensor, generator: torch.Generator | None = None) -> Parameters:
        """Draw J times all that moves users, around J draws of items [J, R, C]: all [J, …].

        What only stands above the items, such as group means, is not drawn.
        """
        values = {
            name: part.samples(len(items), generator)
            for name, part in self.shared.items()
            if name not in self.prior.learned
        }
        return self.parameters(items, values)

    def parameters(self, items: Tensor, shared: dict[str, Tensor]) -> Parameters:
        """Put values together: items [I, C], and one for each name but those of the prior.

        All may have J draws in front.
        """
        weights: Weights
        if "drift_logit" in shared:
            drift = torch.sigmoid(shared["drift_logit"])
            weights = LinearWeights(drift[:, None, None] if drift.ndim else drift)
        else:
            weights = GruWeights(shared["from_item"], shared["from_state"], shared["output"])
        evidence = None
        if "evidence" in shared:
            evidence = Evidence(self.evidence_places, torch.tanh(shared["evidence"]))
        return Parameters(
            items,
            weights,
            shared["initial_state"],
            shared["no_click"],
            evidence,
            cell_weights=self._weights(shared, "items"),
            step_weights=self._weights(shared, "no click"),
            positions=shared.get("position"),
        )

    def _weights(self, shared: dict[str, Tensor], acts_on: str) -> Tensor | None:
        """Put the weights of all terms that act on the same side by side: [P]."""
        parts = [shared[name] for name in terms_of(self.config, acts_on)]
        return torch.cat(parts, dim=-1) if parts else None

    def shared_kl(self) -> Tensor:
        """KL divergence of everything but the item vectors from the prior: []."""
        config, shared = self.config, self.shared
        total = self.prior.kl() + shared["initial_state"].kl(config.sigma_h0).sum()
        total = total + shared["no_click"].kl(config.sigma_no_click).sum()
        if self._additional:
            total = total + self._together().kl(self._additional_scales).sum()
        if "drift_logit" in shared:
            return total + drift_kl(shared["drift_logit"])
        for name in ("from_item", "from_state", "output"):
            total = total + shared[name].kl(config.sigma_rnn).sum()
        return total

    def _together(self) -> Gaussian:
        """Put what belongs to terms, positions and evidence side by side.

        They are many and small, and what costs is the number of operations.
        """
        parts = [self.shared[name] for name in self._additional]
        mean, raw = (torch.cat([getattr(part, field) for part in parts]) for field in _FREE)
        return Gaussian(mean, raw, self.config.sigma_max)

    def restrain(self) -> None:
        """Bring the mean of weights that fell below what their terms allow back to it."""
        with torch.no_grad():
            for name, least in self._least.items():
                self.shared[name].mean.clamp_(min=least)

    def features_of(self, items: Tensor) -> Tensor | None:
        """Return the features of items [R], if the model knows any: [R, Q]."""
        return None if self.item_features is None else self.item_features.index_select(0, items)

    def fill_unseen(self, views: Tensor) -> None:
        """Give items that were never seen (views [I] = 0) what group and features predict."""
        unseen = torch.nonzero(views == 0).squeeze(1)
        with torch.no_grad():
            mean, scale = self.prior.predictive(self.item_groups[unseen], self.features_of(unseen))
            share = (scale / self.items.sigma_max).clamp(max=0.999)
            self.items.mean[unseen] = mean
            self.items.raw[unseen] = torch.log(share / (1 - share))

    def widen(self, views: Tensor) -> None:
        """Start the item scales where so many views [I] are likely to leave them.

        An item seen a few times an epoch is updated a few times an epoch: from one small scale
        for all, its own would not have arrived when training ends.
        """
        shared_by = torch.ones(self.config.item_columns, device=views.device)
        shared_by[: self.config.dimensions] = self.config.dimensions
        precision = 1 / _UNSEEN_SCALE**2 + _VIEW_PRECISION * views[:, None] / shared_by  # [I, C]
        share = precision.rsqrt().clamp(max=0.9 * self.items.sigma_max) / self.items.sigma_max
        with torch.no_grad():
            self.items.raw.copy_(torch.logit(share))

    def to_(self, device: torch.device | str) -> None:
        """Move to a device, in place."""
        self.item_groups = self.item_groups.to(device)
        self.evidence_places = self.evidence_places.to(device)
        if self.item_features is not None:
            self.item_features = self.item_features.to(device)
        for part in (self.items, *self.shared.values()):
            part.to_(device)

    def tensors(self) -> dict[str, Tensor]:
        """Return every free parameter by name, to be saved."""
        parts = {"items": self.items, **self.shared}
        return {
            f"{name}.{field}": getattr(part, field).detach()
            for name, part in parts.items()
            for field in _FREE
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take over saved parameters, in place."""
        with torch.no_grad():
            for name, tensor in self.tensors().items():
                tensor.copy_(tensors[name])


def drift_kl(logit: Gaussian) -> Tensor:
    """KL divergence of γ = sigmoid(logit) from N(.5, .3) cut to [0, 1], by Gauss-Hermite: []."""
    points = logit.mean + logit.scale * logit.mean.new_tensor(_NODES)
    mass = logit.mean.new_tensor(_MASSES)
    gamma = torch.sigmoid(points)
    half = 0.5 / _GAMMA_SCALE / math.sqrt(2)
    log_normaliser = math.log(_GAMMA_SCALE * math.sqrt(2 * math.pi) * math.erf(half))
    log_prior = -0.5 * ((gamma - _GAMMA_MEAN) / _GAMMA_SCALE).square() - log_normaliser
    log_jacobian = torch.nn.functional.logsigmoid(points) + torch.nn.functional.logsigmoid(-points)
    entropy = logit.scale.log() + 0.5 * math.log(2 * math.pi * math.e)
    return -entropy - (mass * (log_prior + log_jacobian)).sum() / mass.sum()
