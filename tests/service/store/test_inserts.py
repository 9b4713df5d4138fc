import json
import signal

import pytest

from slatewise.errors import InputError
from slatewise.service.store import Store, inserts
from slatewise.service.store.records import ItemState, Outcome, OutcomeStatus, SlateRecord, Visit
from tests.service.store.making import SERVED, click, rows, slate, start

HOSTILE = [
    "'; DROP TABLE slates; --",
    '" OR 1=1 --',
    "%s %(x)s :x ? {number} $1",
    "line\nbreak\ttab\x1b[31m\x7f",
    "日本語 💥 e\u0301 \u202eright to left",
    "\\u0000 \\0 back\\slash",
    "../../etc/passwd",
    "x" * 512,
    "💥" * 512,
    " ",
    "NULL",
    "007",
]

WRITE_ALL = """
import sys
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.service.store import Store
store = Store.open(sys.argv[1])
print("open", flush=True)
for start in range(0, 60, 5):
    names = [f"s{n}" for n in range(start, start + 5)]
    slates = [SlateRecord(name, "ann", 1_000, "search", ("a", "b")) for name in names]
    written = store.write(slates, [Outcome(name, 2, ("a",), 5) for name in names])
    print(*written, sep=",", flush=True)
"""

WRITE_ON = """
import sys
from itertools import count
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.service.store import Store
store = Store.open(sys.argv[1])
for n in count():
    name = f"s{n}"
    store.write([SlateRecord(name, "ann", n, "search", ("a", "b"))], [Outcome(name, 2, ("a",), n)])
    print(name, flush=True)
"""


def test_a_slate_and_its_outcome_make_a_visit(store: Store) -> None:
    served = slate("s1", serving=SERVED)
    assert store.write([served], [click("s1", "b", seen=2)]) == [OutcomeStatus.RECORDED]
    history = store.history("ann", 10)
    assert history.visits == (Visit(served, 2, ("b",)),)
    assert store.slate("s1") == served
    assert store.slate("s2") is None
    assert history.seq == store.seq() == 2


def test_outcomes_of_a_slate_add_up_in_the_order_of_their_times(store: Store) -> None:
    store.write([slate("s", items=("a", "b", "c", "d"))], [click("s", "c", seen=3, time=9)])
    store.write([], [click("s", "a", "c", seen=1, time=4), click("s", seen=2, time=5)])
    (visit,) = store.history("ann", 10).visits
    assert (visit.seen, visit.clicked) == (3, ("a", "c"))
    store.write([], [click("s", time=1)])
    (visit,) = store.history("ann", 10).visits
    assert (visit.seen, visit.clicked) == (4, ("a", "c"))


def test_a_slate_has_a_bounded_number_of_outcomes(store: Store) -> None:
    items = tuple(f"item-{n}" for n in range(20))
    store.write([slate("s", items=items), slate("other")], [])
    pairs = [(one, other) for one in items for other in items if one != other]
    written = store.write([], [click("s", *pair) for pair in pairs[:100]])
    written += store.write([], [click("s", *pair) for pair in pairs[100:145]])
    most = inserts.most_events(20)
    assert most == 140
    assert written == [OutcomeStatus.RECORDED] * most + [OutcomeStatus.TOO_MANY] * 5
    again = store.write([], [click("s", *pairs[0]), click("s", *pairs[-1]), click("other", "a")])
    assert again == [OutcomeStatus.DUPLICATE, OutcomeStatus.TOO_MANY, OutcomeStatus.RECORDED]


def test_what_was_clicked_was_seen(store: Store) -> None:
    store.write([slate("s")], [click("s", "c", seen=1)])
    assert store.history("ann", 1).visits[0].seen == 3


def test_a_retry_does_not_count_whatever_its_time(store: Store, store_url: str) -> None:
    first = store.write([slate("s")], [click("s", "a", seen=2)])
    known = store.seq()
    again = store.write([slate("s")], [click("s", "a", seen=2, time=77)])
    assert (first, again) == ([OutcomeStatus.RECORDED], [OutcomeStatus.DUPLICATE])
    assert store.seq() == known
    assert rows(store_url, "SELECT count(*) FROM slates") == [(1,)]
    assert rows(store_url, "SELECT count(*), min(time) FROM outcomes") == [(1, 2_000)]


def test_the_same_twice_in_one_call_counts_once(store: Store) -> None:
    other = slate("s", items=("x", "y"))
    written = store.write([slate("s"), slate("s"), other], [click("s", "a"), click("s", "a")])
    assert written == [OutcomeStatus.RECORDED, OutcomeStatus.DUPLICATE]
    assert store.slate("s") == slate("s")


def test_a_slate_with_the_id_of_another_does_not_replace_it(store: Store) -> None:
    store.write([slate("s", "ann")], [])
    written = store.write([slate("s", "bob", items=("x",))], [click("s", "x"), click("s", "a")])
    assert written == [OutcomeStatus.NOT_SHOWN, OutcomeStatus.RECORDED]
    assert store.slate("s") == slate("s", "ann")
    assert store.history("bob", 10).visits == ()


def test_outcomes_that_cannot_be_are_refused_and_the_others_kept(store: Store) -> None:
    outcomes = [
        click("s", "d"),
        click("s", seen=4),
        click("t"),
        click("s", seen=3),
        click("s", "a"),
    ]
    assert store.write([slate("s")], outcomes) == [
        OutcomeStatus.NOT_SHOWN,
        OutcomeStatus.NOT_SHOWN,
        OutcomeStatus.UNKNOWN_SLATE,
        OutcomeStatus.RECORDED,
        OutcomeStatus.RECORDED,
    ]


