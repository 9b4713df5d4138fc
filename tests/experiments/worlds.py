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
