"""Settings of a search."""

from typing import Literal, Self

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from slatewise.config import SettingError, require_known
from slatewise.errors import SlatewiseError
from slatewise.experiments.study import StudyConfig
from slatewise.experiments.tuning.space import Range, Space, checked_ranges
from slatewise.experiments.variants import VARIANTS, require_use, variant_config


class TuneConfig(StudyConfig):
    """Settings of the search."""

    seeds: tuple[NonNegativeInt, ...] = Field(default=(0,), min_length=1)
    """Searches: each in another world or, on a dataset, from another start of training."""
    variants: tuple[str, ...] = Field(default=("slate-gru-hier",), min_length=1)
    """Models to tune, one search each."""
    trials: PositiveInt = 20
    """Trials of each search."""
    first: PositiveInt = 6
    """Trials before the Gaussian process chooses."""
    at_once: PositiveInt = 1
    """Trials chosen together; on a cluster they run side by side."""
    objective: Literal["validation-likelihood", "hitrate"] = "validation-likelihood"
    """What is searched for; `hitrate` is the paper's, and selects badly."""
    ranges: dict[str, Range] = Field(default={})
    """Other ranges of settings."""
    starts: PositiveInt = 3
    """Fresh seeds that compare the best settings with the defaults."""
    k: PositiveInt = 20
    """Length of recommended lists."""
    resamples: PositiveInt = 1_000
    """Resamples of users behind every interval."""

    @model_validator(mode="after")
    def _searchable(self) -> Self:
        require_known(self.variants, VARIANTS, "variant")
        if len(set(self.variants)) < len(self.variants):
            raise ValueError("a variant is given twice")
        try:
            checked_ranges(self.ranges)
            require_use(self.model, self.variants)
        except SlatewiseError as error:
            raise SettingError.of(error) from error
        return self

    def space(self, variant: str) -> Space:
        """Return what is searched for a variant."""
        model = variant_config(variant, self.model)
        return Space.of(model, self.training, checked_ranges(self.ranges))
