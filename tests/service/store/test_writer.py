"""The queue before the store: nothing acknowledged is lost, nothing waits that need not."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

import pytest

from slatewise.service.store import Store, StoreError
from slatewise.service.store import writer as module
from slatewise.service.store.engine import RecordError
from slatewise.service.store.records import Outcome, OutcomeStatus, SlateRecord
from slatewise.service.store.writer import BATCH, ROOM, QueueFullError, Writer


def slate(name: str, user: str | None = "anna") -> SlateRecord:
    return SlateRecord(name, user, 1_700_000_000_000_000, "search", ("a", "b"))


def click(name: str, item: str = "a") -> Outcome:
    return Outcome(name, 2, (item,), 1_700_000_001_000_000)


class Troubled:
    """The real store, behind a door that can be shut, and a plug that can be pulled."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.door = threading.Event()
        self.door.set()
        self.down = False
        self.batches: list[int] = []

    def write(
        self, slates: Sequence[SlateRecord], outcomes: Sequence[Outcome]
    ) -> list[OutcomeStatus]:
        self.door.wait()
        if self.down:
            raise StoreError("the store is down.", "wait")
        if any(record.slate_id == "poison" for record in slates):
            raise ValueError("poison")
        self.batches.append(len(slates) + len(outcomes))
        return self.store.write(slates, outcomes)

    def slate(self, slate_id: str) -> SlateRecord | None:
        return self.store.slate(slate_id)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Troubled]:
    real = Store.open(f"sqlite:///{tmp_path / 'store.sqlite'}")
    yield Troubled(real)
    real.close()


@pytest.fixture
def make(store: Troubled) -> Iterator[Callable[..., Writer]]:
    made: list[Writer] = []

    def start(size: int = 1_000, heard: list[str] | None = None, room: int = ROOM) -> Writer:
        listener = None if heard is None else heard.extend
        made.append(Writer(store, size, listener, room))  # type: ignore[arg-type]
        return made[-1]

    yield start
    store.door.set()
    store.down = False
    for one in made:
        one.close()


