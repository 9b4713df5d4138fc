"""The parts of one model, put together from its configuration."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from slatewise.errors import SlatewiseError
from slatewise.model.dynamics import Dynamics
from slatewise.model.initial_states import InitialState
from slatewise.model.registry import DYNAMICS, INITIAL_STATES, RELEVANCES
from slatewise.model.relevance import Relevance
from slatewise.model.terms.fitted import named_terms

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


@dataclass(frozen=True)
class Parts:
    """What turns parameters into profiles and utilities."""

    dimensions: int
    """D"""
    relevance: Relevance
    dynamics: Dynamics
    initial_state: InitialState
    terms: dict[str, Any]
    """classes of the terms by name, those with features first, in the order of their columns"""

    @classmethod
    def of(cls, config: "ModelConfig") -> "Parts":
        """Look up the parts that a configuration names."""
        dynamics = DYNAMICS[config.dynamics](config)
        terms = named_terms(config)
        return cls(
            config.dimensions,
            RELEVANCES[config.relevance](config),
            dynamics,
            INITIAL_STATES[config.initial_state](config, dynamics.state_size),
            dict(sorted(terms.items(), key=lambda term: not term[1].has_features)),
        )

    @property
    def by_source(self) -> bool:
        """Whether a term has numbers for each source of the log."""
        return any(term.by_source for term in self.terms.values())

    def weight_names(self, acts_on: str) -> list[str]:
        """Name the terms whose weights act on features of items seen, or of no click."""
        return [
            name
            for name, term in self.terms.items()
            if term.has_features and term.acts_on == acts_on
        ]

    @property
    def ranking_names(self) -> list[str]:
        """Name the terms whose features rank items, in the order of their columns."""
        return [name for name in self.weight_names("items") if self.terms[name].ranks != "never"]


def refuse_device(parts: Iterable[Any], device: str, verb: str = "trained") -> None:
    """Refuse a device that one of the parts cannot be trained, or otherwise used, on."""
    for part in parts:
        if device.partition(":")[0] not in part.devices:
            raise SlatewiseError(
                f"'{part.name}' cannot be {verb} on a GPU.",
                "Use the CPU (--device cpu), or leave it out.",
            )


def require_device(device: str) -> None:
    """Refuse a device that is not there."""
    if device != "cpu" and not device.startswith("cuda"):
        raise SlatewiseError(f"there is no device '{device}'.", "Choose cpu or cuda.")
    if device != "cpu" and not torch.cuda.is_available():
        raise SlatewiseError(
            "torch finds no CUDA device.", "Use the CPU, or install torch with CUDA."
        )
