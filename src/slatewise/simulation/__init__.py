"""A marketplace that makes logs, answers policies with clicks, and knows the truth."""

from slatewise.simulation.catalogue import Catalogue
from slatewise.simulation.config import (
    PRESETS,
    CatalogueConfig,
    IntentConfig,
    OutsideConfig,
    PaperConfig,
    SearchConfig,
    SimulationConfig,
    load_config,
)
from slatewise.simulation.intent import Users
from slatewise.simulation.log import LogSummary, SourceSummary, write_log
from slatewise.simulation.marketplace import Interactions, Marketplace
from slatewise.simulation.policies import (
    MoreLikeThis,
    Policy,
    Promoted,
    RandomPolicy,
    named_policy,
)

__all__ = [
    "PRESETS",
    "Catalogue",
    "CatalogueConfig",
    "IntentConfig",
    "Interactions",
    "LogSummary",
    "Marketplace",
    "MoreLikeThis",
    "OutsideConfig",
    "PaperConfig",
    "Policy",
    "Promoted",
    "RandomPolicy",
    "SearchConfig",
    "SimulationConfig",
    "SourceSummary",
    "Users",
    "load_config",
    "named_policy",
    "write_log",
]
