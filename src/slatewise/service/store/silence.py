"""Time-outs for a PostgreSQL that keeps its connections open and does not answer.

The kernel under a frozen server acknowledges all that is sent to it, so that TCP notices nothing,
and the server's own timers stand still with it. Only whoever waits can count the seconds.
"""

import time
from collections.abc import Generator
from typing import Any

from psycopg import Connection, OperationalError
from psycopg.abc import RV, PQGen

FIRST_WORDS = 3.0
"""Seconds of silence in which a new connection is given up."""


class SilenceError(OperationalError, TimeoutError):
    """No answer came in time. The server may still do what was sent once it wakes up."""


class PatientConnection(Connection[Any]):
    """A connection that is closed if no answer comes for `patience` seconds."""

    patience: float = FIRST_WORDS

    def wait(self, gen: PQGen[RV], *more: Any, **options: Any) -> RV:
        """Run a conversation with the server until it ends or falls silent."""
        try:
            return super().wait(_heard(gen, self.patience), *more, **options)
        except SilenceError:
            self.pgconn.finish()
            raise


def _heard(gen: PQGen[RV], patience: float) -> Generator[Any, Any, RV]:
    """Run a conversation, and raise an error if nothing comes for `patience` seconds.

    psycopg sends 0 for every tenth of a second without an answer.
    """
    try:
        wanted, last = next(gen), time.monotonic()
        while True:
            ready = yield wanted
            if ready:
                last = time.monotonic()
            elif time.monotonic() - last > patience:
                raise SilenceError(f"no answer for {patience:g} seconds")
            wanted = gen.send(ready)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
