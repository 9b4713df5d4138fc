"""Parts as somebody outside would write them, as short as they can be."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from slatewise.data.ragged import Int64Array
from slatewise.features.user_history import UserHistory
from slatewise.model.dynamics import Dynamics, Recurrent
from slatewise.model.dynamics.gru import Gru, GruWeights
from slatewise.model.evidence import SlateEvidence
from slatewise.model.part import Noise, Parameter
from slatewise.model.priors.flat import FlatPrior
from slatewise.model.relevance import Array, Relevance
from slatewise.model.relevance.distance import Distance
from slatewise.model.steps import ClickSteps
from slatewise.model.terms import FeatureTerm
from slatewise.model.terms.history import HistoryTerm
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


class HalfStep(Gru):
    """A click moves the user half as far; all that goes by the old equation is plain again."""

    name = "half-step"
    fused, scanned, follow = Recurrent.fused, Recurrent.scanned, Recurrent.follow

    def gates(self, state: Tensor, inputs: Tensor, weights: GruWeights) -> tuple[Tensor, Tensor]:
        update, new = super().gates(state, inputs, weights)
        return (1 + update) / 2, new


class ForgetfulStep(Gru):
    """The same, which forgets that `follow` and others go by the old step."""

    name = "forgetful"

    def step(self, state: Tensor, inputs: Tensor, weights: GruWeights) -> Tensor:
        return (state + super().step(state, inputs, weights)) / 2


class TakenName(SquaredDistance):
    """Another relevance of a name that is taken."""

    name = "distance"


class Doubled(Distance):
    """Twice the distance where pairs are asked for, and once elsewhere."""

    name = "doubled"
    fused: ClassVar[bool] = False

    def pairs(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        return 2 * super().pairs(profiles, vectors)


class Renamed(Distance):
    """A distance of another name, by which no compiled loop knows it."""

    name = "renamed"


class PlainDistance(Distance):
    """The same, which says so."""

    name = "plain distance"
    fused: ClassVar[bool] = False


class OtherHistory(HistoryTerm):
    """What ranks is overridden, and what trains is not."""

    name: ClassVar[str] = "other history"

    def met(
        self, history: UserHistory, items: Int64Array | None = None
    ) -> tuple[Int64Array, Floats]:
        items, features = super().met(history, items)
        return items, 2 * features


class NarrowPrior(FlatPrior):
    """A flat prior of half the width."""

    name = "narrow"

    @classmethod
    def before_data(cls, config: "ModelConfig") -> Tensor:
        return super().before_data(config) / 2
