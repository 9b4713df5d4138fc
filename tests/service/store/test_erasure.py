import random
import sqlite3
import time
from pathlib import Path

import pytest

from slatewise.service.store import Store, erasure
from slatewise.service.store.records import OutcomeStatus, Visit
from tests.service.store.making import SERVED, click, rows, slate

TABLES = ("slates", "outcomes", "erased", "items", "item_changes", "meta", "counters")
SEED = 7


def everything(store_url: str) -> str:
    return repr([rows(store_url, f"SELECT * FROM {table}") for table in TABLES])


def test_nothing_of_the_person_is_left_in_any_table(store: Store, store_url: str) -> None:
    mine = [slate(f"mine-{n}", "ann", items=("a", f"mine-{n}"), serving=SERVED) for n in range(3)]
    other = slate("other", "bob")
    store.write([*mine, other, slate("nobody", None)], [click("mine-0", "mine-0"), click("other")])
    assert "ann" in everything(store_url)
    assert store.erase("ann", 5_000) == 3
    assert "ann" not in everything(store_url)
    assert "mine" not in everything(store_url)
    assert store.history("ann", 9).visits == ()
    assert store.slate("mine-1") is None
    assert store.history("bob", 9).visits == (Visit(other, 3, ()),)
    assert store.slate("nobody") is not None
    assert [v.slate.slate_id for batch in store.export(0, 9_999) for v in batch] == ["other"]


def test_what_comes_late_is_refused_and_what_is_new_is_kept(store: Store, store_url: str) -> None:
    store.write([slate("s", time=100), slate("silent", time=110)], [click("s", "a")])
    store.erase("ann", 200)
    # Told again, told later, told again without a time of its own, and under way until now.
    assert store.write([slate("s", time=100)], [click("s", "a")]) == [OutcomeStatus.ERASED]
    assert store.write([], [click("silent"), click("s", "b")]) == [OutcomeStatus.ERASED] * 2
    assert store.write([slate("s", time=999)], [click("s", "a")]) == [OutcomeStatus.ERASED]
    assert store.write([slate("queued", time=200)], [click("queued")]) == [OutcomeStatus.ERASED]
    assert rows(store_url, "SELECT count(*) FROM slates") == [(0,)]
    assert store.write([slate("new", time=201)], [click("new")]) == [OutcomeStatus.RECORDED]
    assert store.write([slate("hers", "bob", 100)], [click("hers")]) == [OutcomeStatus.RECORDED]
    assert [v.slate.slate_id for v in store.history("ann", 9).visits] == ["new"]


def test_numbers_go_on_after_an_erasure(store: Store) -> None:
    store.write([slate("s")], [click("s")])
    store.erase("ann", 5_000)
    store.write([slate("t", "bob")], [click("t")])
    assert [answer.slate_id for answer in store.answers_since(2, 10)] == ["t"]
    assert store.seq() == 4


def test_erasing_again_does_no_harm_and_an_older_erasure_changes_nothing(store: Store) -> None:
    assert store.erase("ann", 500) == store.erase("ann", 300) == 0
    assert store.write([slate("s", time=400)], [click("s")]) == [OutcomeStatus.ERASED]
    assert store.erase("ann", 700) == 0
    assert store.write([slate("t", time=600)], [click("t")]) == [OutcomeStatus.ERASED]


def test_digests_of_two_stores_have_nothing_in_common(tmp_path: Path) -> None:
    digests = []
    for name in ("one", "two"):
        url = f"sqlite:///{tmp_path}/{name}"
        store = Store.open(url)
        store.erase("ann", 5)
        store.close()
        digests.append(rows(url, "SELECT digest FROM erased"))
    assert len(digests[0]) == 1
    assert digests[0] != digests[1]


def test_no_byte_of_the_person_is_left_in_the_files_of_sqlite(tmp_path: Path) -> None:
    # Enough people and slates of many lengths, that rows move between pages and leave copies: with
    # this seed, some would be left if the file were not written anew.
    draw = random.Random(SEED)
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    people = [f"person-{draw.getrandbits(40)}" + "x" * draw.randrange(60) for _ in range(60)]
    texts: dict[str, list[str]] = {person: [person] for person in people}
    for _ in range(20):
        slates = []
        for person in draw.choices(people, k=100):
            name = f"slate-{draw.getrandbits(64)}" + "y" * draw.randrange(40)
            items = tuple(f"item-{draw.getrandbits(64)}" for _ in range(draw.randrange(1, 20)))
            texts[person] += [name, items[0], items[-1]]
            slates.append(slate(name, person, draw.randrange(10**9), items))
        store.write(slates, [click(s.slate_id, s.items[0]) for s in slates[::2]])
    gone, kept = people[:20], people[20:]
    for person in gone:
        store.erase(person, 10**10)
    left = b"".join(file.read_bytes() for file in tmp_path.iterdir())  # The store is still open.
    found = [text for person in gone for text in texts[person] if text.encode() in left]
    assert found == []
    assert all(text.encode() in left for person in kept for text in texts[person])
    assert (tmp_path / "store.sqlite-wal").stat().st_size == 0
    store.close()


def test_nobody_s_file_is_written_anew_for_an_unknown_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    store.write([slate("s")], [click("s")])
    monkeypatch.setattr(erasure, "_rewrite", None)
    monkeypatch.setattr(erasure, "_empty_log", None)
    assert store.erase("nobody-known", 5_000) == 0
    store.close()


def test_a_large_file_is_written_anew_later_and_others_write_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    monkeypatch.setattr(erasure, "SMALL", 0)
    monkeypatch.setattr(erasure, "_SLICE", 2)
    store.write([slate(f"s{n}") for n in range(5)], [click(f"s{n}") for n in range(5)])
    others: list[OutcomeStatus] = []

    def write(_: float) -> None:
        others.extend(store.write([slate(f"bob-{len(others)}", "bob")], [click("s4")]))

    monkeypatch.setattr(erasure.time, "sleep", write)
    assert store.erase("ann", 5_000) == 5
    assert others == [*[OutcomeStatus.DUPLICATE] * 2, OutcomeStatus.ERASED]
    assert store.history("ann", 9).visits == ()
    assert (tmp_path / "store.sqlite-wal").stat().st_size == 0
    assert store.scrub()
    assert not store.scrub()
    store.close()


def test_a_reader_of_old_keeps_rows_in_the_log_for_a_while_and_writers_waiting_for_a_moment(
    tmp_path: Path,
) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    store.write([slate("s")], [click("s")])
    reader = sqlite3.connect(tmp_path / "store.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM slates").fetchall()
    start = time.monotonic()
    assert store.erase("ann", 5_000) == 1
    assert time.monotonic() - start < 5  # not the ten seconds that writers wait for each other
    assert store.has_traces_in_log
    assert not store.tidy()
    assert store.slate("s") is None
    reader.close()
    assert store.tidy()
    assert not store.has_traces_in_log
    assert not store.has_traces
    assert (tmp_path / "store.sqlite-wal").stat().st_size == 0
    store.close()
