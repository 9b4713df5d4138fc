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
    """`postgresql://…` or `sqlite:///…`; if not set, `store.sqlite` in the service's directory."""


class LimitsConfig(Config):
    """The largest requests that are answered."""

    body_bytes: PositiveInt = 1_000_000
    """Largest body of a request."""
    requests_per_second: PositiveFloat = 1_000.0
    """Mean rate per token, over all workers and hosts."""
    batch: PositiveInt = 1_000
    """Most events or items in a request."""
    k: PositiveInt = 200
    """Most items in a slate."""
    ids: PositiveInt = 10_000
    """Most ids in a list of a request: clicks, exclude, allow, groups."""


class LearningConfig(Config):
    """What is learned before the next night."""

    between_nights: bool = False
    """Whether feedback on our slates updates the vectors and biases of their items at once."""
    seconds: PositiveFloat = 10.0
    """How often workers take in new feedback."""


class RetentionConfig(Config):
    """When slates leave the store."""

    days: PositiveFloat | None = None
    """Age at which slates leave; if not set, all stay. At least `window_days` of `[retraining]`."""
    archive: str | None = None
    """Folder for Parquet files by day, in the service's directory unless absolute; if not set,
    slates are deleted."""
    rewrite: bool = False
    """Whether nights rewrite a large SQLite file after people were erased, so that no byte of them
    is left. Events wait meanwhile."""


class ServiceConfig(Config):
    """All settings of a service."""

    store: StoreConfig = StoreConfig()
    """Section: where slates and outcomes are stored (`url`)."""
    models: dict[Name, ModelSpec] = Field(default={"main": ModelSpec()}, min_length=1)
    """Models by name, each in `[models.NAME]`."""
    arms: dict[Name, ArmConfig] = Field(default={"main": ArmConfig()}, min_length=1)
    """Arms by name, each in `[arms.NAME]`."""
    salt: str = "slatewise"
    """Salt of the assignment of users to arms; a new one reassigns all."""
    source: Annotated[str, Field(min_length=1)] = "recommendation"
    """Source of our slates in the log, unless a request names one."""
    history: PositiveInt = 200
    """Newest visits of a user that count, and most clicks in them."""
    cache_users: NonNegativeInt = 10_000
    """Users whose history a worker caches, 8 to 9 kB each."""
    cache_seconds: NonNegativeFloat = 5.0
    """With several hosts: age at which a cached history is read again."""
    tracing: bool = False
    """Whether requests are traced by OpenTelemetry; needs the extra `tracing`."""
    limits: LimitsConfig = LimitsConfig()
    """Section: limits of requests."""
    retraining: RetrainingConfig = RetrainingConfig()
    """Section: nights."""
    learning: LearningConfig = LearningConfig()
    """Section: learning between nights."""
    retention: RetentionConfig = RetentionConfig()
    """Section: how long slates stay."""

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
