from slatewise.service.store import Store
from slatewise.service.store.clock import AHEAD, DAY
from slatewise.service.store.records import OutcomeStatus
from tests.service.store.making import click, rows, slate

NOW = 100 * DAY


def test_slates_from_the_future_are_moved_between_the_newest_other_and_now(
    store: Store, store_url: str
) -> None:
    right = [slate("a", time=NOW - 500), slate("b", time=NOW - 300)]
    year = NOW + 365 * DAY
    wrong = [slate("c", time=year), slate("d", time=year + 100), slate("e", time=year + DAY)]
    store.write([*right, *wrong], [click("b", "a", time=NOW - 250), click("c", time=year + 7)])
    assert store.last_shown() == year + DAY
    assert store.repair_times(NOW) == 3
    found = {s.slate_id: s.time for one in "abcde" if (s := store.slate(one)) is not None}
    assert found == {"a": NOW - 500, "b": NOW - 300, "c": NOW - 299, "d": NOW - 199, "e": NOW}
    assert [v.slate.slate_id for v in store.history("ann", 9).visits] == ["b", "c"]
    columns = rows(store_url, "SELECT shown, time FROM outcomes ORDER BY seq")
    assert columns == [(NOW - 300, NOW - 250), (NOW - 299, NOW - 292)]
    assert store.repair_times(NOW) == 0


def test_who_was_erased_in_the_future_is_recorded_again(store: Store) -> None:
    store.erase("ann", NOW + 365 * DAY)
    late = slate("late", time=NOW + 1)
    assert store.write([late], [click("late")]) == [OutcomeStatus.ERASED]
    assert store.repair_times(NOW) == 0
    new = slate("new", time=NOW + 2)
    assert store.write([new], [click("new", time=NOW + 3)]) == [OutcomeStatus.RECORDED]


def test_what_is_a_little_ahead_stays(store: Store) -> None:
    store.write([slate("a", time=NOW + AHEAD)], [])
    assert store.repair_times(NOW) == 0
