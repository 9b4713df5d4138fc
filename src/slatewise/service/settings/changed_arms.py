"""Arms that were changed while the service ran: `DIR/arms.json`, followed by all of its workers.

Whichever was changed last wins. The file says which arms of the settings it changes; once those are
others, it counts no more.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from slatewise.errors import SlatewiseError
from slatewise.files import atomic_file
from slatewise.service.settings.arms import ArmConfig
from slatewise.service.settings.service import ServiceConfig

ARMS: Final = "arms.json"
_log = logging.getLogger(__name__)


def with_changed_arms(directory: Path, config: ServiceConfig) -> ServiceConfig:
    """Return the settings with the arms that were changed since, if any were."""
    try:
        found = json.loads((directory / ARMS).read_text(encoding="utf-8"))
        if found["settings"] != _plain(config.arms):
            _log.warning("%s is not used: the arms of the settings have changed since.", ARMS)
            return config
        return config.changed(arms=found["arms"])
    except FileNotFoundError:
        return config
    except (OSError, ValueError, KeyError, TypeError, SlatewiseError) as error:
        _log.error("%s is not used, the arms are those of the settings: %s", ARMS, error)
        return config


def change_arms(
    directory: Path, config: ServiceConfig, arms: Mapping[str, ArmConfig]
) -> ServiceConfig:
    """Let other arms run than those of the settings, from now on; return the new settings."""
    changed = config.changed(arms=_plain(arms))
    values = {"settings": _plain(config.arms), "arms": _plain(changed.arms)}
    with atomic_file(directory / ARMS, durable=True) as partial:
        partial.write_text(json.dumps(values, indent=2) + "\n", encoding="utf-8")
    return changed


def restore_arms(directory: Path) -> None:
    """Return to the arms of the settings."""
    (directory / ARMS).unlink(missing_ok=True)


def stamp(directory: Path) -> tuple[int, int] | None:
    """Return what tells one file from the next, without reading it; None for none."""
    try:
        found = (directory / ARMS).stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _plain(arms: Mapping[str, ArmConfig]) -> dict[str, Any]:
    return {name: arm.model_dump(mode="json") for name, arm in arms.items()}
