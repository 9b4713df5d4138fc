"""Popularity is counted as training counts it, and again to the last bit."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.features.popularity import PopularityConfig
from slatewise.features.popularity_state import PopularityState
from slatewise.features.showings import Showing
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.service.serving import popularity
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.popularity import COUNTS, Popular
from slatewise.service.store.records import Answer
from tests.service.serving.world import HOUR, a_model

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


def counted(answers: Sequence[Answer], steps: Sequence[int] = ()) -> Popular:
    popular = Popular(term(), ItemLog())
    for step in steps:
        popular.read(Log(answers), step)
    popular.read(Log(answers))
    return popular


def features(popular: Popular) -> np.ndarray:
    log = popular._log
    return popular.features(END)[log.items.find([f"i{item}" for item in range(30)])]


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
    monkeypatch.setattr(popularity, "_REMEMBERED", 2)
    answers = [Answer(n + 1, f"s{n}", START, ("i1",), 1, ()) for n in range(5)]
    popular = counted(answers)
    assert len(popular._known) == 2


@pytest.mark.parametrize("late", [False, True])
def test_counting_goes_on_from_what_was_saved(tmp_path: Path, late: bool) -> None:
    answers = some_answers(300, late=late)
    first = Popular(term(), ItemLog())
    first.read(Log(answers), 200)
    first.save(tmp_path)
    log = ItemLog()
    log.items.indices(["other", "places"])
    second = Popular(term(), log, tmp_path)
    assert second.counted == 200
    second.read(Log(answers))
    assert second.counted == 300
    np.testing.assert_array_equal(features(second), features(counted(answers)))
    assert [path.name for path in tmp_path.iterdir()] == [COUNTS]


def test_an_item_without_events_is_new() -> None:
    popular = counted([Answer(1, "s", START, ("i1",), 1, ())])
    popular._log.items.indices(["i2"])
    assert len(popular.features(END)) == 1
    assert not counted([]).features(END).any()


def test_the_time_of_the_newest_event_is_known() -> None:
    popular = counted([Answer(1, "s", END + HOUR, ("i1",), 1, ())])
    assert END < popular.newest <= END + HOUR
    assert popular.features(popular.newest).shape == (1, 5)


def begun(run: Path, answers: Sequence[Answer], earlier: Popular | None = None) -> Popular:
    """Return the count that everybody begins with."""
    model, log = a_model(("popularity",)), ItemLog()
    Popular.begin(model.terms, log, run, Log(answers), earlier)
    return Popular(term(), log, run)


def test_a_version_begins_where_the_one_before_is(tmp_path: Path) -> None:
    answers = some_answers(300, late=True)
    earlier = Popular(term(), ItemLog())
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
    earlier = Popular(other, ItemLog())
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
        Popular(term(), ItemLog(), tmp_path)
