from slatewise.service.records import Outcome, SlateRecord, Written
from slatewise.service.store import Store


def slate(slate_id: str, user_id: str | None = "ann", time: int = 1_000) -> SlateRecord:
    return SlateRecord(slate_id, user_id, time, "search", ("a", "b", "c"))


def test_a_slate_and_its_outcome_make_a_visit(store: Store) -> None:
    assert store.write([slate("s1")], [Outcome("s1", 2, ("b",), 1_010)]) == [Written.RECORDED]
    history = store.history("ann", 10)
    assert [(v.slate, v.seen, v.clicked) for v in history.visits] == [(slate("s1"), 2, ("b",))]
    assert history.seq == store.seq() == 2
