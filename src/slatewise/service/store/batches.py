"""Many rows in one statement, in the way that each database does fastest.

Feedback of all requests that wait is one transaction; in it, PostgreSQL spends less on a statement
with a list than on one statement a row, and plans a text that never changes once.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import (
    ARRAY,
    BigInteger,
    Column,
    Connection,
    Table,
    Text,
    TextClause,
    any_,
    bindparam,
    func,
    select,
    text,
)

from slatewise.service.store.schema import AnyRow, AnySelect

AT_ONCE: Final = 1_000
"""Values in one statement."""
INSERTED: Final = 2_000
"""Rows in one statement of PostgreSQL: some MB of text."""


class Lookup:
    """The rows of a statement whose column has one of some values; built once."""

    def __init__(self, statement: AnySelect, column: Column[Any]) -> None:
        # In one value: with as many marks as values, every length would be a statement of its own.
        listed = func.json_each(bindparam("wanted", type_=Text)).table_valued("value")
        array = bindparam("wanted", type_=ARRAY(column.type))
        self._statements = {
            "sqlite": statement.where(column.in_(select(listed.c.value))),
            "postgresql": statement.where(column == any_(array)),
        }

    def rows(self, connection: Connection, values: Iterable[Any]) -> Iterator[AnyRow]:
        """Return the rows, in no order."""
        wanted, kind = list(values), connection.dialect.name
        for start in range(0, len(wanted), AT_ONCE):
            some = wanted[start : start + AT_ONCE]
            given = json.dumps(some) if kind == "sqlite" else some
            yield from connection.execute(self._statements[kind], {"wanted": given})


def insert_rows(connection: Connection, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
    """Insert rows, whose values stand in the order of the table's columns."""
    if not rows:
        return
    if connection.dialect.name == "sqlite":
        # By the driver itself: rows as dictionaries take SQLAlchemy twice as long.
        marks = ", ".join("?" * len(table.c))
        insert = f"INSERT INTO {table.name} ({', '.join(table.c.keys())}) VALUES ({marks})"
        connection.exec_driver_sql(insert, list(rows))
        return
    statement, names = _insert_from_json(table), table.c.keys()
    for start in range(0, len(rows), INSERTED):
        part = [dict(zip(names, row, strict=True)) for row in rows[start : start + INSERTED]]
        connection.execute(statement, {"rows": json.dumps(part)})


@cache
def _insert_from_json(table: Table) -> TextClause:
    """Return a statement that inserts rows which come as one JSON text.

    In one value, since that is dumped by compiled code; rows of their own cost the client and the
    server three times as much. COPY would do too, but what goes wrong in it does not reach
    SQLAlchemy, which tells a lost connection from a bad row.
    """
    kinds = ["bigint" if isinstance(one.type, BigInteger) else "text" for one in table.c]
    names = table.c.keys()
    given = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    listed = ", ".join(names)
    return text(
        f"INSERT INTO {table.name} ({listed}) SELECT {listed} "
        f"FROM json_to_recordset(CAST(:rows AS json)) AS given({given})"
    )
