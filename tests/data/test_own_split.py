"""Splits that people bring: a column of the log, or a file of users and times."""

from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.data import SlateDataset
from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.errors import InputError, SlatewiseError
from tests.data.log_rows import Write, row


def held_out(dataset: SlateDataset) -> dict[str, tuple[int, int]]:
    """Return where the interactions of each user are cut."""
    ends = zip(dataset.train_end.tolist(), dataset.valid_end.tolist(), strict=True)
    return dict(zip(dataset.user_ids.to_list(), ends, strict=True))


def test_a_column_of_the_log_splits_it(write_log: Write, tmp_path: Path) -> None:
    rows = [
        row(time=time, fold=fold) for time, fold in enumerate(["train", "Train", "val", "test"])
    ]
    rows += [row(user_id="bob", time=time, fold="test") for time in range(2)]
    column = SplitConfig(method="column")
    by_fold = LogFormat(split="fold")
    dataset = prepare(*write_log(rows), tmp_path / "set", log_format=by_fold, division=column)
    assert held_out(dataset) == {"ann": (2, 3), "bob": (0, 0)}
    assert dataset.meta["split"]["method"] == "column"
    with pytest.raises(SlatewiseError, match="a split by column is made when a log is prepared"):
        dataset.split(column)


@pytest.mark.parametrize(
    ("folds", "problem", "at"),
    [
        (["train", "test", "valid"], "an interaction for validation after one for test", 3),
        (["train", "rest", "test"], "'rest' is not a part of the split", 2),
        (["train", None, "test"], "'' is not a part of the split", 2),
    ],
)
def test_a_column_that_splits_nothing_in_order_is_refused(
    folds: list[str | None], problem: str, at: int, write_log: Write, tmp_path: Path
) -> None:
    rows = [row(time=time, split=fold) for time, fold in enumerate(folds)]
    with pytest.raises(InputError, match=problem) as error:
        prepare(*write_log(rows), tmp_path / "set", division=SplitConfig(method="column"))
    assert (error.value.row, error.value.column) == (at, "split")
    with pytest.raises(InputError, match="no column 'fold'"):
        prepare(
            *write_log(rows),
            tmp_path / "set",
            log_format=LogFormat(split="fold"),
            division=SplitConfig(method="column"),
        )


def test_a_file_of_users_and_times_splits_a_log(write_log: Write, tmp_path: Path) -> None:
    rows = [row(user_id=user, time=time) for user in ("ann", "bob", "eve") for time in range(6)]
    cuts = tmp_path / "cuts.csv"
    cuts.write_text("user_id,valid_from,test_from\nann,2,4\nbob,,3\nsomeone,1,2\n")
    division = SplitConfig(method="file", file=str(cuts))
    dataset = prepare(*write_log(rows), tmp_path / "set", division=division)
    assert held_out(dataset) == {"ann": (2, 4), "bob": (3, 3), "eve": (6, 6)}


@pytest.mark.parametrize(
    ("text", "problem", "at"),
    [
        ("user_id,valid_from,test_from\nann,4,2\n", "user 'ann' is validated after the test", 1),
        ("user_id,test_from\nann,4\nann,5\n", "user 'ann' is listed twice", 2),
        ("user_id,test_from\nann,soon\n", "'soon' is not a time", 1),
        ("user_id,test_from\neve,1\n", "none of its users has an interaction", None),
        ("user_id,from\neve,1\n", "the table has no column 'test_from'", None),
    ],
)
def test_a_file_that_splits_nothing_is_refused(
    text: str, problem: str, at: int | None, write_log: Write, tmp_path: Path
) -> None:
    cuts = tmp_path / "cuts.csv"
    cuts.write_text(text)
    division = SplitConfig(method="file", file=str(cuts))
    with pytest.raises(InputError, match=problem) as error:
        prepare(*write_log([row(time=1), row(time=9)]), tmp_path / "set", division=division)
    assert (error.value.file, error.value.row) == (cuts, at)
    assert not (tmp_path / "set").exists()


def test_slates_of_impressions_are_split_by_a_column_too(tmp_path: Path) -> None:
    shown = [("ann", time, item, item == "a") for time in range(3) for item in "abc"]
    rows = [
        {"user_id": user, "time": time, "item_id": item, "clicked": clicked, "source": "s"}
        | {"split": ("train", "valid", "test")[time]}
        for user, time, item, clicked in shown
    ]
    pl.DataFrame(rows).write_csv(tmp_path / "log.csv")
    pl.DataFrame({"item_id": list("abc"), "group": "g"}).write_csv(tmp_path / "items.csv")
    dataset = prepare(
        tmp_path / "log.csv",
        tmp_path / "items.csv",
        tmp_path / "set",
        division=SplitConfig(method="column"),
    )
    assert held_out(dataset) == {"ann": (1, 2)}


def test_the_command_takes_a_file_or_a_column(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(time=time, split="train") for time in range(3)])
    cuts = tmp_path / "cuts.csv"
    cuts.write_text("user_id,valid_from,test_from\nann,1,2\n")
    run = CliRunner().invoke
    assert run(app, ["prepare", *map(str, (log, items, tmp_path / "a")), "--split", str(cuts)])
    assert held_out(SlateDataset.open(tmp_path / "a")) == {"ann": (1, 2)}
    said = run(app, ["prepare", *map(str, (log, items, tmp_path / "b")), "--split", "column"])
    assert "Nothing is held out for test: the split says so." in said.output
    lost = run(app, ["prepare", *map(str, (log, items, tmp_path / "c")), "--split", "folds.csv"])
    assert "no such way to split" in str(lost.exception)
