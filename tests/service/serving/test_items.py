"""Items are read once, in pages, and keep their indices."""

import threading
from collections.abc import Sequence
from typing import Any

from slatewise.service.serving import items
from slatewise.service.serving.items import ItemLog
from slatewise.service.store.features import Features
from slatewise.service.store.records import Item, ItemState


class Shop:
    """A store that has only changes of items: id, group, state and, perhaps, features."""

    def __init__(self, *changes: tuple[Any, ...]) -> None:
        self.features = {
            number: change[3] for number, change in enumerate(changes, start=1) if len(change) > 3
        }
        self.changes, described = list[Item](), dict[str, int]()
        for number, (item, group, state, *_) in enumerate(changes, start=1):
            if number in self.features:
                described[item] = number
            told = described.get(item, 0)
            self.changes.append(Item(item, group, ItemState(state), number, told))
        self.asked: list[tuple[int, int | None]] = []

    def item_seq(self) -> int:
        return len(self.changes)

    def item_changes(self, since: int, until: int | None = None) -> list[Item]:
        self.asked.append((since, until))
        return self.changes[since:until]

    def item_features(self, numbers: Sequence[int]) -> dict[int, Features]:
        return {number: self.features[number] for number in numbers}


def test_changes_come_back_as_they_were() -> None:
    log = ItemLog()
    log.read(Shop(("a", "x", "shown", {}), ("b", "y", "hidden"), ("a", "y", "removed")))
    changes = log.changes(0, 3)
    assert [log.items.ids[item] for item in changes.items] == ["a", "b", "a"]
    assert [changes.group_names[group] for group in changes.groups] == ["x", "y", "y"]
    assert changes.shown.tolist() == [True, False, False]
    assert changes.features.tolist() == [1, 0, 1]
    assert len(log.changes(1, 2).items) == 1
    assert len(log.changes(3, 3).items) == 0


def test_of_settled_changes_the_last_of_each_item_is_left() -> None:
    log = ItemLog()
    told = [("a", "x"), ("b", "x"), ("a", "y"), ("c", "x"), ("b", "y"), ("b", "z")]
    log.read(Shop(*[(item, group, "shown") for item, group in told]))

    def left(since: int, until: int, settled: int) -> list[tuple[object, str]]:
        found = log.changes(since, until, settled)
        groups = [found.group_names[group] for group in found.groups]
        return list(zip(log.items.at(found.items), groups, strict=True))

    assert left(0, 6, 0) == left(0, 6, 1) == told
    assert left(0, 6, 4) == [("b", "x"), ("a", "y"), ("c", "x"), ("b", "y"), ("b", "z")]
    assert left(0, 6, 6) == [("a", "y"), ("c", "x"), ("b", "z")]
    assert left(4, 6, 4) == told[4:]


def test_only_what_is_new_is_read() -> None:
    shop, log = Shop(*[(f"i{n}", "g", "shown") for n in range(5)]), ItemLog()
    log.read(shop, until=3)
    assert log.number == 3
    log.read(shop)
    log.read(shop)
    assert shop.asked == [(0, 3), (3, 5)]


def test_a_long_log_is_read_in_pages() -> None:
    count = 2 * items._PAGE + 7
    shop, log = Shop(*[(f"i{n}", "g", "shown") for n in range(count)]), ItemLog()
    log.read(shop)
    assert [since for since, _ in shop.asked] == [0, items._PAGE, 2 * items._PAGE]
    assert len(log.changes(0, count).items) == count


def test_ids_keep_their_indices_and_unknown_ones_have_none() -> None:
    log = ItemLog()
    assert log.items.indices(["b", "a", "b"]).tolist() == [0, 1, 0]
    assert log.items.find(["a", "c"]).tolist() == [1, -1]
    assert log.items.ids == ["b", "a"]


def test_threads_that_name_items_at_once_agree() -> None:
    log, names = ItemLog(), [f"i{n}" for n in range(3_000)]
    threads = [threading.Thread(target=lambda: log.items.indices(names)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(log.items.ids) == sorted(names)
    assert [log.items.ids[index] for index in log.items.find(names)] == names
