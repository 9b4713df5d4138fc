"""Arms that were changed while the service ran: a text in the store, followed by all workers.

Whichever was changed last wins. The text says which arms of the settings it changes; once those are
others, it counts no more.
"""

import json
import logging
from collections.abc import Mapping
from typing import Any

from slatewise.errors import SlatewiseError
from slatewise.service.settings.arms import ArmConfig
from slatewise.service.settings.service import ServiceConfig

_log = logging.getLogger(__name__)


def with_changed_arms(config: ServiceConfig, text: str) -> ServiceConfig:
    """Return the settings with the arms of a text; an empty one changes nothing."""
    if not text:
        return config
    try:
        found = json.loads(text)
        if found["settings"] != _plain(config.arms):
            _log.warning("Changed arms are not used: those of the settings have changed since.")
            return config
        return config.changed(arms=found["arms"])
    except (ValueError, KeyError, TypeError, SlatewiseError) as error:
        _log.error("Changed arms are not used, the arms are those of the settings: %s", error)
        return config


def changed_arms_text(config: ServiceConfig, arms: Mapping[str, ArmConfig]) -> str:
    """Return the text that lets other arms run than those of the settings; refuse impossible ones.

    Every service with the same arms in its settings takes it.
    """
    changed = config.changed(arms=_plain(arms))
    return json.dumps({"settings": _plain(config.arms), "arms": _plain(changed.arms)})


def _plain(arms: Mapping[str, ArmConfig]) -> dict[str, Any]:
    return {name: arm.model_dump(mode="json") for name, arm in arms.items()}
