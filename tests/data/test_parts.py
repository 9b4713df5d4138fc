"""A log that is read in parts makes the same dataset, to the last byte."""

import pickle
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from slatewise.data.preparation import prepare
from slatewise.data.reductions import PrepareConfig
from slatewise.data.split import SplitConfig
from slatewise.errors import InputError, SlatewiseError


def damaged_log(folder: Path) -> Path:
    """Write a log of three files with something wrong in each; return its items table."""
    rows: list[dict[str, Any]] = []
    for number in range(120):
        slate = [number % 7, 10 + number % 11, 30 + number % 5]
        click = slate[number % 3] if number % 2 else None
        source = "search" if number % 3 else "front page"
        row = {"user_id": number % 17, "time": number, "slate": slate, "click": click}
        rows.append(row | {"source": source})
    rows[5]["slate"] = []
    rows[44] |= {"click": 999}
    rows[50] |= {"slate": [3, 3, 12], "click": 3}
    rows[60]["source"] = None
    rows[70] |= {"slate": [777, 2], "click": None}  # not in the items table
    rows[81] |= {"time": 1}  # before what came earlier
    rows[100] = dict(rows[99])  # a copy
    folder.mkdir(parents=True)
    schema = {"slate": pl.List(pl.Int64), "click": pl.Int64}
    for number, start in enumerate((0, 40, 90)):
        part = rows[start : (40, 90, 120)[number]]
        pl.DataFrame(part, schema_overrides=schema).write_parquet(folder / f"{number}.parquet")
    items = folder.with_name("items.parquet")
    pl.DataFrame({"item_id": range(60), "group": [str(i % 4) for i in range(60)]}).write_parquet(
        items
    )
    return items


def assert_same_files(one: Path, other: Path) -> None:
    names = {file.name for file in one.iterdir()}
    assert names == {file.name for file in other.iterdir()}
    for name in names:
        assert (one / name).read_bytes() == (other / name).read_bytes(), name


def far_away(work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
    """Do the work on copies of everything, as processes elsewhere would."""
    for task in tasks:
        done = pickle.dumps((work, task))
        copy, given = pickle.loads(done)
        yield pickle.loads(pickle.dumps(copy(given)))


@pytest.mark.parametrize(
    ("config", "division"),
    [
        (PrepareConfig(), SplitConfig()),
        (
            PrepareConfig(no_click_share=0.5, first=5, min_interactions=3, max_slate=2),
            SplitConfig(),
        ),
        (PrepareConfig(listed_items_only=True, several_clicks="first"), SplitConfig(seed=3)),
    ],
    ids=["plain", "reduced", "listed"],
)
def test_parts_make_the_dataset_that_the_whole_makes(
    tmp_path: Path, config: PrepareConfig, division: SplitConfig
) -> None:
    items = damaged_log(tmp_path / "log")
    whole = prepare(tmp_path / "log", items, tmp_path / "whole", config, division=division)
    heard: list[tuple[str, int, int]] = []
    prepare(
        tmp_path / "log",
        items,
        tmp_path / "parts",
        config,
        division=division,
        elsewhere=far_away,
        progress=lambda *report: heard.append(report),
    )
    assert_same_files(tmp_path / "whole", tmp_path / "parts")
    problems = {found["what"] for found in whole.meta["report"]["problems"]}
    assert {"slate is empty", "click is not in the slate"} <= problems
    assert heard[0] == ("reading", 40, 120)


def test_a_strict_reader_elsewhere_says_where_it_stopped(tmp_path: Path) -> None:
    items = damaged_log(tmp_path / "log")
    strict = PrepareConfig(strict=True)
    with pytest.raises(InputError, match="slate is empty") as here:
        prepare(tmp_path / "log", items, tmp_path / "a", strict)
    with pytest.raises(InputError, match="slate is empty") as there:
        prepare(tmp_path / "log", items, tmp_path / "b", strict, elsewhere=far_away)
    assert str(there.value) == str(here.value)
    assert str(pickle.loads(pickle.dumps(here.value))) == str(here.value)
    assert not (tmp_path / "b").exists()


def test_text_is_not_read_in_parts(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("user_id,time,slate,click,source\n1,1,1 2,1,web\n")
    items = damaged_log(tmp_path / "other")
    with pytest.raises(SlatewiseError, match="in Parquet"):
        prepare(tmp_path / "log.csv", items, tmp_path / "out", elsewhere=far_away)
