"""Bad input: each kind has the outcome the documentation promises, and nothing is half-done."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.formats import ItemsFormat, LogFormat
from slatewise.data.preparation import prepare
from slatewise.data.reductions import PrepareConfig
from slatewise.data.split import SplitConfig
from slatewise.errors import InputError, SlatewiseError
from tests.data.log_rows import GOOD, Write, found, many, row
from tests.data.recovery import rows_of

REPAIRS = {
    "user id is missing": ([GOOD, row(user_id=None)], "user_id", 2, 1),
    "time is missing": ([row(time=None), GOOD], "time", 1, 1),
    "slate is empty": ([row(slate=[], click=None), GOOD], "slate", 1, 1),
    "slate has a missing item": ([row(slate=["a", None]), GOOD], "slate", 1, 1),
    "click is not in the slate": ([row(click="z"), GOOD], "click", 1, 1),
    "interaction is there twice": ([row(time=3), GOOD, GOOD], None, 3, 1),
    "item is twice in its slate": ([row(slate=["a", "b", "a"]), GOOD], "slate", 1, 0),
    "position is given without a click": (
        [row(click=None, position=2), GOOD | {"position": 2}],
        "position",
        1,
        0,
    ),
    "source is missing": ([row(source=None), GOOD], "source", 1, 0),
    "time lies before the user's previous row": ([GOOD, row(time=1)], "time", 2, 0),
    "time equals that of another interaction of the user": (
        [GOOD, row(time=9, slate=["b", "a"], click="a")],
        "time",
        2,
        0,
    ),
}
"""What is wrong: a log of which one row is so, the column, that row, and how many are dropped."""


@pytest.mark.parametrize("what", REPAIRS)
def test_bad_rows_are_repaired_and_counted(what: str, write_log: Write, tmp_path: Path) -> None:
    rows, _, number, dropped = REPAIRS[what]
    dataset = prepare(*write_log(rows), tmp_path / "out")
    assert found(dataset)[what] == (1, number)
    assert dataset.num_interactions == len(rows) - dropped
    assert (GOOD["time"], ("a", "b", "c"), "b", "search") in rows_of(dataset)["ann"]


@pytest.mark.parametrize("what", REPAIRS)
def test_strict_refuses_what_would_be_repaired(what: str, write_log: Write, tmp_path: Path) -> None:
    rows, column, number, _ = REPAIRS[what]
    log, items = write_log(rows)
    with pytest.raises(InputError, match=what) as error:
        prepare(log, items, tmp_path / "out", PrepareConfig(strict=True))
    assert error.value.file == log
    assert error.value.row == number
    assert error.value.column == column
    assert error.value.remedy
    assert sorted(p.name for p in tmp_path.iterdir()) == ["items.parquet", "log.parquet"]


def test_strict_takes_a_clean_log(write_log: Write, tmp_path: Path) -> None:
    rows = [row(time=t, user_id=u) for u in ("ann", "bo") for t in range(3)]
    dataset = prepare(*write_log(rows), tmp_path / "out", PrepareConfig(strict=True))
    assert dataset.num_interactions == 6


def test_repairs_keep_what_can_be_kept(write_log: Write, tmp_path: Path) -> None:
    rows = [row(time=2, slate=["c", "a", "c", "b", "a"], click="b", source=None)]
    dataset = prepare(*write_log(rows), tmp_path / "out")
    assert rows_of(dataset) == {"ann": [(2, ("c", "a", "b"), "b", "unknown")]}


def test_items_without_a_group_go_to_unknown(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row()], groups={"a": "sofa", "b": None})
    dataset = prepare(log, items, tmp_path / "out")
    assert dict(zip(dataset.item_ids, dataset.items["group"], strict=True)) == {
        "a": "sofa",
        "b": "unknown",
        "c": "unknown",
    }
    assert found(dataset)["item has no group"] == (1, 2)
    assert found(dataset)["item is not in the items table"] == (1, 1)
    names = [dataset.group_names[g] for g in dataset.item_groups]
    assert names == ["sofa", "unknown", "unknown"]
    with pytest.raises(InputError, match=r"not in the items table \(c\)"):
        prepare(
            *write_log([row()], groups={"a": "sofa", "b": "lamp"}),
            tmp_path / "strict",
            PrepareConfig(strict=True),
        )


def test_without_items_or_groups_all_items_are_in_one_group(
    write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row(slate=[7, 11], click=7), row(time=2, slate=[5, 7], click=None)])
    (tmp_path / "both").mkdir()
    for file in (log, items):
        shutil.copy(file, tmp_path / "both")
    assert prepare(tmp_path / "both", None, tmp_path / "found").group_names == ["g"]
    bare = prepare(log, None, tmp_path / "bare", PrepareConfig(strict=True))
    assert bare.items.to_dict(as_series=False) == {"item_id": [5, 7, 11], "group": ["unknown"] * 3}
    assert (bare.num_groups, bare.meta["grouped"], bare.meta["input"]["items"]) == (1, False, None)
    pl.DataFrame({"item_id": [7, 8], "price": [1, 2]}).write_parquet(items)
    dataset = prepare(log, items, tmp_path / "ungrouped")
    assert dataset.items.rows() == [
        (7, "unknown", 1),
        (8, "unknown", 2),
        (5, "unknown", None),
        (11, "unknown", None),
    ]
    assert (dataset.num_groups, dataset.meta["grouped"]) == (1, False)
    assert found(dataset)["item is not in the items table"] == (2, 1)
    with pytest.raises(InputError, match="no column 'kind'"):  # one that was asked for
        prepare(log, items, tmp_path / "x", items_format=ItemsFormat(group="kind"))
    with pytest.raises(SlatewiseError, match="there is none"):
        prepare(log, None, tmp_path / "x", PrepareConfig(listed_items_only=True))


def test_items_never_shown_stay_and_extra_columns_are_carried(
    write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row()])
    pl.DataFrame(
        {"item_id": ["x", "a", "b", "c", "a", None], "group": list("ggghhh"), "price": range(6)}
    ).write_parquet(items)
    dataset = prepare(log, items, tmp_path / "out")
    assert dataset.items.rows() == [("x", "g", 0), ("a", "g", 1), ("b", "g", 2), ("c", "h", 3)]
    assert found(dataset)["item is listed twice"] == (1, 5)
    assert found(dataset)["item id is missing"] == (1, 6)


def test_missing_files_and_existing_output(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row()])
    with pytest.raises(InputError, match="no such file"):
        prepare(tmp_path / "nowhere.parquet", items, tmp_path / "out")
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious").write_text("keep")
    with pytest.raises(SlatewiseError, match="exists already"):
        prepare(log, items, out)
    assert (out / "precious").read_text() == "keep"
    with pytest.raises(SlatewiseError, match="not replaced: it holds precious"):
        prepare(log, items, out, overwrite=True)
    for target in (log, items, tmp_path, log / "below"):
        with pytest.raises(SlatewiseError, match="cannot hold the result"):
            prepare(log, items, target, overwrite=True)
    with pytest.raises(SlatewiseError, match="cannot hold the result"):
        prepare(tmp_path, tmp_path, tmp_path / "set")
    assert (out / "precious").read_text() == "keep"
    (out / "precious").unlink()
    first = prepare(log, items, out, overwrite=True).content_hash
    with pytest.raises(SlatewiseError):
        prepare(log, tmp_path / "nowhere.parquet", out, overwrite=True)
    assert SlateDataset.open(out).content_hash == first
    assert prepare(log, items, out, overwrite=True).num_interactions == 1


def test_no_user_left_says_where_they_went(write_log: Write, tmp_path: Path) -> None:
    rows = [row(time=t) for t in range(5)] + [row(click="z", time=7)]
    with pytest.raises(SlatewiseError, match="no interaction is left") as error:
        prepare(*write_log(rows), tmp_path / "out", PrepareConfig(min_interactions=6))
    assert "1 click is not in the slate" in str(error.value)
    assert "5 of users with too few interactions" in str(error.value)
    assert not (tmp_path / "out").exists()


def test_an_empty_log_is_refused(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row()])
    pl.read_parquet(log).clear().write_parquet(log)
    with pytest.raises(SlatewiseError, match="the log has no rows"):
        prepare(log, items, tmp_path / "out")


def test_strict_names_the_column_as_the_user_does(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(user_id=None), GOOD])
    pl.read_parquet(log).rename({"user_id": "visitor"}).write_parquet(log)
    with pytest.raises(InputError) as error:
        prepare(
            log,
            items,
            tmp_path / "out",
            PrepareConfig(strict=True),
            log_format=LogFormat(user_id="visitor"),
        )
    assert error.value.column == "visitor"


def test_a_date_cannot_split_an_order(write_log: Write, tmp_path: Path) -> None:
    division = SplitConfig(method="time", valid_from="2024-01-01", test_from="2024-02-01")
    with pytest.raises(SlatewiseError, match="without a unit"):
        prepare(*write_log([row()]), tmp_path / "out", division=division)


def test_a_killed_run_leaves_the_old_dataset_and_no_other(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log(many(users=30, steps=20))
    out = tmp_path / "out"
    before = prepare(log, items, out).content_hash
    script = (
        "import os, signal, sys\n"
        "from slatewise.data import writer\n"
        "from slatewise.data.preparation import prepare\n"
        "writer.DatasetWriter.finish = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        f"prepare({str(log)!r}, {str(items)!r}, {str(out)!r}, overwrite=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == -signal.SIGKILL
    assert SlateDataset.open(out).content_hash == before
    SlateDataset.open(out).verify()
    assert not json.loads((out / "dataset.json").read_text())["report"]["problems"]
    # Nobody was left to clear away the hidden directory: it is no part of anything.
    (left,) = (p.name for p in tmp_path.iterdir() if p not in (log, items, out))
    assert left.startswith(".out.")
    assert left.endswith(".partial")
    assert prepare(log, items, out, overwrite=True).content_hash == before


def test_a_log_whose_clicks_are_all_elsewhere_is_refused(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(click=None), row(time=2, click="z"), row(time=3, click="y")])
    with pytest.raises(InputError, match="none of the 2 clicks is in its slate") as error:
        prepare(log, items, tmp_path / "out")
    assert (error.value.file, error.value.row, error.value.column) == (str(log), 2, "click")


def test_carried_columns_keep_clear_of_ours(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row()])
    pl.DataFrame(
        {
            "item_id": ["a", "b", "c"],
            "group": ["old"] * 3,
            "category": ["x", "x", None],
            "file": [1, 2, 3],
            "row": [4, 5, 6],
        }
    ).write_parquet(items)
    mapped = ItemsFormat().mapped(["group=category"])
    dataset = prepare(log, items, tmp_path / "out", items_format=mapped)
    assert dataset.items.to_dicts() == [
        {"item_id": item, "group": group, "group_": "old", "file": file, "row": file + 3}
        for item, group, file in (("a", "x", 1), ("b", "x", 2), ("c", "unknown", 3))
    ]
    assert found(dataset) == {"item has no group": (1, 3)}


def test_an_items_table_without_rows_is_refused(write_log: Write, tmp_path: Path) -> None:
    log, _ = write_log([row()])
    empty = tmp_path / "empty.csv"
    empty.write_text("item_id,group\n")
    with pytest.raises(InputError, match=r"empty.csv: the items table has no rows"):
        prepare(log, empty, tmp_path / "out")


def test_the_first_place_of_a_problem_is_the_first_of_all_buckets(
    write_log: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slatewise.data.spill._ROWS_PER_BUCKET", 2)
    rows = [row(user_id=f"u{n}", time=2) for n in range(20)]
    rows += [row(user_id=f"u{n}", time=1) for n in reversed(range(20))]
    dataset = prepare(*write_log(rows), tmp_path / "out")
    assert found(dataset) == {"time lies before the user's previous row": (20, 21)}


def test_the_description_says_what_was_read_and_how(write_log: Write, tmp_path: Path) -> None:
    _, items = write_log([row(slate=[7, 11], click=7)])
    log = tmp_path / "visits.csv"
    log.write_text("user,shown,slate,click,source\nann,1,7;11,11,s\nann,2,7;11,,s\n")
    first = prepare(log, items, tmp_path / "a", log_format=LogFormat(time="shown"))
    was = first.meta["input"]
    assert was["log"]["files"] == [was["log"]["path"]] == [str(log)]
    assert was["items"]["files"] == [str(items)]
    assert was["log"]["format"]["delimiter"] == ";"
    again = prepare(
        was["log"]["path"],
        was["items"]["path"],
        tmp_path / "b",
        PrepareConfig.model_validate(first.meta["prepare"]),
        log_format=LogFormat.model_validate(was["log"]["format"]),
        items_format=ItemsFormat.model_validate(was["items"]["format"]),
        division=SplitConfig.model_validate(first.meta["split"]),
    )
    assert again.content_hash == first.content_hash
