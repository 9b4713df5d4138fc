"""What a worker is started with, and how: light, so that the process that starts it stays small."""

import atexit
import gc
import logging
import multiprocessing
import os
import queue
import select
import signal
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slatewise.service.http.security import Tokens
from slatewise.service.settings import ServiceConfig

if TYPE_CHECKING:
    from fastapi import FastAPI

    from slatewise.service.http.backend import Backend
    from slatewise.service.http.metrics import Metrics

ROOM_OF_LINE = 512
"""bytes of a usual line, at most"""
LAST_LINES = 2.0
"""seconds in which the last lines of a log must be read"""
NEW_OBJECTS = 20_000
"""that a worker makes before it looks for cycles among them: a batch of feedback is some 3,000,
all without cycles"""


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
        when = f"{self._words},{int(record.msecs):03d}"
        # uvicorn logs starts and stops under a name that reads as if they were errors.
        name = "uvicorn" if record.name == "uvicorn.error" else record.name
        return f"{when} {record.process} {record.levelname} {name} {record.getMessage()}"


class Log(logging.Handler):
    """Writes lines to standard error from a thread of its own.

    Whoever reads them may stop reading: a pipe that is full must not stop the service. Lines that
    find no room are lost and counted.
    """

    def __init__(self, file: int = 2, room: int = 10_000) -> None:
        super().__init__()
        self._file = file
        self._lines: queue.Queue[str | None] = queue.Queue(room)
        self._lost = 0
        self._ending = False
        self._thread = threading.Thread(target=self._write, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a line to be written."""
        try:
            self._lines.put_nowait(self.format(record))
        except queue.Full:
            self._lost += 1

    def flush(self) -> None:
        """Wait a moment for what waits to be written."""
        end = time.monotonic() + LAST_LINES
        while self._thread.is_alive() and self._lines.unfinished_tasks and time.monotonic() < end:
            time.sleep(0.01)

    def close(self) -> None:
        """Wait a moment for what waits to be written, and end."""
        if self._thread.is_alive():
            with suppress(queue.Full):
                self._lines.put(None, timeout=LAST_LINES)
            self._thread.join(LAST_LINES)
        super().close()

    def _write(self) -> None:
        # By the system itself: a lock of sys.stderr that is held at the end aborts the process.
        while not self._ending and (line := self._lines.get()) is not None:
            if self._lost:
                line += f"\n{self._lost} lines of the log were lost: they were not read in time."
                self._lost = 0
            line, lines = self._joined(line)
            rest = memoryview(f"{line}\n".encode("utf-8", "backslashreplace"))
            try:
                while rest:
                    rest = rest[os.write(self._file, rest) :]
            except OSError:  # the reader is gone
                return
            for _ in range(lines):
                self._lines.task_done()

    def _joined(self, line: str) -> tuple[str, int]:
        """Return a line with those that wait behind it, as much as a pipe takes, and how many."""
        lines, size = [line], len(line)
        while size < select.PIPE_BUF - ROOM_OF_LINE and self._lines.qsize():
            following = self._lines.get_nowait()
            if following is None:
                self._ending = True
                break
            lines.append(following)
            size += len(following) + 1
        return "\n".join(lines), len(lines)


LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"line": {"()": Line}},
    "handlers": {"stderr": {"()": Log, "formatter": "line"}},
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
    """Return the application of a worker, which ends when its parent process does."""
    from slatewise.service.http.app import application  # noqa: PLC0415
    from slatewise.service.http.backend import Backend  # noqa: PLC0415
    from slatewise.service.http.tracing import Tracing  # noqa: PLC0415

    end_with_parent()
    tracing = Tracing.start() if setup.config.tracing else None

    def opened(metrics: "Metrics") -> "Backend":
        backend = Backend.open(setup, tracing, metrics)
        _spare_collections()
        return backend

    return application(opened, tracing)


def _spare_collections() -> None:
    """Let the garbage collector leave alone what stays, and look less often at what comes.

    It took a tenth of the time of feedback: nearly all is freed without it.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *gc.get_threshold()[1:])


def end_with_parent() -> None:
    """End as after SIGTERM when the parent is killed: nothing else would end a worker."""
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=watch, name="parent", daemon=True).start()
