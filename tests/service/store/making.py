"""Records to write, and a way around the store to its tables."""

import sqlite3
import subprocess
import sys
from typing import Any

import psycopg

from slatewise.service.store.records import Outcome, Serving, SlateRecord

SERVED = Serving("main", "main", "3", "greedy", 7, 3, {"exclude": ["x"]}, 4, 2, 99, (0.1, 1 / 3))


def slate(
    slate_id: str,
    user_id: str | None = "ann",
    time: int = 1_000,
    items: tuple[str, ...] = ("a", "b", "c"),
    serving: Serving | None = None,
) -> SlateRecord:
    return SlateRecord(slate_id, user_id, time, "search", items, serving)


def click(slate_id: str, *items: str, seen: int | None = None, time: int = 2_000) -> Outcome:
    return Outcome(slate_id, seen, items, time)


def raw(url: str) -> Any:
    """Connect to a store's database as a stranger would."""
    if url.startswith("sqlite"):
        return sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None, timeout=0)
    return psycopg.connect(url, autocommit=True)


def rows(url: str, query: str) -> list[tuple[Any, ...]]:
    connection = raw(url)
    try:
        return [tuple(row) for row in connection.execute(query).fetchall()]
    finally:
        connection.close()


def start(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Start a process of Python; what it prints can be read from it."""
    command = [sys.executable, "-W", "error", "-c", code, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, bufsize=1)
