"""Between nights, answers move items: the same in every worker, after a restart and on replay."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from slatewise.service.serving import Replayer, Request, Service
from slatewise.service.serving import learning as module
from slatewise.service.serving.learned import WHOLE, LearnedItems, pieces
from slatewise.service.serving.models import Models
from slatewise.service.settings import ServiceConfig
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.slates.learning import Answer, ItemLearner
from tests.service.serving.world import TERMS, a_model, a_service, put, visit

ARMS = {"one": {"strategy": "in-slate-thompson", "draws": 5}, "two": {"strategy": "greedy"}}
ON = ServiceConfig.build({"arms": ARMS, "learning": {"between_nights": True}}, "a test")
OFF = ServiceConfig.build({"arms": ARMS}, "a test")


def answered(service: Service, count: int, seed: int = 0) -> list[SlateRecord]:
    """Let users see slates, and answer most of them, some twice; items come and change groups."""
    rng, records = np.random.default_rng(seed), []
    for step in range(count):
        record = service.recommend(Request(f"u{rng.integers(9)}", k=6))[0]
        records.append(record)
        service.store.write([record], [])
        if rng.random() < 0.8:
            tell(service, record, record.items[:1] if rng.random() < 0.4 else ())
        if rng.random() < 0.2:
            tell(service, record, record.items[2:4])
        if step % 7 == 3:
            visit(service, "u1", ["a01", "a02"], ["a02"])  # a slate of others
        if step % 10 == 5:
            put(service, f"new-{step}", "new-5", group=("red", "blue", "violet")[step % 3])
        if step % 4 == 1:
            learn(service)
    return records


def tell(service: Service, record: SlateRecord, clicked: tuple[str, ...]) -> None:
    service.store.write([], [Outcome(record.slate_id, 5, clicked, record.time)])


def learn(service: Service) -> None:
    service.refresh()
    service._live["main"].learn(service.store)


def beliefs(service: Service) -> npt.NDArray[np.float32]:
    """Return all that the version that serves believes of its items."""
    table = service._live["main"].ranker.table
    rows = np.arange(table.num_items)
    columns = (
        table.means_of(rows),
        table.scales_of(rows),
        table.biases_of(rows)[:, None],
        table.bias_scales_of(rows)[:, None],
    )
    return np.concatenate(columns, axis=1)


@pytest.mark.parametrize("terms", [("bias",), TERMS])
def test_every_slate_can_be_made_again_after_any_answers(
    tmp_path: Path, terms: tuple[str, ...]
) -> None:
    service = a_service(tmp_path, a_model(terms), ON)
    put(service, *[f"a{number:02d}" for number in range(60)])
    before = beliefs(service)
    records = answered(service, 40)
    learned = [record.serving.learned for record in records if record.serving]
    assert len(set(learned)) > 5
    assert not np.array_equal(beliefs(service)[:60], before)
    replayer = Replayer(tmp_path, OFF, service.store)
    for record in (*records, records[7]):
        stored = service.store.slate(record.slate_id)
        assert stored == record
        assert tuple(replayer.slate(stored).items) == record.items
    service.store.close()


def test_workers_agree_to_the_bit_whatever_they_read_at_once_and_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAGE", 3)
    service = a_service(tmp_path, a_model(("bias",)), ON)
    put(service, *[f"a{number:02d}" for number in range(60)])
    answered(service, 30)
    learn(service)
    run = Models.of(tmp_path, "main").path(service._live["main"].version)
    kept = LearnedItems.read(run)
    assert kept is not None
    assert kept.number > 0
    answered(service, 5, seed=1)
    learn(service)
    asked: list[int] = []
    ask = service.store.answers_to

    def answers_to(model: str, version: str, since: int, limit: int, until: int) -> list[Any]:
        asked.append(since)
        return ask(model, version, since, limit, until)

    monkeypatch.setattr(service.store, "answers_to", answers_to)
    restarted = Service.open(tmp_path, ON, service.store)
    assert all(since >= kept.number for since in asked)
    for piece in pieces(run):
        piece.path(run).unlink()
    monkeypatch.setattr(module, "_PAGE", 500)
    afresh = Service.open(tmp_path, ON, service.store)
    assert min(asked) < kept.number
    for other in (restarted, afresh):
        assert np.array_equal(beliefs(other), beliefs(service))
    service.store.close()


def test_of_several_workers_one_learns_from_an_answer_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = a_service(tmp_path, a_model(("bias",)), ON)
    put(first, *[f"a{number:02d}" for number in range(60)])
    second = Service.open(tmp_path, ON, first.store)
    answered(first, 12)
    learned: list[int] = []
    moved = ItemLearner.moved

    def counted(learner: ItemLearner, answers: list[Answer]) -> Any:
        learned.append(len(answers))
        return moved(learner, answers)

    monkeypatch.setattr(ItemLearner, "moved", counted)
    learn(first)
    assert sum(learned) > 0
    before = sum(learned)
    learn(second)
    assert sum(learned) == before
    assert np.array_equal(beliefs(first), beliefs(second))
    live = second._live["main"]
    assert live.learning is not None
    (record,) = answered(first, 1, seed=5)
    tell(first, record, record.items[3:4])
    with live.learning.turn():  # while another has the turn, nothing is learned twice
        learn(first)
    learn(second)
    learn(first)
    assert np.array_equal(beliefs(first), beliefs(second))
    first.store.close()


def test_workers_write_and_read_what_has_changed_and_now_and_then_all(tmp_path: Path) -> None:
    first = a_service(tmp_path, a_model(("bias",)), ON)
    put(first, *[f"a{number:02d}" for number in range(60)])
    second = Service.open(tmp_path, ON, first.store)
    answered(first, 40)
    learn(first)
    learn(second)
    run = Models.of(tmp_path, "main").path(first._live["main"].version)
    sizes = []
    for step in range(12):  # in turns: whoever learns has taken what the other kept
        before = pieces(run)[-1].number
        service = (first, second)[step % 2]
        answered(service, 1, seed=step)
        learn(service)
        changed, whole = LearnedItems.read(run, after=before), LearnedItems.read(run)
        assert whole is not None
        sizes += [] if changed is None else [len(changed.rows)]
        assert len(pieces(run)) < 12
    assert len(whole.rows) > 2 * min(sizes)
    assert sum(piece.since == WHOLE for piece in pieces(run)) == 1
    learn(first)
    restarted = Service.open(tmp_path, ON, first.store)
    for other in (second, restarted):
        learn(other)
        assert np.array_equal(beliefs(other), beliefs(first))
    first.store.close()


def test_what_is_kept_of_another_model_or_damaged_is_not_taken(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(("bias",)), ON)
    run = Models.of(tmp_path, "main").path(service._live["main"].version)
    none = np.zeros((0, 5), np.float32)
    LearnedItems(7, np.empty(0, np.int64), [], none, none).write(run)
    kept = LearnedItems.read(run)
    assert kept is not None
    assert kept.number == 7
    (piece,) = pieces(run)
    piece.path(run).write_bytes(b"nothing")
    assert LearnedItems.read(run) is None
    service.store.close()


def test_without_it_nothing_is_learned_and_records_stay_as_they_were(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(("bias",)), OFF)
    put(service, *[f"a{number:02d}" for number in range(60)])
    before = beliefs(service)
    (record,) = answered(service, 1)
    assert record.serving is not None
    assert (record.serving.learned, record.serving.shown) == (None, None)
    assert service._live["main"].learning is None
    learn(service)
    assert np.array_equal(beliefs(service)[: len(before)], before)
    service.store.close()


def test_a_later_answer_counts_for_what_is_new_in_it(tmp_path: Path) -> None:
    service = a_service(tmp_path, a_model(("bias",)), ON)
    put(service, *[f"a{number:02d}" for number in range(60)])
    record = service.recommend(Request("anna", k=6))[0]
    service.store.write([record], [])
    for clicked in ((), record.items[1:2], record.items[1:3]):
        tell(service, record, clicked)
    version = service._live["main"].version
    found = service.store.answers_to("main", version, 0, 10, service.store.seq())
    assert [(one.clicked, one.again, one.before) for one in found] == [
        ((), False, ()),
        ((1,), True, ()),
        ((1, 2), True, (1,)),
    ]
    assert not service.store.answers_to("main", "another", 0, 10, service.store.seq())
    service.store.close()
