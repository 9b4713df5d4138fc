"""Platforms so small that a day takes milliseconds."""

from pathlib import Path
from typing import Any

from slatewise.experiments.online import OnlineConfig
from slatewise.experiments.platform import Platform
from slatewise.experiments.study import Bench

SMALL: dict[str, Any] = {
    "seeds": (0,),
    "preset": "tiny",
    "users": 60,
    "window": 4,
    "stay": 6,
    "split": {"valid_share": 0.2, "test_share": 0.0, "prefix": 2},
    "training": {"max_epochs": 1},
    "nightly": {"max_epochs": 1},
    "model": {"dimensions": 3},
    "resamples": 50,
}


def small(**changes: Any) -> OnlineConfig:
    return OnlineConfig.build(SMALL | changes, "test")


def platform(folder: Path, *, arms: int = 3, days: int = 8, **changes: Any) -> Platform:
    config = small(**changes)
    return Platform(config, config.simulated(0), days, arms, folder)


def bench(folder: Path) -> Bench:
    folder.mkdir(parents=True, exist_ok=True)
    return Bench(folder, folder, lambda stage, done, total: None)


CHURN: dict[str, Any] = {
    "policy": "front-page",
    "catalogue": {"items": 600, "groups": 10, "dimensions": 3},
    "life": {"hours": 48.0, "new_groups": 0.3},
    "features": {"of_quality": 1},
    "effects": {"quality_sd": 0.5},
    "days": 10,
}
"""A world where items live for two days, and a third of the groups are new."""


def market(folder: Path, **changes: Any) -> Platform:
    """Return a platform where items come and go."""
    return platform(folder, arms=1, simulation=CHURN, **changes)
