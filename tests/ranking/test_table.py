import json
import os
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slatewise.errors import InputError, SlatewiseError
from slatewise.ranking import Filter, ItemTable, rank_draws, rank_expected, rank_means
from slatewise.ranking.columns import CONTENTS
from slatewise.ranking.loops import heap

from . import naive


def rows(count: int, seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    means, scales = rng.normal(size=(2, count, 3)).astype(np.float32)
    return (
        means,
        np.abs(scales),
        rng.normal(size=count).astype(np.float32),
        rng.integers(0, 5, count),
    )


def assert_holds(table: ItemTable, values: tuple[Any, ...]) -> None:
    every = np.arange(len(values[0]))
    assert table.num_items == len(every)
    assert (table.means_of(every) == values[0]).all()
    assert (table.scales_of(every) == values[1]).all()
    assert (table.biases_of(every) == values[2]).all()
    assert (table.groups == values[3]).all()
    blocks = table.snapshot()[1].means.transpose(0, 2, 1).reshape(-1, 3)
    assert (blocks[: len(every)] == values[0]).all()


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_table_holds_what_it_was_given(on_disk: bool, tmp_path: Path) -> None:
    values = rows(37)
    table = ItemTable.create(*values, tmp_path / "table" if on_disk else None)
    assert_holds(table, values)
    assert table.dimensions == 3
    assert table.num_groups == values[3].max() + 1
    assert table.available.all()
    if on_disk:
        assert_holds(ItemTable.open(tmp_path / "table"), values)


@pytest.mark.parametrize("count", [1, 50, 5000])
def test_items_are_appended_within_the_capacity_and_beyond(count: int, tmp_path: Path) -> None:
    first, more = rows(40), rows(count, 1)
    table = ItemTable.create(*first, tmp_path / "table")
    table.set_available([3], False)
    before = table.snapshot()[1]
    table.append(*more)
    assert_holds(table, tuple(np.concatenate(pair) for pair in zip(first, more, strict=True)))
    assert np.flatnonzero(~table.available).tolist() == [3]
    assert (table.snapshot()[1] is before) == (40 + count <= before.capacity)
    found = rank_means(table, more[0][-1], 1, Filter(allow=[39 + count])).items
    assert found.tolist() == [39 + count]


@pytest.mark.parametrize("on_disk", [False, True])
def test_scales_of_biases_are_held_grown_and_taken(on_disk: bool, tmp_path: Path) -> None:
    first, more, bias_sd = rows(40), rows(200, 1), np.linspace(0, 2, 240, dtype=np.float32)
    table = ItemTable.create(
        *first, tmp_path / "table" if on_disk else None, bias_scales=bias_sd[:40]
    )
    table.append(*more, bias_scales=bias_sd[40:])
    assert_holds(table, tuple(np.concatenate(pair) for pair in zip(first, more, strict=True)))
    assert (table.bias_scales_of(np.arange(240)) == bias_sd).all()
    assert (table.take([7, 200]).bias_scales_of([0, 1]) == bias_sd[[7, 200]]).all()
    certain = ItemTable.create(*first)
    assert not certain.bias_scales_of(np.arange(40)).any()
    certain.append(*more, bias_scales=bias_sd[40:])  # the first of the table that has any
    assert (
        certain.bias_scales_of(np.arange(240)) == np.where(np.arange(240) < 40, 0, bias_sd)
    ).all()
    with pytest.raises(SlatewiseError, match="negative"):
        ItemTable.create(*first, bias_scales=-bias_sd[:40])


def test_changes_are_private_to_the_process(tmp_path: Path) -> None:
    values = rows(40)
    table = ItemTable.create(*values, tmp_path / "table")
    table.append(*rows(10, 1))
    table.put([0, 1], table.means_of([2, 3]), table.scales_of([2, 3]), [5.0, 6.0])
    table.set_available([2], False)
    other = ItemTable.open(tmp_path / "table")
    assert_holds(other, values)
    assert other.available.all()


def test_biases_and_availability_are_kept_apart() -> None:
    table = ItemTable.create(*rows(20))
    table.set_available([4, 5], False)
    table.put([4, 6], table.means_of([4, 6]), table.scales_of([4, 6]), [9.0, 9.0])
    assert rank_means(table, np.zeros(3), 1).items.tolist() == [6]
    assert not table.available[4]
    table.set_available([4], True)
    assert rank_means(table, np.zeros(3), 2).items.tolist()[0] in {4, 6}
    assert table.biases_of([4, 6]).tolist() == [9.0, 9.0]


def test_a_table_may_begin_without_items() -> None:
    table = ItemTable.create(np.empty((0, 3)), np.empty((0, 3)), [], [])
    assert rank_means(table, np.zeros(3), 2).items.tolist() == [-1, -1]
    table.append(*rows(3))
    assert (rank_means(table, np.zeros(3), 3).items >= 0).all()


def test_requests_go_on_while_items_are_appended() -> None:
    table = ItemTable.create(*rows(2000))
    wrong: list[Any] = []

    def serve() -> None:
        for _ in range(300):
            before = table.num_items
            found = rank_means(table, np.zeros(3), 5)
            if found.items.min() < 0 or found.items.max() >= max(before, table.num_items):
                wrong.append(found)

    thread = threading.Thread(target=serve)
    thread.start()
    for seed in range(60):
        table.append(*rows(25, seed))
    thread.join()
    assert not wrong
    assert table.num_items == 2000 + 60 * 25


def test_requests_go_on_while_items_are_switched() -> None:
    table = ItemTable.create(*rows(30))
    done, found = threading.Event(), []

    def serve() -> None:
        while not done.is_set():
            found.append(rank_means(table, np.zeros(3), 30).items)
            found.append(rank_draws(table, np.zeros((2, 3)), 30, len(found)).items[1])
            found.append(rank_expected(table, np.zeros((1, 3)), 30).items)

    thread = threading.Thread(target=serve)
    thread.start()
    for seed in range(3000):
        table.set_available(np.arange(30), bool(seed % 2))
    done.set()
    thread.join()
    for items in found:
        there = items[items >= 0]
        assert len(np.unique(there)) == len(there)
        assert (there < 30).all()


@pytest.mark.parametrize("relevance", ["distance", "dot"])
def test_items_switched_off_while_they_are_ranked_are_left_out(
    relevance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ItemTable.create(*rows(30))
    room = heap.room

    def switched_off(*arguments: Any) -> int:
        size = room(*arguments)
        table.set_available(np.arange(30), False)
        return size

    monkeypatch.setattr(heap, "room", switched_off)
    ranking = rank_expected(table, np.zeros((1, 3)), 30, relevance=relevance)
    assert (ranking.items == -1).all()


def test_take_makes_a_table_of_some_items() -> None:
    values = rows(30)
    table = ItemTable.create(*values)
    table.set_available([8], False)
    part = table.take([20, 8, 3])
    assert_holds(part, tuple(value[[20, 8, 3]] for value in values))
    assert part.available.tolist() == [True, False, True]


def cut(directory: Path, name: str) -> None:
    file = directory / name
    os.truncate(file, file.stat().st_size - 4)


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("damage", [cut, lambda directory, name: (directory / name).unlink()])
def test_a_damaged_directory_is_refused(damage: Any, name: str, tmp_path: Path) -> None:
    ItemTable.create(*rows(20), tmp_path / "table")
    damage(tmp_path / "table", name)
    with pytest.raises(InputError):
        ItemTable.open(tmp_path / "table")


@pytest.mark.parametrize(
    "change",
    [
        {"version": 1},
        {"items": 1000},
        {"dimensions": 4},
        {"capacity": 77},
        {"items": "many"},
        {"dimensions": 0},
        {"spreads": 3},
        {"spreads": 4},
    ],
)
def test_a_header_that_does_not_fit_is_refused(change: dict[str, Any], tmp_path: Path) -> None:
    ItemTable.create(*rows(20), tmp_path / "table")
    header = tmp_path / "table" / "table.json"
    header.write_text(json.dumps(json.loads(header.read_text()) | change))
    with pytest.raises(InputError):
        ItemTable.open(tmp_path / "table")


def test_a_directory_that_exists_is_not_replaced(tmp_path: Path) -> None:
    ItemTable.create(*rows(20), tmp_path / "table")
    with pytest.raises(SlatewiseError, match="exists already"):
        ItemTable.create(*rows(20), tmp_path / "table")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({0: np.zeros(20)}, "shape"),
        ({0: np.zeros((20, 0))}, "shape"),
        ({1: np.zeros((20, 2))}, "same items"),
        ({2: np.zeros(19)}, "same items"),
        ({0: np.full((20, 3), np.nan)}, "a mean that is not"),
        ({1: np.full((20, 3), np.inf)}, "a scale that is not"),
        ({2: np.full(20, -np.inf)}, "a bias that is not"),
        ({1: np.full((20, 3), -0.1)}, "negative"),
        ({3: np.full(20, -1)}, "negative"),
    ],
)
def test_items_that_cannot_be_are_refused(change: dict[int, Any], problem: str) -> None:
    values = [change.get(index, value) for index, value in enumerate(rows(20))]
    with pytest.raises(SlatewiseError, match=problem):
        ItemTable.create(*values)


