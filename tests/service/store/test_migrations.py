import pytest
from sqlalchemy import Connection, inspect

from slatewise.errors import SlatewiseError
from slatewise.service.store import Store, migrations
from slatewise.service.store.engine import Database
from slatewise.service.store.records import Item, ItemState
from slatewise.service.store.schema import METADATA
from tests.service.store.making import click, raw, rows, slate

NEWEST = len(migrations.MIGRATIONS)


def add_column(connection: Connection) -> None:
    migrations.run_script(connection, "ALTER TABLE slates ADD COLUMN device {text}")


def fill_column(connection: Connection) -> None:
    migrations.run_script(connection, "UPDATE slates SET device = 'unknown'")


def version(store_url: str) -> str:
    return str(rows(store_url, "SELECT value FROM meta WHERE name = 'version'")[0][0])


def test_the_tables_are_as_queries_see_them(store: Store, store_url: str) -> None:
    database = Database(store_url)

    def columns(connection: Connection) -> dict[str, list[str]]:
        look = inspect(connection)
        return {n: [c["name"] for c in look.get_columns(n)] for n in look.get_table_names()}

    found = database.read(columns)
    database.close()
    assert found == {table.name: [c.name for c in table.c] for table in METADATA.sorted_tables}


def test_an_older_store_goes_through_all_that_came_later(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = Store.open(store_url)
    old.write([slate("s")], [click("s")])
    old.close()
    older, steps = migrations.MIGRATIONS, (*migrations.MIGRATIONS, add_column, fill_column)
    monkeypatch.setattr(migrations, "MIGRATIONS", steps)
    for _ in range(2):
        new = Store.open(store_url)
        assert len(new.history("ann", 1).visits) == 1
        new.close()
    assert rows(store_url, "SELECT device FROM slates") == [("unknown",)]
    assert version(store_url) == str(NEWEST + 2)
    if store_url.startswith("sqlite"):
        monkeypatch.setattr(migrations, "MIGRATIONS", older)
        kept = Store.open(store_url.replace("store.sqlite", f"store.version-{NEWEST}.sqlite"))
        assert len(kept.history("ann", 1).visits) == 1
        kept.close()


def test_items_of_a_store_from_before_features_have_none(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", migrations.MIGRATIONS[:1])
        Store.open(store_url).close()
    before = raw(store_url)
    before.execute("INSERT INTO items VALUES ('a', 'shoes', 'shown', 1)")
    before.execute("INSERT INTO item_changes VALUES (1, 'a', 'shoes', 'shown')")
    before.execute("UPDATE counters SET value = 1 WHERE name = 'items'")
    before.close()
    store = Store.open(store_url)
    assert store.item("a") == store.item_changes(0)[0] == Item("a", "shoes", seq=1)
    assert store.put_items([("a", "shoes", ItemState.SHOWN, {"price": 3})]) == 2
    assert store.item("a") == Item("a", "shoes", seq=2, described=2)
    assert store.item_features([2]) == {2: {"price": 3}}
    store.close()


def test_a_migration_that_fails_changes_nothing(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Store.open(store_url).close()

    def fail(_: Connection) -> None:
        raise RuntimeError("the power went out")

    with monkeypatch.context() as patch:
        patch.setattr(migrations, "MIGRATIONS", (*migrations.MIGRATIONS, add_column, fail))
        with pytest.raises(RuntimeError, match="power"):
            Store.open(store_url)
    assert version(store_url) == str(NEWEST)
    assert "device" not in str(rows(store_url, "SELECT * FROM slates"))
    Store.open(store_url).close()


def test_a_newer_store_is_refused_in_words(store_url: str) -> None:
    Store.open(store_url).close()
    stranger = raw(store_url)
    stranger.execute("UPDATE meta SET value = '7' WHERE name = 'version'")
    stranger.close()
    known = f"schema version 7, and this slatewise knows up to {NEWEST}"
    with pytest.raises(SlatewiseError, match=known):
        Store.open(store_url)
    assert version(store_url) == "7"


def test_tables_of_others_are_not_touched(store_url: str) -> None:
    stranger = raw(store_url)
    stranger.execute("CREATE TABLE slates (theirs TEXT)")
    with pytest.raises(SlatewiseError, match="slates"):
        Store.open(store_url)
    names = stranger.execute("SELECT * FROM slates").fetchall()
    stranger.close()
    assert names == []
