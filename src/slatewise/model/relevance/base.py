"""What every relevance has: the utility of a profile z and an item vector v.

Shapes: M profiles, K items, D dimensions.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.model.part import Part

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


Array = npt.NDArray[Any]


class Relevance(Part):
    """A utility of profile and vector, in plain torch.

    With `fused`, the compiled loops of training and ranking know it by its name. Without, training
    takes the plain functions, and rankings score all items in blocks: exact, and slower.
    """

    fused: ClassVar[bool] = False
    has_no: ClassVar[Mapping[str, str]] = {
        "parameters": "A relevance is a function of profile and vector: "
        "put what is learned into a term or into dynamics."
    }
    restates: ClassVar[Mapping[str, frozenset[str]]] = {
        **dict.fromkeys(("many", "exact", "order", "of_arrays"), frozenset(["pairs"])),
        "with_spread": frozenset(["pairs"]),
        "arrays_with_spread": frozenset(["with_spread"]),
        "gradients": frozenset(["pairs", "with_spread"]),
        "ranking": frozenset(["pairs"]),
        "fused": frozenset(["name", "pairs", "with_spread"]),
    }

    def __init__(self, config: "ModelConfig | None" = None) -> None:
        if config is not None:
            super().__init__(config)

    @classmethod
    def check(cls, config: "ModelConfig") -> None:
        """Refuse one that counts on compiled loops, which do not know it."""
        from slatewise.model.kernels.backend import FusedRelevance  # noqa: PLC0415 (imports this)

        if cls.fused and cls.name not in get_args(FusedRelevance):
            raise ValueError(
                f"no compiled loops know the relevance '{cls.name}': set its `fused` to False"
            )

    @abstractmethod
    def pairs(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return the utility of each vector [..., D] to its own profile [..., D]: [...]."""

    def many(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return the utilities of vectors [K, D] to profiles [M, D], for sums over many: [M, K]."""
        return self.exact(profiles, vectors)

    def exact(self, profiles: Tensor, vectors: Tensor) -> Tensor:
        """Return the same to the last digit, for rankings: [M, K]."""
        return self.pairs(profiles[:, None], vectors)

    def with_spread(
        self, profiles: Tensor, vectors: Tensor, variances: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return profiles [M, D'] and vectors [K, D'] whose utility is that of uncertain vectors.

        `vectors` [K, D] are means, and `variances` [K] the variances around each, summed over
        dimensions. A relevance that does not say more is predicted and ranked at the means.
        """
        return profiles, vectors

    def arrays_with_spread(
        self, profiles: Array, vectors: Array, variances: Array
    ) -> tuple[Array, Array]:
        """Return the same of arrays."""
        given = (torch.from_numpy(array) for array in (profiles, vectors, variances))
        wider, items = self.with_spread(*given)
        return wider.numpy(), items.numpy()

    def gradients(self, profile: Array, vectors: Array, variances: Array) -> tuple[Array, Array]:
        """Return the utility of uncertain vectors, and its derivatives by their means.

        Of vectors with means [k, D] and variances [k], summed over dimensions, to a profile [D]:
        [k] and [k, D].
        """
        means = torch.from_numpy(vectors).requires_grad_()
        given = torch.from_numpy(profile)[None], means, torch.from_numpy(variances)
        wider, items = self.with_spread(*given)
        utility = self.pairs(wider, items)
        (slopes,) = torch.autograd.grad(utility.sum(), means)
        return utility.detach().numpy(), slopes.numpy()

    def of_arrays(self, profiles: Array, vectors: Array) -> Array:
        """Return the same as `pairs`, of arrays [..., D] for the slate of one user: [...]."""
        found = self.pairs(torch.from_numpy(profiles), torch.from_numpy(vectors))
        return np.asarray(found.numpy())

    @property
    def ranking(self) -> str | Callable[[Array, Array], Array]:
        """What rankings know it by: the name of compiled loops, or the function itself."""
        if self.fused:
            return self.name
        return lambda profiles, vectors: np.asarray(
            self.exact(torch.from_numpy(profiles), torch.from_numpy(vectors)).numpy()
        )

    words: ClassVar[str] = "how well it suits the user"
    """its meaning, in explanations"""


BASE = Relevance
