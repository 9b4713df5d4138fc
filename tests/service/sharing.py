"""Slow things that tests share, until a test fails with one: its second try gets another."""

import os
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import count
from typing import Generic, TypeVar

import pytest

Thing = TypeVar("Thing")
FAILED = pytest.StashKey[bool]()
"""whether a test has failed, in this try"""
_PORTS = count(20_000 + 97 * os.getpid() % 10_000)


class Shared(Generic[Thing]):
    """Something that is made for the first test that needs it, and again after a test that fails.

    What that test did to it would else fail its second try, and all tests behind it.
    """

    def __init__(self, make: Callable[[], AbstractContextManager[Thing]]) -> None:
        self._make = make
        self._held = ExitStack()
        self._things: list[Thing] = []

    @contextmanager
    def lend(self, request: pytest.FixtureRequest) -> Iterator[Thing]:
        """Lend it to a test."""
        if not self._things:
            self._things.append(self._held.enter_context(self._make()))
        yield self._things[0]
        if request.node.stash.get(FAILED, False):
            self.close()

    def close(self) -> None:
        """Let go of it."""
        self._things.clear()
        self._held.close()


def free_port() -> int:
    """Return a port that stays free: the system gives those below 32,768 only to who names them.

    One of the system's own choice could be gone when a server is started, or started again.
    """
    for port in _PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError
