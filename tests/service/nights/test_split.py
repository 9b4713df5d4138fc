"""What is learned from, ends training and judges, on logs that are easily counted."""

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.service.nights import split
from slatewise.service.nights.split import LEAST_JUDGED, split_window
from slatewise.service.nights.window import export_window
from tests.service.nights.world import DAY, DAYS, START, Shelf, visits

END = START + DAYS * DAY


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    folder = tmp_path_factory.mktemp("split")
    window = export_window(Shelf(visits()), folder, START, END, lambda *progress: None)
    return prepare(window.log, window.items, folder / "dataset")


def spans(dataset: SlateDataset, part: str) -> np.ndarray:
    """Return the times of a part of the split."""
    first = {"training": 0 * dataset.train_end, "validation": dataset.train_end}
    end = {"training": dataset.train_end, "validation": dataset.valid_end}
    lengths = np.diff(dataset.user_offsets)
    starts = first.get(part, dataset.valid_end)
    ends = end.get(part, lengths)
    return np.concatenate(
        [
            dataset.times[offset + a : offset + b]
            for offset, a, b in zip(dataset.user_offsets, starts, ends, strict=False)
        ]
    )


def test_nothing_that_is_learned_from_or_ends_training_is_of_the_newest_day(
    dataset: SlateDataset,
) -> None:
    found = split_window(dataset, END, None, seed=0)
    assert found.judged_from == pytest.approx(END - DAY, abs=DAY / 20)  # a quarter of four days
    for part in ("training", "validation"):
        assert spans(found.learning, part).max() < found.judged_from
    newest = spans(found.judging, "test")
    assert newest.min() >= found.judged_from
    assert len(newest) == found.judged == (dataset.times >= found.judged_from).sum()
    assert found.learned + found.ending + found.judged == dataset.num_interactions


def test_who_ends_the_judged_fit_ends_the_final_one_and_is_never_learned_from(
    dataset: SlateDataset,
) -> None:
    found = split_window(dataset, END, None, seed=0)
    ending = found.learning.train_end == 0
    assert ending.mean() == pytest.approx(0.1, abs=0.02)
    assert (found.everything.train_end == 0).tolist() == ending.tolist()
    lengths = np.diff(dataset.user_offsets)
    assert (found.everything.valid_end == lengths).all()
    assert (found.everything.train_end[~ending] == lengths[~ending]).all()


def test_nothing_judges_that_the_serving_model_has_learned_from(dataset: SlateDataset) -> None:
    known = END - DAY // 8
    found = split_window(dataset, END, known, seed=0)
    assert found.judged_from == known
    assert found.judged == (dataset.times >= known).sum()


def test_where_the_newest_day_has_few_slates_those_before_judge_too(dataset: SlateDataset) -> None:
    later = END + 5 * DAY  # nobody came in the last days
    assert split_window(dataset, later, None, seed=0).judged == pytest.approx(LEAST_JUDGED, abs=2)


def test_so_many_judge_as_fit_in_memory_all_or_nothing_of_a_user(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = split_window(dataset, END, None, seed=0)
    monkeypatch.setattr(split, "MOST_JUDGED", 100)
    some = split_window(dataset, END, None, seed=0)
    assert 90 < some.judged <= 100
    assert (some.learning.valid_end == every.learning.valid_end).all()
    lengths = np.diff(dataset.user_offsets)
    judging = some.judging.valid_end < lengths
    assert (some.judging.valid_end[judging] == every.judging.valid_end[judging]).all()
