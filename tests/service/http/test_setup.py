"""How a worker logs."""

import logging
import os
import sys
import time

import pytest

from slatewise.service.http import setup
from slatewise.service.http.setup import Line, Log

USUAL = logging.Formatter("%(asctime)s %(process)d %(levelname)s %(name)s %(message)s")


def record(time: float, message: str, *arguments: object, trace: bool = False) -> logging.LogRecord:
    raised = sys.exc_info() if trace else None
    made = logging.LogRecord("slatewise.access", logging.INFO, "", 0, message, arguments, raised)
    made.created, made.msecs = time, float(int(1_000 * (time % 1)))
    return made


@pytest.mark.parametrize("time", [0.0, 1_800_000_000.004, 1_800_000_000.999, 1_800_000_001.0])
def test_a_line_is_the_usual_one(time: float) -> None:
    line = Line()
    for shift in (0.0, 0.5, 0.75, 3_600.0, -1.0, 0.0):
        made = record(max(time + shift, 0.0), "%s %s %d %.1f ms", "GET", "/v1/items", 200, 1.25)
        assert line.format(made) == USUAL.format(made)


def test_starts_and_stops_do_not_read_as_errors() -> None:
    made = logging.LogRecord("uvicorn.error", logging.INFO, "", 1, "Started", None, None)
    assert Line().format(made).endswith("INFO uvicorn Started")


def test_a_log_that_nobody_reads_stops_nobody() -> None:
    reading, writing = os.pipe()
    log = Log(writing, room=100)
    log.setFormatter(Line())
    start = time.monotonic()
    for number in range(2_000):
        log.emit(record(0.0, "%s %d", "x" * 200, number))
    assert time.monotonic() - start < 5
    said = b""
    while not (b"lines of the log were lost" in said and b"one more\n" in said):
        said += os.read(reading, 65_536)
        log.emit(record(0.0, "one more"))
    assert b"x 0\n" in said
    log.close()
    os.close(writing)
    os.close(reading)


def test_a_flushed_log_has_been_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(setup, "LAST_LINES", 60.0)
    reading, writing = os.pipe()
    log = Log(writing)
    log.setFormatter(Line())
    for number in range(300):
        log.emit(record(0.0, "number %d", number))
    log.flush()
    assert b"number 299\n" in os.read(reading, 65_536)
    monkeypatch.setattr(setup, "LAST_LINES", 0.2)
    for _ in range(2_000):
        log.emit(record(0.0, "x" * 200))
    start = time.monotonic()
    log.flush()  # nobody reads
    assert time.monotonic() - start < 5
    os.close(reading)
    log.close()
    os.close(writing)


def test_a_log_whose_reader_is_gone_stops_nobody() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    log = Log(writing, room=2)
    for _ in range(9):
        log.emit(record(0.0, "nothing"))
    log.close()
    os.close(writing)


def test_a_trace_is_shown_below_its_line() -> None:
    try:
        raise ValueError("swordfish")
    except ValueError:
        made = record(1_800_000_000.5, "Error %s", "f00", trace=True)
    said = Line().format(made)
    assert said == USUAL.format(made)
    assert "swordfish" in said
