"""What a worker is started with, and how: light, so that the process that starts it stays small."""

import multiprocessing
import os
import signal
import threading
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slatewise.service.config import ServiceConfig
from slatewise.service.http.security import Tokens

if TYPE_CHECKING:
    from fastapi import FastAPI


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "%(asctime)s %(process)d %(levelname)s %(name)s %(message)s"}
    },
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
    """End as after SIGTERM when the parent is killed: nobody else would ever end a worker."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
