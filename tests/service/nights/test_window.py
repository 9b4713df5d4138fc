"""What a night takes out of the store."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest

from slatewise.data.preparation import prepare
from slatewise.service.nights.window import Window, export_window
from slatewise.service.store import Store
from slatewise.service.store.records import Item, ItemState, Outcome, SlateRecord, Visit
from tests.service.nights.world import DAY, ITEMS, START, Shelf, fill, visits


def taken(store: Shelf | Store, folder: Path, start: int, end: int) -> Window:
    folder.mkdir(exist_ok=True)
    return export_window(store, folder, start, end, lambda stage, done, total: None)


def visit(number: int, user: str | None, time: int, *items: str, click: str = "") -> Visit:
    slate = SlateRecord(f"s{number}", user, time, "search", items)
    return Visit(slate, len(items), (click,) if click else ())


def test_the_log_has_the_slates_of_the_window_and_no_others(tmp_path: Path) -> None:
    shelf = Shelf([visit(n, "anna", START + n, "a", "b") for n in range(5)])
    window = taken(shelf, tmp_path, START + 1, START + 4)
    assert window.slates == 3
    times = pl.read_parquet(window.log)["time"].dt.epoch("us").to_list()
    assert times == [START + 1, START + 2, START + 3]


def test_only_what_was_seen_is_in_a_slate_and_what_nobody_saw_is_left_out(tmp_path: Path) -> None:
    one = visit(1, "anna", START, "a", "b", "c", click="b")
    shelf = Shelf([replace(one, seen=2), replace(visit(2, "anna", START, "d"), seen=0)])
    window = taken(shelf, tmp_path, 0, START + 1)
    assert pl.read_parquet(window.log).select("slate", "click").rows() == [(["a", "b"], ["b"])]
    assert (window.slates, window.clicks, window.unseen) == (1, 1, 1)


def test_several_clicks_on_a_slate_are_further_choices_in_the_dataset(tmp_path: Path) -> None:
    one = visit(1, "anna", START, "a", "b", "c")
    shelf = Shelf([replace(one, clicked=("c", "a")), visit(2, "anna", START + 1, "a", "b")])
    window = taken(shelf, tmp_path, 0, START + DAY)
    dataset = prepare(window.log, window.items, tmp_path / "dataset")
    assert dataset.clicks.tolist() == [2, 0, -1]
    assert dataset.further_clicks is not None
    assert dataset.further_clicks.tolist() == [0, 1, 0]


def test_somebody_without_a_name_is_nobody_else(tmp_path: Path) -> None:
    shelf = Shelf(
        [
            visit(1, None, START, "a", "b"),
            visit(2, None, START + 1, "a", "b"),
            visit(3, "s1", START + 2, "a", "b", click="a"),
        ]
    )
    window = taken(shelf, tmp_path, 0, START + DAY)
    assert prepare(window.log, window.items, tmp_path / "dataset").num_users == 3


def test_removed_items_are_there_if_they_were_shown_and_unknown_ones_are_counted(
    tmp_path: Path,
) -> None:
    shop = [
        Item("new", "chairs"),
        Item("hidden", "chairs", ItemState.HIDDEN),
        Item("gone", "lamps", ItemState.REMOVED),
        Item("long gone", "lamps", ItemState.REMOVED),
    ]
    shelf = Shelf([visit(1, "anna", START, "gone", "found elsewhere", click="gone")], shop)
    window = taken(shelf, tmp_path, 0, START + 1)
    items = dict(pl.read_parquet(window.items).rows())
    assert items == {
        "found elsewhere": "unknown",
        "gone": "lamps",
        "hidden": "chairs",
        "new": "chairs",
    }
    assert window.unknown_items == 1


def test_every_visit_of_a_real_store_becomes_a_row_that_prepare_accepts(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    found = visits(users=20, a_day=2)
    fill(store, found)
    window = taken(store, tmp_path / "folder", START, START + 4 * DAY)
    dataset = prepare(window.log, window.items, tmp_path / "dataset")
    store.close()
    assert (window.slates, dataset.num_interactions) == (len(found), len(found))
    assert window.clicks == sum(len(one.clicked) for one in found)
    assert dataset.meta["report"]["problems"] == []
    assert dataset.item_ids.to_list() == sorted(item.item_id for item in ITEMS)


def test_what_became_known_late_is_in_and_the_erased_are_out(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    fill(store, visits(users=3, a_day=1))
    late = SlateRecord("late", "anna", START + 10, "search", ("chairs-1", "lamps-1"))
    store.write([late], [])
    end = START + 8 * DAY
    before = taken(store, tmp_path / "before", START, end)
    store.write([], [Outcome("late", None, ("lamps-1",), START + 7 * DAY)])
    after = taken(store, tmp_path / "after", START, end)
    assert after.slates == before.slates + 1
    store.erase("user 1", end)
    rest = pl.read_parquet(taken(store, tmp_path / "erased", START, end).log)
    store.close()
    assert set(rest["user_id"]) == {"uuser 0", "uuser 2", "uanna"}


@pytest.mark.parametrize("name", ["log.parquet", "items.parquet"])
def test_the_same_visits_in_another_order_make_the_same_tables(tmp_path: Path, name: str) -> None:
    found = visits(users=5, a_day=2)
    one = taken(Shelf(found), tmp_path / "one", START, START + DAY)
    other = taken(Shelf(found[::-1], ITEMS[::-1]), tmp_path / "other", START, START + DAY)
    assert one.slates > 0
    assert other.slates == one.slates
    first, second = (pl.read_parquet(tmp_path / folder / name) for folder in ("one", "other"))
    assert first.equals(second)
