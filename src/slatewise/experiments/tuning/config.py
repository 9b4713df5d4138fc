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
    """One search each, in another world; on a dataset with another start of training."""
    variants: tuple[str, ...] = Field(default=("slate-gru-hier",), min_length=1)
    """The models that are tuned, one after the other."""
    trials: PositiveInt = 20
    """Trials of each search."""
    first: PositiveInt = 6
    """Trials before the surrogate chooses: the defaults, then a Sobol sequence."""
    at_once: PositiveInt = 1
    """Trials of a search that are chosen together and, on a cluster, run side by side."""
    objective: Literal["validation-likelihood", "hitrate"] = "validation-likelihood"
    """What is searched for; `hitrate` is the paper's, and a poor judge of models."""
    ranges: dict[str, Range] = Field(default={})
    """Ranges of settings instead of the usual ones."""
    starts: PositiveInt = 3
    """Trainings, from fresh seeds, by which the best settings are held against the defaults."""
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
