"""All settings of a service, read from TOML; without a file, all have values that work."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from slatewise.config import Config, read_toml
from slatewise.service.settings.arms import ArmConfig, Name
from slatewise.service.settings.nights import ModelSpec, RetrainingConfig


class StoreConfig(Config):
    """Where slates and outcomes are stored."""

    url: str | None = None
    """`postgresql://…` or `sqlite:///…`; without it, `store.sqlite` in the service's directory."""


class LimitsConfig(Config):
    """The largest requests that are answered."""

    body_bytes: PositiveInt = 1_000_000
    """Largest body of a request."""
    requests_per_second: PositiveFloat = 1_000.0
    """Of one token, on average, over all workers and hosts; every 10 kB of a larger body count as
    one."""
    batch: PositiveInt = 1_000
    """Most events, or items, of one request."""
    k: PositiveInt = 200
    """Most items of a slate."""
    ids: PositiveInt = 10_000
    """Most ids in a list of a request: clicks, exclude, allow, groups."""


class LearningConfig(Config):
    """What is learned before the next night."""

    between_nights: bool = False
    """Whether every answer to a slate of ours moves the vectors and biases of its items at once."""
    seconds: PositiveFloat = 10.0
    """How often workers take new answers into account."""


class RetentionConfig(Config):
    """When slates leave the store."""

    days: PositiveFloat | None = None
    """Age at which slates leave; without it, all stay."""
    archive: str | None = None
    """Folder for Parquet files by day, in the service's directory unless it is absolute; without
    it, what leaves is deleted."""
    rewrite: bool = False
    """Whether nights write a large file of SQLite anew after people were erased, so that no byte of
    them is left; events wait for as long as that takes."""


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
    """Most recent visits of a user that are taken into account, and most clicks of a request."""
    cache_users: NonNegativeInt = 10_000
    """Users whose history a worker keeps in memory: 8 to 9 kB for 20 slates of 20 items."""
    cache_seconds: NonNegativeFloat = 5.0
    """Age at which a history is read again; workers of one directory tell each other at once, so
    this matters between hosts."""
    tracing: bool = False
    """Whether requests are traced by OpenTelemetry, whose variables in the environment say where
    spans go; needs the extra `tracing`."""
    limits: LimitsConfig = LimitsConfig()
    retraining: RetrainingConfig = RetrainingConfig()
    learning: LearningConfig = LearningConfig()
    retention: RetentionConfig = RetentionConfig()

    @model_validator(mode="after")
    def _fits(self) -> Self:
        for name, arm in self.arms.items():
            if arm.model not in self.models:
                raise ValueError(f"arm '{name}' asks for model '{arm.model}', which is not there")
        if not any(arm.share for arm in self.arms.values()):
            raise ValueError("no arm has a share of the users")
        days, window = self.retention.days, self.retraining.window_days
        if days is not None and days < window:
            raise ValueError(
                f"slates stay for {days:g} days (retention) and are learned from for {window:g} "
                "(retraining.window_days)"
            )
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
