"""Logs with one row per impression give the interactions they were made of."""

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest

from slatewise.data import log as log_module
from slatewise.data import spill
from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.data.reductions import PrepareConfig
from slatewise.errors import InputError
from tests.data.recovery import rows_of


def impression(**changes: Any) -> dict[str, Any]:
    usual = {
        "user": "ann",
        "time": 5,
        "slate_id": "s1",
        "item": "a",
        "position": 1,
        "clicked": False,
        "source": "search",
    }
    return usual | changes


def write(directory: Path, rows: list[dict[str, Any]]) -> tuple[Path, Path]:
    log, items = directory / "log.parquet", directory / "items.parquet"
    pl.DataFrame(rows).write_parquet(log)
    names = sorted({row["item"] for row in rows if row["item"] is not None})
    pl.DataFrame({"item_id": names, "group": "g"}).write_parquet(items)
    return log, items


def test_scattered_rows_become_ordered_slates(tmp_path: Path) -> None:
    rows = [
        impression(item="b", position=2, time=6, clicked=True),
        impression(user="bo", item="z"),
        impression(item="a", position=1),
        impression(slate_id="s2", item="c", position=10, time=9),
        impression(slate_id="s2", item="d", position=2, time=8),
    ]
    log, items = write(tmp_path, rows)
    with patch.object(log_module, "BATCH_ROWS", 2), patch.object(spill, "_ROWS_PER_BUCKET", 2):
        dataset = prepare(log, items, tmp_path / "out")
    assert rows_of(dataset) == {
        "ann": [(5, ("a", "b"), "b", "search"), (8, ("d", "c"), None, "search")],
        "bo": [(5, ("z",), None, "search")],
    }
    report = dataset.meta["report"]
    assert (report["rows"], report["slates"], report["problems"]) == (5, 3, [])


@pytest.mark.parametrize("with_ids", [True, False])
def test_random_logs_come_back_whatever_the_order_of_rows(with_ids: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    rows, wanted = [], {}
    for user in range(40):
        entries = []
        for time in range(int(rng.integers(1, 6))):
            slate = [f"i{n}" for n in rng.choice(30, size=rng.integers(1, 9), replace=False)]
            click = slate[rng.integers(len(slate))] if rng.random() < 0.5 else None
            entries.append((time, tuple(slate), click, "search"))
            rows += [
                impression(
                    user=user,
                    time=time,
                    slate_id=time,
                    item=item,
                    position=position,
                    clicked=int(item == click),
                )
                for position, item in enumerate(slate)
            ]
        wanted[user] = entries
    rng.shuffle(rows)
    if not with_ids:
        rows = [{k: v for k, v in row.items() if k != "slate_id"} for row in rows]
    dataset = prepare(*write(tmp_path, rows), tmp_path / "out")
    found = rows_of(dataset)
    assert found == wanted


def test_several_clicks_and_bad_rows(tmp_path: Path) -> None:
    rows = [
        impression(item="a", clicked=True),
        impression(item="b", position=2, clicked=True),
        impression(user=None, item="c"),
        impression(slate_id="s3", item=None, time=7),
    ]
    dataset = prepare(*write(tmp_path, rows), tmp_path / "out")
    assert [entry[2] for entry in rows_of(dataset)["ann"]] == ["a", "b"]
    what = {problem["what"]: problem["row"] for problem in dataset.meta["report"]["problems"]}
    assert what == {"user id is missing": 3, "slate has a missing item": 4}


DOUBTS: dict[str, tuple[list[dict[str, Any]], str, int]] = {
    "items of a slate have the same position": (
        [impression(), impression(user="bo"), impression(item="b", position=1)],
        "position",
        1,
    ),
    "whether the item was clicked is missing": (
        [impression(), impression(item="b", position=2, clicked=None)],
        "clicked",
        2,
    ),
    "slate has several sources": (
        [impression(), impression(item="b", position=2, source="home")],
        "source",
        1,
    ),
}


@pytest.mark.parametrize("what", DOUBTS)
def test_what_is_doubtful_about_a_slate_is_counted_or_refused(what: str, tmp_path: Path) -> None:
    rows, column, number = DOUBTS[what]
    log, items = write(tmp_path, rows)
    dataset = prepare(log, items, tmp_path / "out")
    (problem,) = dataset.meta["report"]["problems"]
    assert (problem["what"], problem["count"], problem["row"]) == (what, 1, number)
    assert rows_of(dataset)["ann"] == [(5, ("a", "b"), None, "search")]
    with pytest.raises(InputError, match=what) as error:
        prepare(log, items, tmp_path / "strict", PrepareConfig(strict=True))
    assert (error.value.row, error.value.column) == (number, column)


def test_a_row_that_is_there_twice_is_one_item(tmp_path: Path) -> None:
    dataset = prepare(*write(tmp_path, [impression(), impression(time=6)]), tmp_path / "out")
    (problem,) = dataset.meta["report"]["problems"]
    assert problem["what"] == "item is twice in its slate"


def test_other_names_and_unreadable_flags(tmp_path: Path) -> None:
    log, items = write(tmp_path, [impression()])
    other = pl.read_parquet(log).rename({"clicked": "hit", "item": "sku"})
    other.write_parquet(log)
    layout = LogFormat().mapped(["clicked=hit", "item_id=sku"])
    assert prepare(log, items, tmp_path / "out", log_format=layout).num_interactions == 1
    other.with_columns(hit=pl.lit("maybe")).write_parquet(log)
    with pytest.raises(InputError, match="'maybe' is not a yes or no") as error:
        prepare(log, items, tmp_path / "again", log_format=layout)
    assert (error.value.row, error.value.column) == (1, "hit")
