"""A marketplace that makes logs, answers policies with clicks, and knows the truth."""

from slatewise.simulation.catalogue import Catalogue
from slatewise.simulation.config import (
    CatalogueConfig,
    EffectsConfig,
    FeaturesConfig,
    IntentConfig,
    LifeConfig,
    OutsideConfig,
    PaperConfig,
    SearchConfig,
    SimulationConfig,
)
from slatewise.simulation.intent import Users
from slatewise.simulation.life import Life
from slatewise.simulation.log import LogSummary, SourceSummary, write_log
from slatewise.simulation.marketplace import Interactions, Marketplace
from slatewise.simulation.policies import (
    FrontPagePolicy,
    MoreLikeThisPolicy,
    Policy,
    PromotedPagePolicy,
    PromotedPolicy,
    RandomPolicy,
    TimedPolicy,
    named_policy,
)
from slatewise.simulation.presets import PRESETS, load_config

__all__ = [
    "PRESETS",
    "Catalogue",
    "CatalogueConfig",
    "EffectsConfig",
    "FeaturesConfig",
    "FrontPagePolicy",
    "IntentConfig",
    "Interactions",
    "Life",
    "LifeConfig",
    "LogSummary",
    "Marketplace",
    "MoreLikeThisPolicy",
    "OutsideConfig",
    "PaperConfig",
    "Policy",
    "PromotedPagePolicy",
    "PromotedPolicy",
    "RandomPolicy",
    "SearchConfig",
    "SimulationConfig",
    "SourceSummary",
    "TimedPolicy",
    "Users",
    "load_config",
    "named_policy",
    "write_log",
]
