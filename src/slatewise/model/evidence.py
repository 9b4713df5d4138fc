"""Slates without a click as evidence about the user; not in the paper's model.

Such a slate, once it is past, moves the state a fraction ρ of the way that a click on the mean of
its items would show, and every source of slates has a ρ of its own. What people searched for tells
of their intent, clicked or not: ρ > 0. A recommendation without a click may speak against its
items: ρ < 0, and then only as far as these were close.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import torch
from pydantic import PositiveFloat
from torch import Tensor

from slatewise.config import Config
from slatewise.errors import SlatewiseError
from slatewise.model.part import Noise, Parameter, Part

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

_START: Final = 0.1
"""artanh ρ at the start: slates are about what people want, more often than not."""


class SlateEvidence(NamedTuple):
    """Which sources move users without a click, and how far."""

    source_index: Tensor
    """[number of sources] index of each source among the fractions, −1 for one that does not"""
    fractions: Tensor
    """[E] ρ between −1 and 1; [J, E] for J draws"""


class EvidenceSettings(Config):
    """Settings of evidence."""

    sigma_evidence: PositiveFloat = 1.0
    """Prior of artanh ρ, ρ being the fraction of the way that a slate without a click moves the
    user."""


class Evidence(Part):
    """The fractions ρ of the sources that a configuration names."""

    name = "evidence"
    Settings = EvidenceSettings

    def __init__(self, config: "ModelConfig", sources: Sequence[str]) -> None:
        super().__init__(config)
        self.source_index = index_of_sources(config.evidence, sources)

    def parameters(self, noise: Noise) -> dict[str, Parameter]:
        """Return artanh ρ, one for each source that counts."""
        sources = self.config.evidence
        if not sources:
            return {}
        start = torch.full((len(sources),), _START)
        return {"evidence": Parameter(start, self.settings.sigma_evidence, rows=sources)}

    def value(self, values: Mapping[str, Tensor]) -> SlateEvidence | None:
        """Return the evidence in a draw of the parameters; None for a model without evidence."""
        if "evidence" not in values:
            return None
        return SlateEvidence(self.source_index, torch.tanh(values["evidence"]))


def index_of_sources(evidence: Sequence[str], sources: Sequence[str]) -> Tensor:
    """Return the index of each source of a log in `evidence`, −1 for none: [number of sources]."""
    missing = [name for name in evidence if name not in sources]
    if missing:
        raise SlatewiseError(
            f"evidence names the source '{missing[0]}', from which no slate comes.",
            f"Name some of {', '.join(sources)}." if sources else "Leave evidence empty.",
        )
    index = {name: number for number, name in enumerate(evidence)}
    return torch.tensor([index.get(name, -1) for name in sources], dtype=torch.int64)


def slate_share(fraction: Tensor, gap: Tensor) -> Tensor:
    """Return the share of the way `gap` [..., d_h] from a state to a slate that it is moved.

    That is ρ `fraction` [..., 1]; below 0, ρ times the relevance exp(−‖gap‖). Pushed by as much
    however far away, a user with many unclicked slates would be gone for good.
    """
    relevance = torch.exp(-torch.linalg.vector_norm(gap, dim=-1, keepdim=True))
    return torch.where(fraction > 0, fraction, fraction * relevance)
