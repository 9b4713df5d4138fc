"""Parts as somebody outside would write them, as short as they can be."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from slatewise.data.ragged import Int64Array
from slatewise.features.user_history import UserHistory
from slatewise.model.dynamics import Dynamics
from slatewise.model.evidence import SlateEvidence
from slatewise.model.part import Noise, Parameter
from slatewise.model.priors.flat import FlatPrior
from slatewise.model.relevance import Array, Relevance
from slatewise.model.steps import ClickSteps
from slatewise.model.terms import FeatureTerm
from slatewise.model.terms.term import Floats, Ranks

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class Beside(FeatureTerm):
    """Items that stood beside what the user clicked."""

    name: ClassVar[str] = "beside"
    ranks: ClassVar[Ranks] = "items met"

    def met(
        self, history: UserHistory, items: Int64Array | None = None
    ) -> tuple[Int64Array, Floats]:
        found = {
            item
            for showing in history.showings()
            if showing.clicks
            for position, item in enumerate(showing.items)
            if position not in showing.clicks
        }
        items = np.array(sorted(found), np.int64) if items is None else items
        return items, np.isin(items, list(found)).astype(np.float32)[:, None]


class SquaredDistance(Relevance):
    """−‖z − v‖², for which there is no compiled loop."""

    name = "squared"

    def pairs(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        return -(profiles - vectors).square().sum(-1)

    def with_spread(
        self, profiles: Tensor, vectors: Tensor, variances: Tensor
    ) -> tuple[Tensor, Tensor]:
        # E‖z − v‖² = ‖z − μ‖² + Σσ²: a coordinate more.
        return pad(profiles, (0, 1)), torch.cat([vectors, variances.sqrt()[:, None]], dim=1)


class LyingRelevance(SquaredDistance):
    """The same, but rankings are told the opposite."""

    name = "lying"

    @property
    def ranking(self) -> Any:
        def upside_down(profiles: Array, vectors: Array) -> Array:
            pairs = self.pairs(torch.from_numpy(profiles)[:, None], torch.from_numpy(vectors))
            return np.asarray(-pairs.numpy())

        return upside_down


class Average(Dynamics):
    """The first state and all clicks, averaged; w says how much the first state counts."""

    name = "average"

    def parameters(self, noise: Noise) -> dict[str, Parameter]:
        return {"first_weight": Parameter(torch.zeros(1), 1.0)}

    def profiles(
        self,
        steps: ClickSteps,
        moving: Tensor,
        initial: Tensor,
        weights: Mapping[str, Tensor],
        evidence: SlateEvidence | None = None,
    ) -> Tensor:
        past = steps.past  # [M, C]
        known = (past >= 0).to(moving)[..., None]
        total = (moving[..., past.clamp(min=0), :] * known).sum(-2)  # [M, D]
        first = weights["first_weight"].exp()[..., None]
        return (first * initial[..., steps.user_of, :] + total) / (first + known.sum(-2))


class NarrowPrior(FlatPrior):
    """A flat prior of half the width."""

    name = "narrow"

    @classmethod
    def before_data(cls, config: "ModelConfig") -> Tensor:
        return super().before_data(config) / 2
