"""The bias b_i of an item, the same for all users, learned beside its vector."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import PositiveFloat

from slatewise.config import Config
from slatewise.model.terms.known import ItemColumn
from slatewise.model.terms.term import Ranks, Term

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class BiasSettings(Config):
    """Settings of the item bias."""

    kappa_bias: PositiveFloat = 0.5
    """κ_b, prior of the group means of item biases, and folded-normal prior of their scales."""
    sigma_bias: PositiveFloat = 0.5
    """σ_b, flat prior of the item biases."""


class Bias(Term):
    """b_i, in a column of the item table after the vector; the kernels take one such column."""

    name = "bias"
    ranks: ClassVar[Ranks] = "all items"
    Settings = BiasSettings

    @classmethod
    def unused(cls, config: "ModelConfig") -> Mapping[str, str]:
        """Return the scale of the other prior."""
        others = {
            "flat": {"kappa_bias": 'prior = "hierarchical"'},
            "hierarchical": {"sigma_bias": 'prior = "flat"'},
        }
        return others.get(config.prior, {})

    @classmethod
    def item_columns(cls, config: "ModelConfig") -> tuple[ItemColumn, ...]:
        """Return the prior scales of the column."""
        own = config.of(cls)
        return (ItemColumn(sigma=own.sigma_bias, kappa=own.kappa_bias),)


PART: Final = Bias
