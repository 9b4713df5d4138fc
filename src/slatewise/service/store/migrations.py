"""Schemas of the store, one after the other.

A migration is never changed once released: a store of any older version goes through those that
came later, in one transaction.
"""

import logging
import secrets
from collections.abc import Callable, Sequence
from pathlib import Path

from sqlalchemy import Connection, insert, inspect, select, text, update

from slatewise.errors import SlatewiseError
from slatewise.files import atomic_file
from slatewise.service.store.copies import copy_sqlite
from slatewise.service.store.engine import Database
from slatewise.service.store.schema import META

_log = logging.getLogger(__name__)

TYPES = {
    # COLLATE "C": by bytes, as SQLite sorts; a new locale library cannot disorder an index.
    "postgresql": {"number": "BIGINT", "text": 'TEXT COLLATE "C"', "bytes": "BYTEA"},
    # INTEGER, for that makes a primary key the row's own number.
    "sqlite": {"number": "INTEGER", "text": "TEXT", "bytes": "BLOB"},
}

FIRST = """
CREATE TABLE meta (name {text} PRIMARY KEY, value {text} NOT NULL);
INSERT INTO meta VALUES ('version', '0');
CREATE TABLE counters (name {text} PRIMARY KEY, value {number} NOT NULL);
INSERT INTO counters VALUES ('log', 0), ('items', 0);
CREATE TABLE slates (
    seq {number} PRIMARY KEY,
    slate_id {text} NOT NULL UNIQUE,
    user_id {text},
    time {number} NOT NULL,
    source {text} NOT NULL,
    item_ids {text} NOT NULL,
    serving {text}
);
CREATE INDEX slates_by_user ON slates (user_id) WHERE user_id IS NOT NULL;
CREATE INDEX slates_by_time ON slates (time, seq);
CREATE INDEX slates_served ON slates (time, seq) WHERE serving IS NOT NULL;
CREATE TABLE outcomes (
    seq {number} PRIMARY KEY,
    slate {number} NOT NULL,
    key {text} NOT NULL,
    seen {number},
    clicked {text} NOT NULL,
    time {number} NOT NULL,
    user_id {text},
    shown {number} NOT NULL,
    UNIQUE (slate, key)
);
CREATE INDEX outcomes_by_user ON outcomes (user_id, shown, slate) WHERE user_id IS NOT NULL;
CREATE TABLE items (
    item_id {text} PRIMARY KEY,
    item_group {text} NOT NULL,
    state {text} NOT NULL,
    seq {number} NOT NULL
);
CREATE TABLE item_changes (
    seq {number} PRIMARY KEY,
    item_id {text} NOT NULL,
    item_group {text} NOT NULL,
    state {text} NOT NULL
);
CREATE TABLE erased (digest {text} PRIMARY KEY, time {number} NOT NULL)
"""

FEATURES = """
ALTER TABLE items ADD COLUMN described {number};
ALTER TABLE item_changes ADD COLUMN described {number};
CREATE TABLE item_features (seq {number} PRIMARY KEY, features {text} NOT NULL)
"""

PAST = """
CREATE TABLE past_slates (
    seq {number} PRIMARY KEY,
    user_id {text} NOT NULL,
    arm {text} NOT NULL,
    time {number} NOT NULL,
    answered {number} NOT NULL,
    clicked {number} NOT NULL
);
CREATE INDEX past_slates_by_user ON past_slates (user_id)
"""

MODELS = """
CREATE TABLE model_files (
    digest {text} NOT NULL, start {number} NOT NULL, content {bytes} NOT NULL,
    PRIMARY KEY (digest, start)
);
CREATE TABLE model_versions (
    model {text} NOT NULL, version {number} NOT NULL, files {text} NOT NULL, beginning {bytes},
    PRIMARY KEY (model, version)
);
CREATE TABLE model_serving (
    model {text} PRIMARY KEY, serial {number} NOT NULL, about {text} NOT NULL
)
"""


def run_script(connection: Connection, script: str) -> None:
    """Run statements, with the dialect's name for {number}, {text} and {bytes}."""
    for statement in script.format(**TYPES[connection.dialect.name]).split(";"):
        connection.execute(text(statement))


def make_tables(connection: Connection) -> None:
    """Make the first schema."""
    run_script(connection, FIRST)
    connection.execute(insert(META).values(name="salt", value=secrets.token_hex(16)))


def add_features(connection: Connection) -> None:
    """Add features of items; existing items have none."""
    run_script(connection, FEATURES)


def add_past(connection: Connection) -> None:
    """Add what experiments count of slates that have left; none has yet."""
    run_script(connection, PAST)


def add_models(connection: Connection) -> None:
    """Add versions of models; hosts that share the store put theirs there."""
    run_script(connection, MODELS)


MIGRATIONS: Sequence[Callable[[Connection], None]] = (
    make_tables,
    add_features,
    add_past,
    add_models,
)
"""Each leads from the version with its index to the next; an empty store has version 0."""


def version_of(connection: Connection) -> int:
    """Return the version of the schema; 0 for an empty store. A newer one than ours is refused."""
    if not inspect(connection).has_table("meta"):
        return 0
    version = int(connection.scalars(select(META.c.value).where(META.c.name == "version")).one())
    if version > len(MIGRATIONS):
        raise SlatewiseError(
            f"The store has schema version {version}, and this slatewise knows up to "
            f"{len(MIGRATIONS)}: a newer one wrote it.",
            "Serve it with the newer slatewise, or choose another store.",
        )
    return version


def migrate(connection: Connection) -> None:
    """Migrate the store to the newest version. Only one process may do so at a time."""
    for step in MIGRATIONS[version_of(connection) :]:
        step(connection)
    newest = update(META).where(META.c.name == "version").values(value=str(len(MIGRATIONS)))
    connection.execute(newest)


def bring_up_to_date(database: Database) -> None:
    """Migrate a store, unless it has the newest version: then nothing is locked.

    Of an older store in SQLite a copy is kept beside it: there is no way back otherwise.
    """

    def keep_and_migrate(connection: Connection) -> None:
        version = version_of(connection)
        if database.is_sqlite and 0 < version < len(MIGRATIONS):
            _keep_copy(Path(str(database.url.database)), version)
        migrate(connection)

    if database.read(version_of) < len(MIGRATIONS):
        database.change_schema(keep_and_migrate)


def _keep_copy(file: Path, version: int) -> None:
    """Copy a store as it is before this transaction."""
    kept = file.with_name(f"{file.stem}.version-{version}{file.suffix}")
    with atomic_file(kept, durable=True) as partial:
        partial.unlink(missing_ok=True)
        copy_sqlite(file, partial)
    _log.warning("The store had version %d; a copy of before is kept: %s", version, kept)
