"""Nights: what is trained again, when, on how much, and when it takes over."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, NonNegativeFloat, PositiveFloat, PositiveInt

from slatewise.config import Config
from slatewise.model.config import ModelConfig
from slatewise.training.config import TrainingConfig

_TIME = re.compile(r"([01]\d|2[0-3]):[0-5]\d")


def _a_time(text: str | None) -> str | None:
    if text is not None and not _TIME.fullmatch(text):
        raise ValueError(f"'{text}' is no time of day: write it as 03:00")
    return text


class ModelSpec(Config):
    """A model that is trained again every night."""

    model: ModelConfig = ModelConfig()
    """What it is: the settings of `slatewise train`; those not given are the served version's."""
    training: TrainingConfig = TrainingConfig()
    """How it is fitted; likewise."""
    auto: bool = False
    """Let the first night choose the terms that the log asks for."""


class RetrainingConfig(Config):
    """What happens at night."""

    at: Annotated[str | None, AfterValidator(_a_time)] = None
    """Local time of day, such as 03:00, at which `slatewise serve` retrains; if not set, only
    `slatewise retrain` does."""
    window_days: PositiveFloat = 28.0
    """Days that are trained on."""
    min_slates: PositiveInt = 1_000
    """Slates with an outcome that training needs."""
    promote: Literal["not-worse", "better", "always"] = "not-worse"
    """When the new model takes over, by the newest day: `not-worse`, `better` or `always`."""
    tolerance: NonNegativeFloat = 0.01
    """Loss that `not-worse` accepts if it is not certain, in nats per interaction."""
    keep: Annotated[int, Field(ge=2)] = 7
    """Versions kept of a model."""
