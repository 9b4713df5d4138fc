"""How a profile z and an item vector v make a utility, a module each.

Shapes: M profiles, K items, D dimensions.
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from slatewise.model.part import Part

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class Relevance(Part):
    """A utility of profile and vector, in plain torch.

    With `fused`, the compiled loops of training and ranking know it by its name. Without, training
    takes the plain functions, and rankings score all items in blocks: exact, and slower.
    """

    fused: ClassVar[bool] = False

    def __init__(self, config: "ModelConfig | None" = None) -> None:
        if config is not None:
            super().__init__(config)

    @abstractmethod
    def pairs(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return the utility of each vector [..., D] to its own profile [..., D]: [...]."""

    def many(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return the utilities of vectors [K, D] to profiles [M, D], for sums over many: [M, K]."""
        return self.exact(profiles, vectors)

    def exact(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return the same to the last digit, for rankings: [M, K]."""
        return self.pairs(profiles[:, None], vectors)

    words: ClassVar[str] = "how well it suits the user"
    """what it says of an item, in explanations"""


BASE = Relevance
