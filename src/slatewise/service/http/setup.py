"""What a worker is started with, and how: light, so that the process that starts it stays small."""

import logging
import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slatewise.service.http.security import Tokens
from slatewise.service.settings import ServiceConfig

if TYPE_CHECKING:
    from fastapi import FastAPI


class Line(logging.Formatter):
    """Writes what is usual, in half of the time: there is a line for every request.

    A second is put into words once for all of its lines; handlers call this one at a time.
    """

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(process)d %(levelname)s %(name)s %(message)s")
        self._second, self._words = -1, ""

    def format(self, record: logging.LogRecord) -> str:
        """Return a line, or several if there is a trace to show."""
        if record.exc_info or record.exc_text or record.stack_info:
            return super().format(record)
        if self._second != int(record.created):
            self._second = int(record.created)
            self._words = self.formatTime(record, self.default_time_format)
        time = f"{self._words},{int(record.msecs):03d}"
        return f"{time} {record.process} {record.levelname} {record.name} {record.getMessage()}"


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": Line}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["stderr"], "level": "INFO"},
}


@dataclass(frozen=True)
class Setup:
    """What a worker is started with."""

    directory: Path
    config: ServiceConfig
    tokens: Tokens | None
    """None: open to this machine"""
    rates: Path
    """the file in which workers count requests together"""


def worker(setup: Setup) -> "FastAPI":
    """Return the application of a worker, which ends when the process that started it is gone."""
    from slatewise.service.http.app import application  # noqa: PLC0415
    from slatewise.service.http.backend import Backend  # noqa: PLC0415

    end_with_parent()
    return application(partial(Backend.open, setup))


def end_with_parent() -> None:
    """End as after SIGTERM when the parent is killed: nothing else would end a worker."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
