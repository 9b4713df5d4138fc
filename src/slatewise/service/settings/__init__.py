"""What people set about a service: its store, models, arms, limits and nights."""

from slatewise.service.settings.arms import ArmConfig
from slatewise.service.settings.learning import LearningConfig
from slatewise.service.settings.nights import ModelSpec, RetrainingConfig
from slatewise.service.settings.retention import RetentionConfig
from slatewise.service.settings.service import LimitsConfig, ServiceConfig

__all__ = [
    "ArmConfig",
    "LearningConfig",
    "LimitsConfig",
    "ModelSpec",
    "RetentionConfig",
    "RetrainingConfig",
    "ServiceConfig",
]
