"""Dates that are not written as in ISO 8601: day first, month first, without marks."""

import re
from pathlib import Path
from typing import Any

import pytest

from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.errors import InputError, SlatewiseError
from tests.data.log_rows import Write, row

MOMENT = 1_715_949_000_000_000
"""2024-05-17 12:30 UTC"""
DAY = MOMENT - (12 * 60 + 30) * 60_000_000


@pytest.mark.parametrize(
    ("time", "time_format", "microseconds"),
    [
        ("17.05.2024", "%d.%m.%Y", DAY),
        (" 17.5.2024 12:30 ", "%d.%m.%Y %H:%M", MOMENT),
        ("05/17/2024 12:30:00 PM", "%m/%d/%Y %I:%M:%S %p", MOMENT),
        ("17 May 24", "%d %b %y", DAY),
        ("17.05.2024 14:30 +0200", "%d.%m.%Y %H:%M %z", MOMENT),
        (20240517, "%Y%m%d", DAY),
    ],
)
def test_times_are_read_in_the_format_given(
    time: Any, time_format: str, microseconds: int, write_log: Write, tmp_path: Path
) -> None:
    layout = LogFormat().mapped([f"time_format={time_format}"])
    dataset = prepare(*write_log([row(time=time)]), tmp_path / "set", log_format=layout)
    assert dataset.times.tolist() == [microseconds]
    assert dataset.meta["clock_times"]
    assert dataset.meta["guessed_time_unit"] is None
    assert dataset.meta["input"]["log"]["format"]["time_format"] == time_format


@pytest.mark.parametrize(
    ("time", "microseconds"),
    [
        ("2024-05-17 12:30", MOMENT),
        ("2024-05-17T14:30+02:00", MOMENT),
        ("2024-05-17 14:30:00 +0200", MOMENT),
        ("2024-05-17T12:30Z", MOMENT),
        ("2024-05-17 12:30:00 UTC", MOMENT),
        ("2024-05-17 12:30:00,000", MOMENT),
        ("2024/5/17 12:30", MOMENT),
        ("2024.05.17", DAY),
        ("20240517T123000Z", MOMENT),
        ("17 May 2024 12:30", MOMENT),
        ("17-MAY-2024", DAY),
        ("May 17, 2024, 12:30 PM", MOMENT),
        ("Fri, 17 May 2024 12:30:00 GMT", MOMENT),
        ("17/May/2024:14:30:00 +0200", MOMENT),
        ("Fri May 17 12:30:00 2024", MOMENT),
    ],
)
def test_a_time_that_is_clear_by_itself_needs_no_format(
    time: str, microseconds: int, write_log: Write, tmp_path: Path
) -> None:
    files = write_log([row(time="2024-05-16 00:00:00"), row(time=time)])
    dataset = prepare(*files, tmp_path / "set")
    assert dataset.times.tolist() == [DAY - 86_400_000_000, microseconds]
    assert dataset.meta["clock_times"]
    assert dataset.meta["guessed_time_format"] is None


@pytest.mark.parametrize(
    ("times", "found"),
    [
        (["01.02.2024", "17.02.2024"], "%d.%m.%Y"),
        (["01.02.2024 9:05", "02.02.2024 10:00"], "%d.%m.%Y %H:%M"),
        (["02.01.2024", "02.17.2024"], "%m.%d.%Y"),
        (["02/01/2024 9:05", "02/17/2024 10:00"], "%m/%d/%Y %H:%M"),
        (["1-2-2024, 9:05:01 pm", "17-2-2024, 9:05:02 am"], "%d-%m-%Y, %I:%M:%S %p"),
        (["20240201", "20240217"], "%Y%m%d"),
        ([20240201, 20240217], "%Y%m%d"),
    ],
)
def test_all_dates_of_a_log_say_how_they_are_written(
    times: list[Any], found: str, write_log: Write, tmp_path: Path
) -> None:
    files = write_log([row(time=time) for time in times])
    dataset = prepare(*files, tmp_path / "set")
    assert dataset.meta["guessed_time_format"] == found
    assert dataset.meta["guessed_time_unit"] is None
    assert dataset.meta["clock_times"]
    assert dataset.meta["input"]["log"]["format"]["time_format"] == found
    layout = LogFormat().mapped([f"time_format={found}"])
    given = prepare(*files, tmp_path / "given", log_format=layout)
    assert dataset.times.tolist() == given.times.tolist()
    assert given.meta["guessed_time_format"] is None


