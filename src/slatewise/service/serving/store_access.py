"""Questions to a store that may be out of reach: slates are made without it meanwhile."""

import logging
import time
from collections.abc import Callable
from typing import Final, TypeVar

from slatewise.service.store import StoreError

logger = logging.getLogger(__name__)

T = TypeVar("T")

_PAUSE: Final = 1.0
"""Seconds for which the store is not asked again after it could not be reached."""
_TRIAL: Final = 10.0
"""Seconds for which no other thread asks while one tries whether it can be reached again."""


class StoreAccess:
    """Asks the store for all threads of a worker, and pauses while it cannot be reached."""

    def __init__(self) -> None:
        self._paused_until = 0.0
        self._in_trouble = False

    def ask(self, work: Callable[[], T]) -> T | None:
        """Ask the store; None if it cannot be reached.

        While it is in trouble one at a time tries again: all others would wait with it for a server
        that says nothing.
        """
        now = time.monotonic()
        if now < self._paused_until:
            return None
        if self._in_trouble:
            self._paused_until = now + _TRIAL
        try:
            result = work()
        except StoreError as error:
            self.pause(error)
            return None
        self._in_trouble, self._paused_until = False, 0.0
        return result

    def pause(self, error: StoreError) -> None:
        """Leave the store alone for a while after an error."""
        logger.warning("The store cannot be reached: %s", error)
        self._in_trouble, self._paused_until = True, time.monotonic() + _PAUSE
