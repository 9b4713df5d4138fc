"""Settings of all online studies: users, visits, and how models are retrained."""

from dataclasses import dataclass
from typing import Self

from pydantic import PositiveFloat, PositiveInt, model_validator

from slatewise.config import SettingError, require_known
from slatewise.data.split import SplitConfig
from slatewise.errors import SlatewiseError
from slatewise.experiments.study import StudyConfig
from slatewise.experiments.variants import VARIANTS
from slatewise.plugins import is_import_path
from slatewise.slates.strategies import STRATEGIES, named_strategy
from slatewise.training.config import TrainingConfig


@dataclass(frozen=True)
class Arm:
    """A model and a strategy that fill the recommendation slates of a share of the users."""

    variant: str
    strategy: str = "greedy"

    @property
    def name(self) -> str:
        """The paper's name of it, such as slate-gru-hier-greedy."""
        return f"{self.variant}-{_called(self.strategy)}"


class OnlineConfig(StudyConfig):
    """A platform that serves for days, and learns at night from what it recorded."""

    users: PositiveInt | None = None
    """People on the platform at a time; half of the preset's if not set."""
    slates_a_day: PositiveFloat = 1.4
    """Mean slates of a person per day (Poisson)."""
    stay: PositiveInt = 28
    """Days from a user's arrival to her leaving."""
    window: PositiveInt = 28
    """Days of log that models learn from."""
    split: SplitConfig = SplitConfig(valid_share=0.1, test_share=0.0)
    """Share of each night's users held out for validation."""
    nightly: TrainingConfig = TrainingConfig(
        learning_rate=0.006, max_epochs=4, patience=4, plateau=2
    )
    """How models are retrained, after `training` on the first night."""
    item_features: bool = False
    """Whether models read the features of items."""
    between_nights: bool = False
    """Whether models learn from answers during the day, too."""
    few_views: PositiveInt = 20
    """Training views below which an item counts as little seen."""
    resamples: PositiveInt = 1_000
    """Resamples of users behind every interval."""

    @model_validator(mode="after")
    def _online(self) -> Self:
        if self.dataset is not None:
            raise ValueError("a dataset does not answer to slates: leave it out, and simulate")
        features = self.simulated(self.seeds[0]).features
        if self.item_features and not features.of_vector + features.of_quality:
            raise ValueError("items of this world have no features for models to read")
        return self

    def people(self) -> int:
        """Return how many people are on the platform at any time."""
        return self.users or max(1, self.simulated(self.seeds[0]).users // 2)


def require_variants(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse names that no variant has."""
    return _require(names, list(VARIANTS), "variant")


def require_strategies(names: tuple[str, ...]) -> tuple[str, ...]:
    """Refuse names that no strategy has, and import paths of objects that are no strategy."""
    try:
        own = [_called(name) for name in names if is_import_path(name)]
    except SlatewiseError as error:
        raise SettingError.of(error) from error
    built_in = [name for name in names if not is_import_path(name)]
    _require((*built_in, *own), [*STRATEGIES, *own], "strategy")
    return names


def _called(strategy: str) -> str:
    """Return the name of a strategy that is given by name or import path."""
    return named_strategy(strategy).name if is_import_path(strategy) else strategy


def _require(names: tuple[str, ...], known: list[str], what: str) -> tuple[str, ...]:
    require_known(names, known, what)
    if len(set(names)) < len(names):
        raise ValueError(f"a {what} is given twice")
    return names
