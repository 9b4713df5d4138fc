"""What every part of a model has: settings of its own, parameters, and backends that can train it.

A part is one module: its settings with their defaults and ranges to search, its parameters with
where they start and what is believed of them beforehand, its equations in plain torch, and a fused
loop where it has one. Everything else asks the part.
"""

from abc import ABC
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from torch import Tensor

from slatewise.config import Config
from slatewise.model.gaussian import Gaussian

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

Noise = Callable[..., Tensor]
"""Draws standard normals of a shape."""
Device = Literal["cpu", "cuda"]


class NoSettings(Config):
    """The settings of a part without any."""


@dataclass(frozen=True)
class Parameter:
    """A tensor of the posterior: where its mean starts, and what is believed of it beforehand."""

    start: Tensor
    prior_scale: float | None
    """σ of the prior N(0, σ²); None where `Part.divergence` has the divergence"""
    rows: Sequence[Hashable] | None = None
    """names of the rows, by which a warm start finds them again; None: all or nothing, by shape"""
    added: bool = False
    """whether runs may have been saved before it existed: there it is 0"""


class Part(ABC):
    """A part of a model, made for one configuration."""

    name: ClassVar[str]
    """what configurations call it"""
    Settings: ClassVar[type[Config]] = NoSettings
    devices: ClassVar[frozenset[Device]] = frozenset(["cpu", "cuda"])
    """where it can be trained"""
    needs: ClassVar[frozenset[str]] = frozenset(["name"])
    """attributes that a class must have to be a part of this kind"""
    without_past: ClassVar[str | None] = None
    """what to note where the part needs the past of users and none is known"""
    restates: ClassVar[Mapping[str, frozenset[str]]] = {}
    """attributes that repeat, usually faster, what others define, with the names of those: a class
    that overrides an original and inherits its repetition is refused"""

    has_no: ClassVar[Mapping[str, str]] = {}
    """methods that nothing would call in parts of this kind, with what to write instead"""

    def __init__(self, config: "ModelConfig") -> None:
        self.config = config
        self.settings: Any = config.of(type(self))

    @classmethod  # noqa: B027 (most parts go with everything)
    def check(cls, config: "ModelConfig") -> None:
        """Raise ValueError where this part does not go with the rest of a configuration."""

    @classmethod
    def unused(cls, config: "ModelConfig") -> Mapping[str, str]:
        """Return its settings that change nothing in a model, each with what it is for."""
        return {}

    def parameters(self, noise: Noise) -> dict[str, Parameter]:
        """Return the parameters of the part by name, none by default."""
        return {}

    def divergence(self, posterior: Mapping[str, Gaussian]) -> Tensor | None:
        """KL divergence from the prior of those parameters that have no `prior_scale`: []."""
        return None