def test_a_date_in_another_file_decides(write_log: Write, tmp_path: Path) -> None:
    _, items = write_log([row()])
    log = tmp_path / "files"
    log.mkdir()
    head = "user_id,time,slate,click,source\n"
    for name, time in (("a", "01/02/2024"), ("b", "02/17/2024")):
        (log / f"{name}.csv").write_text(f"{head}ann,{time},a|b,b,search\n")
    dataset = prepare(log, items, tmp_path / "set")
    assert dataset.meta["guessed_time_format"] == "%m/%d/%Y"


def test_numbers_that_are_only_nearly_dates_are_an_order(write_log: Write, tmp_path: Path) -> None:
    files = write_log([row(time=time) for time in range(20240228, 20240235)])
    dataset = prepare(*files, tmp_path / "set")
    assert dataset.meta["guessed_time_format"] is None
    assert dataset.meta["guessed_time_unit"] == "order"


@pytest.mark.parametrize(
    ("times", "formats"),
    [
        (["02/01/2024 9:05", "02/07/2024 10:00"], ["%d/%m/%Y %H:%M", "%m/%d/%Y %H:%M"]),
        (
            ["1-2-2024 9:05:01 pm", "3-4-2024 9:05:02 am"],
            ["%d-%m-%Y %I:%M:%S %p", "%m-%d-%Y %I:%M:%S %p"],
        ),
    ],
)
def test_the_remedy_for_other_dates_reads_them(
    times: list[str], formats: list[str], write_log: Write, tmp_path: Path
) -> None:
    files = write_log([row(time=time) for time in times])
    with pytest.raises(InputError, match=f"'{times[0]}' is not a time") as error:
        prepare(*files, tmp_path / "refused")
    options = re.findall(r"--map '(time_format=[^']*)'", error.value.remedy)
    assert options == [f"time_format={one}" for one in formats]
    for number, option in enumerate(options):
        layout = LogFormat().mapped([option])
        assert len(prepare(*files, tmp_path / f"{number}", log_format=layout).times) == len(times)


@pytest.mark.parametrize("times", [["17.05.2024", "05.17.2024"], ["soon"], [True]])
def test_no_format_is_suggested_where_none_fits(
    times: list[Any], write_log: Write, tmp_path: Path
) -> None:
    with pytest.raises(InputError) as error:
        prepare(*write_log([row(time=time) for time in times]), tmp_path / "set")
    assert "2024-05-17 12:30:00" in error.value.remedy


def test_a_time_in_another_format_is_named(write_log: Write, tmp_path: Path) -> None:
    files = write_log([row(time="17.05.2024"), row(time="2024-05-18")])
    layout = LogFormat(time_format="%d.%m.%Y")
    with pytest.raises(InputError, match="'2024-05-18' is not a time") as error:
        prepare(*files, tmp_path / "set", log_format=layout)
    assert (error.value.row, "'%d.%m.%Y'" in error.value.remedy) == (2, True)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"time_format": "%H:%M"}, "no year"),
        ({"time_format": "%d.%m.%Y", "time_unit": "s"}, "give one of them"),
    ],
)
def test_impossible_formats_are_refused(settings: dict[str, str], problem: str) -> None:
    with pytest.raises(SlatewiseError, match=problem):
        LogFormat.build(settings, "test")


def test_a_file_of_cuts_is_written_as_the_log(write_log: Write, tmp_path: Path) -> None:
    files = write_log([row(time=f"{day}.05.2024") for day in range(10, 20)])
    cuts = tmp_path / "cuts.csv"
    cuts.write_text("user_id,valid_from,test_from\nann,15.05.2024,18.05.2024\n")
    division = SplitConfig(method="file", file=str(cuts))
    layout = LogFormat(time_format="%d.%m.%Y")
    dataset = prepare(*files, tmp_path / "set", log_format=layout, division=division)
    assert (dataset.train_end.tolist(), dataset.valid_end.tolist()) == ([5], [8])