def test_an_outcome_waits_for_its_slate(store: Store) -> None:
    assert store.write([], [click("s")]) == [OutcomeStatus.UNKNOWN_SLATE]
    assert store.write([slate("s")], []) == []
    assert store.write([], [click("s")]) == [OutcomeStatus.RECORDED]


def test_late_slates_are_placed_by_their_time(store: Store) -> None:
    for time in (50, 10, 40, 20, 30):
        store.write([slate(f"s{time}", time=time)], [click(f"s{time}", time=1)])
    assert [v.slate.time for v in store.history("ann", 10).visits] == [10, 20, 30, 40, 50]
    assert [v.slate.time for v in store.history("ann", 2).visits] == [40, 50]


def test_slates_without_a_name_belong_to_nobody(store: Store) -> None:
    store.write([slate("s", None), slate("t", None)], [click("s", "a"), click("t")])
    assert store.slate("s") == slate("s", None)
    assert [len(batch) for batch in store.export(0, 10_000)] == [2]
    assert store.history("None", 10).visits == store.history("null", 10).visits == ()


def test_an_empty_slate_is_kept(store: Store) -> None:
    assert store.write([slate("s", items=())], [click("s")]) == [OutcomeStatus.RECORDED]
    assert store.history("ann", 1).visits == (Visit(slate("s", items=()), 0, ()),)


def test_any_text_is_an_id(store: Store) -> None:
    for text in HOSTILE:
        hostile = SlateRecord(text, text, 5, text, (text, "a"))
        assert store.write([hostile], [click(text, text)]) == [OutcomeStatus.RECORDED]
        assert store.write([hostile], [click(text, text)]) == [OutcomeStatus.DUPLICATE]
        assert store.slate(text) == hostile
        assert store.history(text, 5).visits == (Visit(hostile, 2, (text,)),)
    store.put_items([(text, text, ItemState.HIDDEN) for text in HOSTILE])
    assert [item.item_id for item in store.item_changes(0)] == HOSTILE
    by_bytes = sorted(HOSTILE, key=str.encode)
    assert [item.item_id for item in store.items(None, 99)] == by_bytes
    assert [item.item_id for item in store.items(by_bytes[4], 2)] == by_bytes[5:7]
    for text in HOSTILE:
        assert store.erase(text, 10) == 1
        assert store.history(text, 5).visits == ()


def test_what_no_store_can_keep_is_refused_when_it_is_looked_up(store: Store) -> None:
    for text in ("a\0b", "", "x" * 10_000, "\ud800"):
        for look_up in (store.slate, store.item, lambda name: store.history(name, 1)):
            with pytest.raises(InputError, match="id"):
                look_up(text)
        with pytest.raises(InputError, match="id"):
            store.erase(text, 1)
        with pytest.raises(InputError, match="id"):
            store.put_items([(text, "g", ItemState.SHOWN)])
    assert store.item_seq() == 0


def test_a_request_may_hold_what_json_can(store: Store) -> None:
    request = {"clicks": ["\0", "\ud800", "💥"], "groups": {"a": 1}, "allow": None, "x": 0.1}
    served = slate("s", serving=type(SERVED)(**vars(SERVED) | {"request": request}))
    store.write([served], [])
    assert store.slate("s") == served
    assert json.dumps(request) == json.dumps(store.slate("s").serving.request)  # type: ignore[union-attr]


def test_a_failure_leaves_nothing_half_written(
    store: Store, store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the power went out")

    with monkeypatch.context() as patch:
        patch.setattr(inserts, "advance", fail)
        with pytest.raises(RuntimeError, match="power"):
            store.write([slate("s")], [click("s")])
    assert store.seq() == 0
    assert store.slate("s") is None
    assert rows(store_url, "SELECT count(*) FROM outcomes") == [(0,)]
    assert store.write([slate("s")], [click("s")]) == [OutcomeStatus.RECORDED]


def test_two_processes_that_write_the_same_at_once_write_it_once(store_url: str) -> None:
    # The store is new, too: both make its tables.
    processes = [start(WRITE_ALL, store_url) for _ in range(2)]
    answers = [process.communicate(timeout=120)[0].splitlines()[1:] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    each = [",".join(lines).split(",") for lines in answers]
    for one, other in zip(*each, strict=True):
        assert {one, other} == {"recorded", "duplicate"}
    assert rows(store_url, "SELECT count(*), max(seq) FROM outcomes") == [(60, 120)]


def test_what_was_acknowledged_is_there_after_the_process_was_killed(store_url: str) -> None:
    process = start(WRITE_ON, store_url)
    assert process.stdout is not None
    acknowledged = [process.stdout.readline().strip() for _ in range(40)]
    process.send_signal(signal.SIGKILL)
    acknowledged += process.stdout.read().split()
    process.wait()
    process.stdout.close()
    store = Store.open(store_url)
    visits = store.history("ann", 10_000).visits
    store.close()
    assert {visit.slate.slate_id for visit in visits} >= set(acknowledged)
    assert all(visit == Visit(visit.slate, 2, ("a",)) for visit in visits)
    assert rows(store_url, "SELECT count(*) FROM outcomes") == [(len(visits),)]


def test_nothing_to_write_is_written(store: Store) -> None:
    assert store.write([], []) == []
    assert store.seq() == 0


def test_an_outcome_is_known_by_what_it_says() -> None:
    same = [Outcome("s", 2, ("a", "b"), time).key for time in (1, 2)]
    different = [
        click("s", *items, seen=seen).key
        for items, seen in [
            (("a|b",), 2),
            (("a", "b"), None),
            (("b", "a"), 2),
            (("a", "b"), 0),
            ((), 2),
        ]
    ]
    assert same[0] == same[1]
    assert len({same[0], *different}) == 6
