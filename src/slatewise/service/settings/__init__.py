"""What people set about a service: its store, models, arms, limits and nights."""

from slatewise.service.settings.arms import ArmConfig
from slatewise.service.settings.nights import ModelSpec, RetrainingConfig
from slatewise.service.settings.service import (
    LearningConfig,
    LimitsConfig,
    RetentionConfig,
    ServiceConfig,
)

__all__ = [
    "ArmConfig",
    "LearningConfig",
    "LimitsConfig",
    "ModelSpec",
    "RetentionConfig",
    "RetrainingConfig",
    "ServiceConfig",
]