def eventually(condition: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def test_what_is_answered_is_in_the_store(store: Troubled, make: Callable[..., Writer]) -> None:
    writer = make()
    writer.add_slate(slate("one"))
    written = writer.add([slate("two")], [click("one"), click("two"), click("two")]).result(60)
    assert written == [OutcomeStatus.RECORDED, OutcomeStatus.RECORDED, OutcomeStatus.DUPLICATE]
    assert store.store.slate("one") == slate("one")
    assert len(store.store.history("anna", 5).visits) == 2
    eventually(lambda: len(writer) == 0)


def test_what_waits_together_is_written_together(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make(size=3 * BATCH)
    store.door.clear()
    writer.add_slate(slate("first"))
    eventually(lambda: not writer._queue)  # the thread stands before the door with it
    for number in range(2 * BATCH):
        writer.add_slate(slate(str(number)))
    store.door.set()
    writer.add([], [click("first")]).result(60)
    assert store.batches == [1, BATCH, BATCH, 1]


def test_a_slate_never_waits_for_a_writer_that_is_stuck(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make(size=10)
    store.door.clear()
    start = time.monotonic()
    for number in range(1_000):
        writer.add_slate(slate(str(number)))
    assert time.monotonic() - start < 20  # 20 ms each: to wait would take far longer
    assert (len(writer), writer.dropped) == (10, 990)
    with pytest.raises(QueueFullError):
        writer.add([], [click("1")])
    store.door.set()
    eventually(lambda: len(writer) == 0)
    assert store.store.slate("9") is not None
    assert store.store.slate("10") is None


def test_records_that_wait_take_a_bounded_memory(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make(room=100_000)
    store.door.clear()
    long = SlateRecord("long", None, 1_700_000_000_000_000, "search", ("x" * 200,) * 150)
    outcome = Outcome("long", 2, ("x" * 200,) * 150, 1_700_000_001_000_000)
    for _ in range(5):
        writer.add_slate(long)
    assert (len(writer), writer.dropped) == (2, 3)  # of 40 kB each
    with pytest.raises(QueueFullError):
        writer.add([], [outcome])
    writer.add([], [click("long", "x" * 200)])  # there is room for little
    store.door.set()
    eventually(lambda: len(writer) == 0)
    assert writer.add([], [outcome]).result(60) == [OutcomeStatus.RECORDED]
    eventually(lambda: writer._memory == 0)


def test_records_stay_while_the_store_is_down_and_are_written_when_it_is_back(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make()
    store.down = True
    waiting = writer.add([slate("one")], [click("one")])
    eventually(lambda: writer.problem is not None)
    writer.add_slate(slate("two"))
    with pytest.raises(StoreError, match="down"):
        writer.add([slate("three")], [click("three")])
    assert not waiting.done()
    store.down = False
    assert waiting.result(60) == [OutcomeStatus.RECORDED]
    eventually(lambda: store.store.slate("two") is not None)
    assert writer.problem is None
    assert writer.failures > 0
    assert store.store.slate("three") is None  # refused, so not kept behind the caller's back


def test_feedback_waits_a_moment_for_a_slate_from_another_process(
    store: Troubled, make: Callable[..., Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 60.0)  # the slate may take a while, too
    writer = make()
    waiting = writer.add([slate("here")], [click("elsewhere"), click("here")])
    time.sleep(0.1)
    assert not waiting.done()
    store.store.write([slate("elsewhere")], [])
    assert waiting.result(60) == [OutcomeStatus.RECORDED, OutcomeStatus.RECORDED]


def test_feedback_for_no_slate_is_never_acknowledged(
    store: Troubled, make: Callable[..., Writer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "PATIENCE", 0.1)
    writer = make()
    assert writer.add([], [click("none")]).result(60) == [OutcomeStatus.UNKNOWN_SLATE]
    eventually(lambda: len(writer) == 0)


def test_one_bad_record_does_not_keep_others_from_being_written(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make()
    store.door.clear()
    bad = writer.add([slate("poison")], [])
    good = writer.add([slate("good")], [click("good")])
    store.door.set()
    assert good.result(60) == [OutcomeStatus.RECORDED]
    with pytest.raises(ValueError, match="poison"):
        bad.result(60)
    eventually(lambda: len(writer) == 0)


def test_a_record_that_the_database_refuses_fails_alone_and_is_counted(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make()
    worse = SlateRecord("worse", "anna", 1, "search", ("a",))
    object.__setattr__(worse, "time", None)  # NOT NULL
    store.door.clear()
    writer.add_slate(worse)
    bad = writer.add([worse], [])
    good = writer.add([slate("good")], [click("good")])
    store.door.set()
    assert good.result(60) == [OutcomeStatus.RECORDED]
    with pytest.raises(RecordError, match="refuses a record"):
        bad.result(60)
    eventually(lambda: len(writer) == 0)
    assert (writer.dropped, writer.problem) == (1, None)


def test_users_are_named_before_their_feedback_is_answered(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    heard: list[str] = []
    writer = make(heard=heard)
    store.store.write([slate("old", "bo")], [])
    writer.add_slate(slate("new", "anna"))
    writer.add_slate(slate("unanswered", "cleo"))
    writer.add_slate(slate("nameless", None))
    writer.add([], [click("old"), click("new"), click("nameless")]).result(60)
    assert heard == ["anna", "bo"]


def test_feedback_that_is_written_is_answered_whatever_becomes_of_the_news(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    class Deaf(list[str]):
        def extend(self, users: Iterable[str]) -> None:
            raise OSError("the cache is gone")

    writer = make(heard=Deaf())
    answer = writer.add([slate("one", "anna")], [click("one")])
    assert answer.result(60) == [OutcomeStatus.RECORDED]
    assert len(store.batches) == 1


def test_work_is_done_after_what_waited_before_it(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make()
    store.door.clear()
    writer.add_slate(slate("one"))
    writer.add_slate(slate("two"))
    work = writer.call(lambda: store.store.erase("anna", 1_800_000_000_000_000))
    writer.add_slate(slate("three", "bo"))
    store.door.set()
    assert work.result(60) == 2
    eventually(lambda: store.store.slate("three") is not None)
    assert store.store.slate("one") is None


def test_work_that_fails_fails_for_its_caller_alone(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make()
    work = writer.call(lambda: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        work.result(60)
    assert writer.add([slate("one")], [click("one")]).result(60) == [OutcomeStatus.RECORDED]


def test_closing_writes_what_waits(store: Troubled, make: Callable[..., Writer]) -> None:
    writer = make()
    store.door.clear()
    for number in range(50):
        writer.add_slate(slate(str(number)))
    waiting = writer.add([], [click("7"), click("never")])
    threading.Timer(0.05, store.door.set).start()
    writer.close()
    assert waiting.result(0) == [OutcomeStatus.RECORDED, OutcomeStatus.UNKNOWN_SLATE]
    assert all(store.store.slate(str(number)) is not None for number in range(50))
    with pytest.raises(QueueFullError):
        writer.add([], [click("7")])


def test_closing_gives_up_on_a_store_that_does_not_come_back(
    store: Troubled, make: Callable[..., Writer]
) -> None:
    writer = make()
    store.down = True
    writer.add_slate(slate("lost"))
    waiting = writer.add([slate("one")], [click("one")])
    writer.close(timeout=0.2)
    with pytest.raises(StoreError):
        waiting.result(0)
    assert (writer.dropped, len(writer)) == (1, 0)


def test_many_threads_at_once_lose_nothing(store: Troubled, make: Callable[..., Writer]) -> None:
    writer = make()
    answers: list[list[OutcomeStatus]] = []

    def client(number: int) -> None:
        for turn in range(10):
            name = f"{number}-{turn}"
            writer.add_slate(slate(name))
            answers.append(writer.add([], [click(name), click("0-0")]).result(60))

    threads = [threading.Thread(target=client, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    own, shared = zip(*answers, strict=True)
    assert {*own, *shared} == {OutcomeStatus.RECORDED, OutcomeStatus.DUPLICATE}
    assert (own + shared).count(OutcomeStatus.RECORDED) == 80
    assert len(store.store.history("anna", 100).visits) == 80
