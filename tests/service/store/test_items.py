import threading

import pytest

from slatewise.errors import InputError
from slatewise.service.store import Store, items
from slatewise.service.store.records import Item, ItemState

SHOWN, HIDDEN, REMOVED = ItemState.SHOWN, ItemState.HIDDEN, ItemState.REMOVED


def test_an_item_is_as_it_was_put_last(store: Store) -> None:
    assert store.item("a") is None
    assert store.put_items([("a", "shoes", SHOWN), ("b", "shoes", SHOWN)]) == 2
    assert store.put_items([("a", "boots", HIDDEN)]) == 3
    assert store.item("a") == Item("a", "boots", HIDDEN, 3)
    assert store.items(None, 10) == [Item("a", "boots", HIDDEN, 3), Item("b", "shoes", SHOWN, 2)]
    assert store.item_seq() == 3


def test_what_is_so_already_is_no_change(store: Store) -> None:
    assert store.put_items([("a", "shoes", SHOWN)]) == 1
    assert store.put_items([("a", "shoes", SHOWN)]) == 1
    assert store.remove_items(["none"]) == 1
    assert store.remove_items(["a", "a"]) == store.remove_items(["a"]) == 2
    assert store.put_items([]) == store.remove_items([]) == 2


def test_a_removed_item_says_so_and_can_come_back(store: Store) -> None:
    store.put_items([("a", "shoes", SHOWN), ("b", "shoes", SHOWN)])
    store.remove_items(["a"])
    assert store.item("a") == Item("a", "shoes", REMOVED, 3)
    assert [item.item_id for item in store.items(None, 10)] == ["b"]
    assert [item.item_id for batch in store.all_items() for item in batch] == ["a", "b"]
    store.put_items([("a", "boots", SHOWN)])
    assert store.item("a") == Item("a", "boots", SHOWN, 4)


PRICE, TEXT = {"price": 120, "brand": "ash"}, {"text": [0.1, -2.5, 3]}


def test_features_are_told_once_and_stay_until_others_are(store: Store) -> None:
    assert (
        store.put_items([("a", "g", SHOWN, PRICE), ("b", "g", SHOWN, {}), ("c", "g", SHOWN)]) == 3
    )
    assert store.put_items([("a", "g", SHOWN, dict(reversed(PRICE.items())))]) == 3
    assert store.put_items([("a", "g", HIDDEN), ("b", "g", SHOWN, None), ("c", "g", SHOWN)]) == 4
    assert store.item("a") == Item("a", "g", HIDDEN, 4, described=1)
    assert store.put_items([("a", "g", HIDDEN, TEXT), ("c", "g", SHOWN, PRICE)]) == 6
    store.remove_items(["a"])
    store.put_items([("a", "h", SHOWN)])
    assert [(one.item_id, one.described) for one in store.item_changes(0)] == [
        ("a", 1), ("b", 2), ("c", 0), ("a", 1), ("a", 5), ("c", 6), ("a", 5), ("a", 5),
    ]  # fmt: skip
    assert [one.described for one in store.items(None, 10)] == [5, 2, 6]
    assert store.item_features([0, 1, 2, 5, 6, 5]) == {1: PRICE, 2: {}, 5: TEXT, 6: PRICE}
    assert store.item_features([]) == store.item_features([0]) == {}


def test_changes_that_later_ones_made_void_can_be_deleted(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(items, "PAGE", 3)
    for group in ("g", "h", "i"):
        store.put_items([("a", group, SHOWN, {"price": len(group)}), ("b", group, SHOWN)])
    store.put_items([("a", "i", SHOWN, PRICE)])  # 7
    store.put_items([("b", "j", SHOWN), ("b", "k", HIDDEN)])  # 8, 9
    assert store.compact_items(0) == 0
    assert store.compact_items(8) == 6
    left = [(one.seq, one.item_id, one.group) for one in store.item_changes(0)]
    assert left == [(7, "a", "i"), (8, "b", "j"), (9, "b", "k")]
    assert store.compact_items(8) == 0
    assert store.item_features([1, 7]) == {7: PRICE}
    assert [one.group for one in store.items(None, 9)] == ["i", "k"]
    assert store.put_items([("a", "z", SHOWN)]) == 10


def test_features_of_an_item_that_is_named_twice_are_the_last(store: Store) -> None:
    store.put_items([("a", "g", SHOWN, PRICE), ("a", "g", SHOWN, TEXT), ("a", "g", SHOWN, PRICE)])
    assert [one.described for one in store.item_changes(0)] == [1, 2, 3]
    assert store.item_features([store.items(None, 1)[0].described]) == {3: PRICE}


def test_features_that_cannot_be_kept_change_nothing(store: Store) -> None:
    for features in ({"": 1}, {"a": "\0"}, {"a": {}}, {"a": [1, None]}, {"a": "\ud800"}):
        with pytest.raises(InputError):
            store.put_items([("a", "g", SHOWN), ("b", "g", SHOWN, features)])
    assert store.item_seq() == 0


def test_the_catalogue_of_any_number_can_be_made_again(store: Store) -> None:
    puts = [
        [("a", "g", SHOWN), ("b", "g", SHOWN), ("a", "h", SHOWN)],
        [("b", "g", HIDDEN)],
        [("c", "k", SHOWN), ("b", "g", SHOWN), ("a", "h", SHOWN)],
    ]
    then: dict[int, list[Item]] = {0: []}
    for put in puts:
        number = store.put_items(put)
        then[number] = [item for batch in store.all_items() for item in batch]
    store.remove_items(["c", "a"])
    for number, expected in then.items():
        again = {item.item_id: item for item in store.item_changes(0, number)}
        assert [again[name] for name in sorted(again)] == expected
    assert [item.seq for item in store.item_changes(0)] == list(range(1, store.item_seq() + 1))
    assert [item.seq for item in store.item_changes(4, 6)] == [5, 6]


def test_pages_of_items_have_every_item_once(store: Store) -> None:
    names = [f"item-{n:05d}" for n in range(12_345)]
    store.put_items([(name, "g", SHOWN) for name in names])
    pages, after = [], None
    while page := store.items(after, 5_000):
        pages.append(len(page))
        after = page[-1].item_id
    assert pages == [5_000, 5_000, 2_345]
    batches = list(store.all_items())
    assert [item.item_id for batch in batches for item in batch] == names
    assert len(batches) > 1


def test_two_who_put_at_once_get_numbers_of_their_own(store: Store, store_url: str) -> None:
    other = Store.open(store_url)

    def put(target: Store, who: str) -> None:
        for n in range(15):
            target.put_items([(f"{who}{n}", "g", SHOWN), ("both", f"{who}{n}", SHOWN)])

    threads = [threading.Thread(target=put, args=pair) for pair in ((store, "x"), (other, "y"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    changes = store.item_changes(0)
    assert [change.seq for change in changes] == list(range(1, 61))
    assert store.item("both") == [change for change in changes if change.item_id == "both"][-1]
    other.close()
