import pytest

from slatewise.service.analysis import varieties
from slatewise.service.store import Store
from slatewise.service.store.records import ItemState
from tests.service.analysis.log import DAY, START, served

FOREVER = START + 99 * DAY


def test_equally_many_of_the_newest_slates_of_each_arm_are_looked_at(store: Store) -> None:
    store.put_items([(f"i{n}", "even" if n % 2 == 0 else "odd", ItemState.SHOWN) for n in range(8)])
    store.put_items([("i9", "odd", ItemState.HIDDEN)])
    one = [served(n, "u", "x", START + n, [f"i{n}", f"i{n + 2}"]) for n in range(6)]
    two = [served(10 + n, "u", "y", START + n, ["i0", "i1", "i9"]) for n in range(2)]
    store.write([*one, *two], [])
    found = varieties(store, START, FOREVER, 100)
    assert {arm: variety.slates for arm, variety in found.items()} == {"x": 2, "y": 2}
    assert (found["x"].items, found["x"].groups) == (4, 1)  # i4 i6 and i5 i7
    assert (found["y"].items, found["y"].groups) == (3, 2)
    assert found["x"].coverage == 4 / 8
    assert found["y"].coverage == 2 / 8  # i9 is not on offer any more
    assert found["x"].gini == 0


def test_a_time_without_slates_has_nothing_and_empty_slates_do_not_matter(store: Store) -> None:
    store.write([served(0, "u", "x", START, [])], [])
    assert varieties(store, START, FOREVER, 10) == {}


def test_items_that_the_store_does_not_know_are_groups_of_their_own(store: Store) -> None:
    store.write([served(0, "u", "x", START, ["p", "q", "r"])], [])
    found = varieties(store, START, FOREVER, 10)["x"]
    assert found.groups == 3
    assert found.coverage != pytest.approx(0)  # nan: nothing is on offer
