"""From a request to a slate: models, items, users and popularity as they are now."""

from slatewise.service.serving.arms import Arm
from slatewise.service.serving.replayer import Replayer, replay
from slatewise.service.serving.request import Request
from slatewise.service.serving.service import Service
from slatewise.service.serving.startup import warm_up

__all__ = ["Arm", "Replayer", "Request", "Service", "replay", "warm_up"]
