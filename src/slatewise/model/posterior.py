"""The approximate posterior q(θ): independent Gaussians, sampled and looked at."""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from slatewise.model.evidence import Evidence
from slatewise.model.gaussian import Gaussian
from slatewise.model.item_centre import ItemCentre
from slatewise.model.kernels.slate import split_bias
from slatewise.model.parameters import Parameters
from slatewise.model.part import Noise, Parameter
from slatewise.model.parts import Parts
from slatewise.model.pool import SlatePool
from slatewise.model.priors import START_SCALE, START_SPREAD, ItemPrior
from slatewise.model.ranking_weights import RankingWeights
from slatewise.model.registry import PRIORS

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

_UNSEEN_SCALE, _VIEW_PRECISION = 0.5, 1.0
"""First guess of an item's scale: as wide as a group without views, and each view is worth about
one unit of precision, shared by the dimensions."""
_FREE = ("mean", "raw")
_CERTAIN = -14.0
"""Free number of a scale of a millionth of σ_max."""


class Posterior:
    """q(θ) = Π N(μ_k, σ_k²) with σ_k ≤ σ_max (eq. meanfield_posterior).

    `items` [I, C] are the item vectors, with the biases in one more column if the model has them;
    `shared` is everything else by name, of the prior and of the other parts. They live where
    `item_groups` does. `sources` are the names of a log's sources, by which `evidence` finds its
    slates.
    """

    def __init__(
        self,
        config: "ModelConfig",
        item_groups: Tensor,
        groups: Sequence[Hashable],
        longest_slate: int,
        generator: torch.Generator | None = None,
        sources: Sequence[str] = (),
        item_features: Tensor | None = None,
    ) -> None:
        self.config = config
        self.parts = Parts.of(config)
        self.item_groups = item_groups  # [I]
        self.item_features = item_features  # [I, Q]
        self.evidence = Evidence(config, sources)
        self.ranking: RankingWeights | None = None
        """by which terms rank the catalogue, once they are fitted; None: as within slates"""
        self.pool: SlatePool | None = None
        """how much the model counts beside terms that see slates, once that is fitted"""
        self.training = False
        """whether interactions lack the features of terms that wait, as in training"""

        def noise(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        centre = None
        if item_features is not None:
            centre = ItemCentre(config, item_features.shape[1], START_SCALE)
        self.prior: ItemPrior = PRIORS[config.prior](config, groups, noise, centre)
        offsets = START_SPREAD / 3 * noise(len(item_groups), config.dimensions)
        offsets = pad(offsets, (0, config.item_columns - config.dimensions))  # biases start at 0
        centres = self.prior.centres
        of_item = item_groups.cpu() if len(centres) > 1 else torch.zeros_like(item_groups.cpu())
        self.items = self._around(centres[of_item] + offsets)  # [I, C]
        self._collect_parameters(noise, longest_slate, sources)
        self.to_(item_groups.device)  # drawn on the CPU: the same everywhere

    def _collect_parameters(self, noise: Noise, longest_slate: int, sources: Sequence[str]) -> None:
        """Collect the parameters of all parts, and start the posterior at their start values."""
        parts, config = self.parts, self.config
        # Twice the items seen make a click about twice as likely: β_s starts in proportion.
        growth = torch.log(torch.arange(1, longest_slate + 1, dtype=torch.float32))
        lengths = range(1, longest_slate + 1)
        first = parts.initial_state.parameters(noise)
        first["no_click"] = Parameter(growth - 1, config.sigma_no_click, rows=lengths)
        then = self.evidence.parameters(noise) | parts.dynamics.parameters(noise)
        self.moving = [name for name in (*first, *then) if name != "no_click"]
        """names of the parameters that determine user states"""
        for term in parts.terms.values():
            then |= term.parameters(config, longest_slate, sources)
        self.free = first | then
        """what is believed of each parameter beforehand, but for those of the prior of items"""
        self.shared = {
            **{name: self._around(one.start) for name, one in first.items()},
            **self.prior.learned,
            **{name: self._around(one.start) for name, one in then.items()},
        }
        self.rows = {name: one.rows for name, one in self.free.items()} | self.prior.rows
        # Vectors of parts are many and small, and what costs is the number of operations.
        small = {n: one for n, one in then.items() if one.start.ndim == 1 and one.prior_scale}
        self._small = list(small)
        scales = [torch.full_like(one.start, one.prior_scale or 0.0) for one in small.values()]
        self._small_scales = torch.cat(scales) if scales else torch.empty(0)

    def _around(self, mean: Tensor) -> Gaussian:
        return Gaussian.around(mean, START_SCALE, self.config.sigma_max)

    @property
    def trained_parts(self) -> Iterator[Any]:
        """All parts that are trained."""
        parts = self.parts
        yield from (parts.relevance, parts.dynamics, parts.initial_state, self.prior)
        yield from parts.terms.values()
        if self.config.evidence:
            yield self.evidence
        if self.prior.centre is not None:
            yield self.prior.centre

    def mean(self) -> Parameters:
        """Return the mean of all free parameters, which is also the maximum a posteriori."""
        return self.parameters(
            self.items.mean,
            {name: part.mean for name, part in self.shared.items()},
            None if self.ranking is None else self.ranking.mean,
        )

    def expected(self, items: Tensor | None = None) -> Parameters:
        """Return the mean, of all or of some items [R], with the variances of items.

        The closed form of what draws say on average: predictions and greedy rankings take it.
        """
        rows = self.items if items is None else self.items.rows(items)
        scales, _ = split_bias(rows.scale, self.config.dimensions)
        return replace(self.mean(), items=rows.mean, variances=scales.square().sum(-1))

    def sample(self, generator: torch.Generator | None = None) -> Parameters:
        """Draw everything once."""
        return self.sample_around(self.items.sample(generator), generator)

    def sample_around(self, items: Tensor, generator: torch.Generator | None = None) -> Parameters:
        """Draw everything but the item vectors, which are given."""
        return self.parameters(items, *self.draw_shared(generator))

    def draw_shared(
        self, generator: torch.Generator | None = None
    ) -> tuple[dict[str, Tensor], Tensor | None]:
        """Draw everything but the item vectors, by name; and the weights that rank, if any."""
        values, noise = {}, []
        for name, part in self.shared.items():
            if name in self._small:
                noise.append(part.noise(generator))
            else:
                values[name] = part.sample(generator)
        if noise:
            drawn = self._together().sample(torch.cat(noise))
            parts = torch.split(drawn, [len(each) for each in noise])
            values |= dict(zip(self._small, parts, strict=True))
        ranking = None if self.ranking is None else self.ranking.draw(generator)
        return values, ranking

    def parameters(
        self, items: Tensor, shared: Mapping[str, Tensor], ranking: Tensor | None = None
    ) -> Parameters:
        """Put values together: items [I, C], and one for each name but those of the prior.

        All may have J draws in front. `ranking` [P] are the weights that rank, if they differ.
        """
        return Parameters(
            self.parts,
            items,
            self.parts.dynamics.weights(shared),
            shared["initial_state"],
            shared["no_click"],
            self.evidence.value(shared),
            cell_weights=self._weights(shared, "items"),
            step_weights=self._weights(shared, "no click"),
            positions=shared.get("position"),
            position_factors=shared.get("position_factor"),
            enough=shared.get("enough"),
            ranking_weights=ranking,
            source_no_click=shared.get("source"),
            pool=self.pool,
        )

    def _weights(self, shared: Mapping[str, Tensor], acts_on: str) -> Tensor | None:
        """Put the weights of all terms that act on the same side by side: [P]."""
        terms = self.parts.terms
        names = self.parts.weight_names(acts_on)
        parts = [shared[name] for name in names if not (self.training and terms[name].waits)]
        return torch.cat(parts, dim=-1) if parts else None

    def by_term(self, names: Sequence[str], weights: Tensor) -> dict[str, Tensor]:
        """Take the weights of some terms, side by side, apart: [P] by the name of the term."""
        sizes = [len(self.shared[name].mean) for name in names]
        return dict(zip(names, torch.split(weights, sizes), strict=True))

    def shared_kl(self) -> Tensor:
        """KL divergence of everything but the item vectors from the prior: []."""
        total = self.prior.kl()
        for name, parameter in self.free.items():
            if parameter.prior_scale is not None and name not in self._small:
                total = total + self.shared[name].kl(parameter.prior_scale).sum()
        if self._small:
            total = total + self._together().kl(self._small_scales).sum()
        return total + self._kl_of_parts()

    def _kl_of_parts(self) -> Tensor | float:
        """KL divergence of the parameters whose part has it in closed form: []."""
        parts = (self.parts.dynamics, self.parts.initial_state, self.evidence)
        own = [part.divergence(self.shared) for part in parts]
        return sum(each for each in own if each is not None)

    @property
    def prior_scales(self) -> dict[str, Tensor | float]:
        """σ of N(0, σ²), the prior of a parameter, by name; those that have none are left out."""
        free = {name: one.prior_scale for name, one in self.free.items()}
        known = {name: scale for name, scale in free.items() if scale is not None}
        return {**known, **self.prior.own_scales}

    def other_kl(self) -> Tensor | float:
        """KL divergence of all shared parameters that `prior_scales` leaves out: []."""
        total: Tensor | float = 0.0
        if self.prior.learned.keys() - self.prior.own_scales.keys():
            total = self.prior.kl()
        return total + self._kl_of_parts()

    def _together(self) -> Gaussian:
        """Put the small vectors of parts side by side."""
        parts = [self.shared[name] for name in self._small]
        mean, raw = (torch.cat([getattr(part, field) for part in parts]) for field in _FREE)
        return Gaussian(mean, raw, self.config.sigma_max)

    def features_of(self, items: Tensor) -> Tensor | None:
        """Return the features of items [R], if the model knows any: [R, Q]."""
        return None if self.item_features is None else self.item_features.index_select(0, items)

    def fill_unseen(self, views: Tensor) -> None:
        """Give items that were never seen (views [I] = 0) what group and features predict."""
        unseen = torch.nonzero(views == 0).squeeze(1)
        with torch.no_grad():
            mean, scale = self.prior.predictive(self.item_groups[unseen], self.features_of(unseen))
            self.items.mean[unseen] = mean
            self.items.raw[unseen] = self.items.raw_of(scale, most=0.999)

    def set_to_zero(self, names: Sequence[str]) -> None:
        """Set parameters to 0, for certain."""
        with torch.no_grad():
            for name in names:
                self.shared[name].mean.zero_()
                self.shared[name].raw.fill_(_CERTAIN)

    def widen(self, views: Tensor) -> None:
        """Start the item scales near where training is likely to end, given views [I].

        An item seen a few times an epoch is updated a few times an epoch: from one small scale
        for all, its own would not have arrived when training ends.
        """
        shared_by = torch.ones(self.config.item_columns, device=views.device)
        shared_by[: self.config.dimensions] = self.config.dimensions
        precision = 1 / _UNSEEN_SCALE**2 + _VIEW_PRECISION * views[:, None] / shared_by  # [I, C]
        with torch.no_grad():
            self.items.raw.copy_(self.items.raw_of(precision.rsqrt(), most=0.9))

    def to_(self, device: torch.device | str) -> None:
        """Move to a device, in place."""
        self.item_groups = self.item_groups.to(device)
        self.evidence.source_index = self.evidence.source_index.to(device)
        self._small_scales = self._small_scales.to(device)
        self.prior.to_(device)
        if self.item_features is not None:
            self.item_features = self.item_features.to(device)
        for part in (self.items, *self.shared.values()):
            part.to_(device)
        if self.ranking is not None:
            self.ranking = self.ranking.to(device)

    def tensors(self) -> dict[str, Tensor]:
        """Return every free parameter by name, to be saved."""
        parts = {"items": self.items, **self.shared}
        return {
            f"{name}.{field}": getattr(part, field).detach()
            for name, part in parts.items()
            for field in _FREE
        }

    def load(self, tensors: dict[str, Tensor]) -> None:
        """Take over saved parameters, in place; those that were added since are 0 and certain."""
        with torch.no_grad():
            for name, tensor in self.tensors().items():
                if name in tensors:
                    tensor.copy_(tensors[name])
                elif name in self.added:
                    tensor.fill_(_CERTAIN if name.endswith(".raw") else 0.0)
                else:
                    raise KeyError(name)

    @property
    def added(self) -> set[str]:
        """The names of tensors that a run saved by an earlier release may lack."""
        names = [name for name, parameter in self.free.items() if parameter.added]
        return {f"{name}.{field}" for name in names for field in _FREE}
