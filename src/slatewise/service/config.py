"""The settings of a service, read from TOML; without a file, all have values that work."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from slatewise.config import Config, read_toml
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.slates.strategies import STRATEGIES, Strategy, named_strategy, strategy_line
from slatewise.training.config import TrainingConfig

_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _named(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"'{name}' is no name: write small letters, digits, - and _")
    return name


def _a_time(text: str | None) -> str | None:
    if text is not None and not _TIME.fullmatch(text):
        raise ValueError(f"'{text}' is no time of day: write it as 03:00")
    return text


Name = Annotated[str, AfterValidator(_named)]
"""Of a model or an arm: it is also the name of a directory, or a word in a log."""


class StoreConfig(Config):
    """Where slates and what became of them are kept."""

    url: str | None = None
    """`postgresql://…` or `sqlite:///…`; without it, `store.sqlite` in the service's directory."""


class ModelSpec(Config):
    """A model that is trained again every night."""

    model: ModelConfig = ModelConfig()
    """What it is: the settings of `slatewise train`; those not given are the served version's."""
    training: TrainingConfig = TrainingConfig()
    """How it is fitted; likewise."""
    auto: bool = False
    """Let the first night choose the terms that the log asks for."""


class ArmConfig(Config):
    """One way of making slates, for a share of the users; all other settings are the strategy's."""

    model_config = ConfigDict(extra="allow")

    model: Name = "main"
    """The model that ranks."""
    strategy: str = "in-slate-thompson"
    """How its posterior becomes a slate."""
    share: NonNegativeFloat = 1.0
    """Of the users, relative to the other arms; 0 for an arm that rests."""
    propensities: NonNegativeInt = 0
    """Slates drawn to log how likely each item was where it stands; 0 logs none. Each costs as much
    as a slate."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        known = STRATEGIES.get(self.strategy, Config).setting_names()
        for name in self.model_extra or {}:
            if name not in known:
                names = ", ".join([*self.setting_names(), *known])
                raise ValueError(f"'{name}': there is no such setting. The settings are {names}")
        try:
            self.made  # noqa: B018 (refuses what the strategy does not have)
        except SlatewiseError as error:
            raise ValueError(error.problem.rstrip(".")) from error
        return self

    @property
    def made(self) -> Strategy:
        """The strategy, with its settings."""
        return named_strategy(self.strategy, self.model_extra)

    @property
    def line(self) -> str:
        """The strategy with its settings, as the log has it."""
        return strategy_line(self.strategy, self.made)


class LimitsConfig(Config):
    """The largest requests that are answered."""

    body_bytes: PositiveInt = 1_000_000
    """Largest body of a request."""
    requests_per_second: PositiveFloat = 1_000.0
    """Of one token, on average, over all workers of a host."""
    batch: PositiveInt = 1_000
    """Most events, or items, of one request."""
    k: PositiveInt = 200
    """Most items of a slate."""
    ids: PositiveInt = 10_000
    """Most ids in a list of a request: clicks, exclude, allow."""


class RetrainingConfig(Config):
    """What happens at night."""

    at: Annotated[str | None, AfterValidator(_a_time)] = None
    """Time of day, such as 03:00 local time; without it only `slatewise retrain` trains."""
    window_days: PositiveFloat = 28.0
    """How much of the past is trained on."""
    min_slates: PositiveInt = 1_000
    """Slates with an outcome below which nothing is trained yet."""
    promote: Literal["not-worse", "better", "always"] = "not-worse"
    """When the new model takes over, by the newest day."""
    tolerance: NonNegativeFloat = 0.01
    """Loss of mean log-likelihood that `not-worse` does not mind."""
    keep: Annotated[int, Field(ge=2)] = 7
    """Versions of a model that are kept."""


class ServiceConfig(Config):
    """All settings of a service."""

    store: StoreConfig = StoreConfig()
    models: dict[Name, ModelSpec] = Field(default={"main": ModelSpec()}, min_length=1)
    """By name."""
    arms: dict[Name, ArmConfig] = Field(default={"main": ArmConfig()}, min_length=1)
    """By name."""
    salt: str = "slatewise"
    """Of the assignment of users to arms; another one deals them out anew."""
    source: Annotated[str, Field(min_length=1)] = "recommendation"
    """What our own slates are called in the log, unless a request says otherwise."""
    history: PositiveInt = 200
    """Most recent visits of a user that are taken into account."""
    cache_users: NonNegativeInt = 10_000
    """Users whose history a worker keeps in memory: 8 to 9 kB for 20 slates of 20 items."""
    cache_seconds: NonNegativeFloat = 5.0
    """Age at which a history is read again; workers of one directory tell each other at once, so
    this matters between hosts."""
    limits: LimitsConfig = LimitsConfig()
    retraining: RetrainingConfig = RetrainingConfig()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name, arm in self.arms.items():
            if arm.model not in self.models:
                raise ValueError(f"arm '{name}' asks for model '{arm.model}', which is not there")
        if not any(arm.share for arm in self.arms.values()):
            raise ValueError("no arm has a share of the users")
        return self

    @classmethod
    def read(cls, path: Path | None) -> "ServiceConfig":
        """Read a TOML file; without one, take the defaults."""
        return cls() if path is None else cls.build(read_toml(path), str(path))

    @property
    def shares(self) -> Mapping[str, float]:
        """The share of each arm; they need not add up to 1."""
        return {name: arm.share for name, arm in self.arms.items()}

    def store_url(self, directory: Path) -> str:
        """Return where the store of a service in `directory` is."""
        return self.store.url or f"sqlite:///{(directory / 'store.sqlite').resolve()}"

    def changed(self, **values: Any) -> "ServiceConfig":
        """Return the same settings with some replaced, checked again."""
        # Only what was given: a night goes on with the served model's other settings.
        given = self.model_dump(exclude_unset=True)
        return ServiceConfig.build(given | values, "the settings")