def test_appended_items_must_have_the_same_dimensions() -> None:
    world = naive.make_world(20, 4)
    with pytest.raises(SlatewiseError, match="shape"):
        world.table.append(*rows(5))


def test_items_change_their_groups_for_the_next_request(tmp_path: Path) -> None:
    made = ItemTable.create(*rows(20), tmp_path / "table")
    made.set_groups([3, 7], [9, 0])
    assert made.groups[[3, 7]].tolist() == [9, 0]
    assert made.num_groups == 10
    caps = np.full(10, -1)
    caps[9] = 0
    assert 3 not in rank_means(made, np.zeros(3), 20, Filter(caps=caps)).items
    assert_holds(ItemTable.open(tmp_path / "table"), rows(20))  # what is on disk stays


@pytest.mark.parametrize("groups", [[-1], [1, 2], 4])
def test_groups_that_cannot_be_are_refused(groups: Any) -> None:
    with pytest.raises(SlatewiseError, match="Groups do not fit"):
        ItemTable.create(*rows(20)).set_groups([3], groups)


def test_items_may_come_with_their_features() -> None:
    made = ItemTable.create(*rows(20))
    made.set_features(np.ones((20, 2)))
    made.append(*rows(500, 1), features=np.arange(1000).reshape(500, 2))
    made.append(*rows(1, 2))
    assert made.features_of([19, 20, 519, 520]).tolist() == [[1, 1], [0, 1], [998, 999], [0, 0]]
    with pytest.raises(SlatewiseError, match="shape"):
        made.append(*rows(1), features=np.ones((1, 3)))
