"""Reading a span of time, page by page, so that it never has to fit into memory.

Each page is a short read of its own: a long one would keep SQLite's write-ahead log growing and
PostgreSQL from tidying up. What the store learns after the start is left out, so that the answer
does not depend on how long the reading takes.
"""

from collections.abc import Iterator, Sequence

from sqlalchemy import ColumnElement, Connection, and_, select, tuple_

from slatewise.service.store.counters import Counter, last_number
from slatewise.service.store.engine import LONG, Database
from slatewise.service.store.queries import OLDEST_FIRST
from slatewise.service.store.records import SlateRecord, Visit
from slatewise.service.store.rows import OUTCOME_COLUMNS, SLATE_COLUMNS, visits_of
from slatewise.service.store.schema import OUTCOMES, SLATES, AnyRow


def export(database: Database, start: int, end: int, batch: int) -> Iterator[list[Visit]]:
    """Return the visits of slates shown from `start` to before `end`, oldest first."""
    until = database.read(lambda connection: last_number(connection, Counter.LOG))
    answered = select(OUTCOMES.c.seq).where(_outcome_of_slate(until)).exists()
    for page in pages(database, answered, start, end, until, batch):
        yield [visit for _, visit in page if visit is not None]


def served(
    database: Database, start: int, end: int, batch: int
) -> Iterator[list[tuple[SlateRecord, Visit | None]]]:
    """Return the slates that this service made, with the outcomes there are."""
    until = database.read(lambda connection: last_number(connection, Counter.LOG))
    ours = and_(SLATES.c.serving.is_not(None), SLATES.c.seq <= until)
    yield from pages(database, ours, start, end, until, batch)


def _outcome_of_slate(until: int) -> ColumnElement[bool]:
    return and_(OUTCOMES.c.slate == SLATES.c.seq, OUTCOMES.c.seq <= until)


def pages(
    database: Database,
    wanted: ColumnElement[bool],
    start: int,
    end: int,
    until: int,
    batch: int,
) -> Iterator[list[tuple[SlateRecord, Visit | None]]]:
    """Return pages of wanted slates, each from behind the last slate of the one before."""
    last = (start, 0)

    def read(connection: Connection) -> Sequence[AnyRow]:
        behind = tuple_(SLATES.c.time, SLATES.c.seq) > tuple_(*last)
        page = (
            select(SLATES.c.seq)
            .where(behind, SLATES.c.time < end, wanted)
            .order_by(SLATES.c.time, SLATES.c.seq)
            .limit(batch)
            .subquery()
        )
        return connection.execute(
            select(*SLATE_COLUMNS, *OUTCOME_COLUMNS)
            .select_from(page)
            .join(SLATES, SLATES.c.seq == page.c.seq)
            .outerjoin(OUTCOMES, _outcome_of_slate(until))
            .order_by(*OLDEST_FIRST)
        ).all()

    while rows := database.read(read, LONG):
        last = (rows[-1].time, rows[-1].seq)
        yield list(visits_of(rows))
