"""States of items are counted as training counts them, and again to the last bit."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Literal

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.features.popularity import PopularityConfig
from slatewise.features.popularity_state import CountedEvents, PopularityState
from slatewise.features.showings import Showing
from slatewise.model.config import ModelConfig
from slatewise.model.registry import TERMS
from slatewise.model.terms import FeatureTerm, FittedTerms
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.model.terms.term import Lookup, Ranks
from slatewise.service.serving import Replayer, Request, item_states
from slatewise.service.serving.item_states import COUNTS, ItemStates
from slatewise.service.serving.items import ItemLog
from slatewise.service.settings import ServiceConfig
from slatewise.service.store.records import Answer
from tests.service.serving.world import HOUR, a_model, a_service, promote, visit

START = 1_700_000_000_000_000
END = START + 30 * HOUR
SLOWER = PopularityConfig(half_lives=(2.0, 12.0))


class Log:
    """A store that has only answers."""

    def __init__(self, answers: Sequence[Answer]) -> None:
        self.answers = answers

    def answers_since(self, seq: int, limit: int, until: int | None = None) -> list[Answer]:
        last = len(self.answers) if until is None else until
        return [one for one in self.answers if seq < one.seq <= last][:limit]


def term() -> PopularityTerm:
    found = a_model(("popularity",)).terms.by_name["popularity"]
    assert isinstance(found, PopularityTerm)
    return found


def some_answers(count: int, *, late: bool, seed: int = 0) -> list[Answer]:
    """Return answers on slates of five out of 30 items; late ones come in any order of time."""
    rng = np.random.default_rng(seed)
    times = START + rng.integers(0, 24 * HOUR, count)
    times = times if late else np.sort(times)
    answers = []
    for number, time in enumerate(times.tolist()):
        items = tuple(f"i{item}" for item in rng.choice(30, 5, replace=False))
        seen = int(rng.integers(1, 6))
        clicked = items[: int(rng.integers(0, min(3, seen + 1)))]
        answers.append(Answer(number + 1, f"s{number}", time, items, seen, clicked))
    return answers


def counted(answers: Sequence[Answer], steps: Sequence[int] = ()) -> ItemStates:
    popular = ItemStates({"popularity": term()}, ItemLog())
    for step in steps:
        popular.read(Log(answers), step)
    popular.read(Log(answers))
    return popular


def features(popular: ItemStates) -> np.ndarray:
    log = popular._log
    return popular.by_name["popularity"].features(END)[
        log.items.find([f"i{item}" for item in range(30)])
    ]


def test_in_time_order_it_is_what_training_sees() -> None:
    answers = some_answers(300, late=False)
    state = PopularityState.empty(term().popularity, 30)
    for one in answers:
        seen = [int(item[1:]) for item in one.items[: one.seen]]
        clicks = [one.items.index(item) for item in one.clicked]
        state.add([Showing(tuple(seen), tuple(clicks), one.time)])
    expected = state.features(END) / np.array(term().sizes, np.float32)
    np.testing.assert_array_equal(features(counted(answers)), expected)


@pytest.mark.parametrize("steps", [[1, 2, 3, 120], [299], list(range(0, 300, 7))])
def test_it_is_the_same_to_the_last_bit_however_it_was_read(steps: list[int]) -> None:
    answers = some_answers(300, late=True)
    np.testing.assert_array_equal(features(counted(answers, steps)), features(counted(answers)))


def test_late_events_count_as_if_they_had_been_in_time() -> None:
    answers = some_answers(300, late=True)
    in_time = sorted(answers, key=lambda one: one.time)
    renumbered = [one._replace(seq=number + 1) for number, one in enumerate(in_time)]
    np.testing.assert_allclose(
        features(counted(answers)), features(counted(renumbered)), rtol=1e-4, atol=1e-5
    )


def test_answers_on_one_slate_add_up_and_never_count_twice() -> None:
    items = ("i1", "i2", "i3")
    at_once = [Answer(1, "s", START, items, 3, ("i2", "i3"))]
    one_by_one = [
        Answer(1, "s", START, items, 1, ()),
        Answer(2, "s", START, items, 2, ("i2",)),
        Answer(3, "s", START, items, 1, ("i2", "i3")),
        Answer(4, "s", START, items, 3, ()),
    ]
    np.testing.assert_array_equal(features(counted(one_by_one)), features(counted(at_once)))


def test_slates_are_remembered_only_so_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(item_states, "_REMEMBERED", 2)
    answers = [Answer(n + 1, f"s{n}", START, ("i1",), 1, ()) for n in range(5)]
    popular = counted(answers)
    assert len(popular._known) == 2


@pytest.mark.parametrize("late", [False, True])
def test_counting_goes_on_from_what_was_saved(tmp_path: Path, late: bool) -> None:
    answers = some_answers(300, late=late)
    first = ItemStates({"popularity": term()}, ItemLog())
    first.read(Log(answers), 200)
    first.save(tmp_path)
    log = ItemLog()
    log.items.indices(["other", "places"])
    second = ItemStates({"popularity": term()}, log, tmp_path)
    assert second.counted == 200
    second.read(Log(answers))
    assert second.counted == 300
    np.testing.assert_array_equal(features(second), features(counted(answers)))
    assert [path.name for path in tmp_path.iterdir()] == [COUNTS]


def test_an_item_without_events_is_new() -> None:
    popular = counted([Answer(1, "s", START, ("i1",), 1, ())])
    popular._log.items.indices(["i2"])
    assert len(popular.by_name["popularity"].features(END)) == 1
    assert not counted([]).by_name["popularity"].features(END).any()


def test_the_time_of_the_newest_event_is_known() -> None:
    popular = counted([Answer(1, "s", END + HOUR, ("i1",), 1, ())])
    assert END < popular.newest <= END + HOUR
    assert popular.by_name["popularity"].features(popular.newest).shape == (1, 9)


def begun(run: Path, answers: Sequence[Answer], earlier: ItemStates | None = None) -> ItemStates:
    """Return the count that everybody begins with."""
    model, log = a_model(("popularity",)), ItemLog()
    ItemStates.begin(model.terms, log, run, Log(answers), earlier)
    return ItemStates({"popularity": term()}, log, run)


def test_a_version_begins_where_the_one_before_is(tmp_path: Path) -> None:
    answers = some_answers(300, late=True)
    earlier = ItemStates({"popularity": term()}, ItemLog())
    earlier.read(Log(answers), 120)
    first = begun(tmp_path, answers, earlier)
    assert first.counted == 120
    second = begun(tmp_path, answers)  # another worker: what is written counts
    assert second.counted == 120
    for one in (first, second):
        one.read(Log(answers))
        np.testing.assert_array_equal(features(one), features(counted(answers)))


def test_a_version_that_fades_otherwise_begins_with_the_first_answer(tmp_path: Path) -> None:
    answers = some_answers(50, late=False)
    other = term().model_copy(
        update={"popularity": term().popularity.model_copy(update={"settings": SLOWER})}
    )
    earlier = ItemStates({"popularity": other}, ItemLog())
    earlier.read(Log(answers), 20)
    begins = begun(tmp_path, answers, earlier)
    assert begins.counted == 50
    np.testing.assert_array_equal(features(begins), features(counted(answers)))


def test_before_any_answer_the_count_is_empty(tmp_path: Path) -> None:
    assert begun(tmp_path, []).counted == 0
    assert (tmp_path / COUNTS).is_file()


def test_damaged_counts_are_named(tmp_path: Path) -> None:
    (tmp_path / COUNTS).write_bytes(b"nonsense")
    with pytest.raises(SlatewiseError, match="Delete the file"):
        ItemStates({"popularity": term()}, ItemLog(), tmp_path)


class ClickCounts:
    """How often items were clicked, ever."""

    def __init__(self, num_items: int) -> None:
        self.clicks, self.newest = np.zeros(num_items, np.int64), 0

    @property
    def arrays(self) -> dict[str, np.ndarray]:
        return {"clicks": self.clicks}

    def count(self, events: CountedEvents) -> None:
        self.grow(int(events.items.max(initial=-1)) + 1)
        np.add.at(self.clicks, events.items[events.clicks], 1)

    def grow(self, num_items: int) -> None:
        missing = max(0, num_items - len(self.clicks))
        self.clicks = np.concatenate([self.clicks, np.zeros(missing, np.int64)])

    def features(self, time: int, items: np.ndarray | None = None) -> np.ndarray:
        found = self.clicks if items is None else self.clicks[items]
        return found.astype(np.float32)[:, None]


class Clicks(FeatureTerm):
    """A term as somebody outside would write it."""

    name: ClassVar[str] = "clicks"
    acts_on: ClassVar[Literal["items", "no click"]] = "items"
    ranks: ClassVar[Ranks] = "all items"

    @classmethod
    def columns(cls, config: ModelConfig) -> tuple[str, ...]:
        return ("clicks",)

    def item_state(self, num_items: int) -> ClickCounts:
        return ClickCounts(num_items)

    def at_times(self, log: SlateDataset | None) -> Lookup:
        raise NotImplementedError

    @property
    def refresh(self) -> float:
        return 1e-6


def test_any_term_that_ranks_all_items_is_counted_from_the_store_and_replayed(
    tmp_path: Path,
) -> None:
    TERMS.register(Clicks)
    model = a_model(("clicks", "popularity"))
    model.terms.by_name["clicks"] = Clicks()
    model.terms = FittedTerms(dict(sorted(model.terms.by_name.items())))
    with torch.no_grad():
        model.posterior.shared["clicks"].mean.fill_(9.0)
    config = ServiceConfig.build({"arms": {"one": {"strategy": "greedy"}}}, "a test")
    service = a_service(tmp_path, model, config)
    records = []
    for item in ("a07", "a31", "a31"):
        visit(service, "ann", [item, "a01"], [item])
        service.refresh()
        records.append(service.recommend(Request(k=3))[0])
    assert [records[step].items[0] for step in (0, 2)] == ["a07", "a31"]
    service.store.write(records, [])
    promote(tmp_path, model)
    service.refresh()
    assert set(service.recommend(Request(k=2))[0].items) == {"a07", "a31"}
    again = Replayer(tmp_path, config, service.store)
    for record in records:
        logged = service.store.slate(record.slate_id)
        assert logged is not None
        assert tuple(again.slate(logged).items) == record.items
