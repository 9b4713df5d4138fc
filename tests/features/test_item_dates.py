"""Dates of items: which columns are dates, and the age that they give an item at a time."""

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import polars as pl
import pytest

from slatewise.errors import InputError
from slatewise.features.item_dates import (
    MISSING,
    ages,
    date_columns,
    known_ages,
    read_dates,
    require_date,
    usual_ages,
)

NOON = datetime(2024, 5, 17, 12)
NOON_US = int(NOON.replace(tzinfo=UTC).timestamp()) * 1_000_000
HOUR = 3_600_000_000


@pytest.mark.parametrize(
    "values",
    [
        pl.Series([NOON, None]),
        pl.Series([NOON, None]).cast(pl.Datetime("ns")),
        pl.Series([NOON.replace(tzinfo=timezone(timedelta(hours=2))) + timedelta(hours=2), None]),
        pl.Series(["2024-05-17 12:00:00", ""]),
        pl.Series(["2024-05-17T12:00:00Z", None]),
        pl.Series(["2024-05-17 12:00", "2024-05-18", "unknown"]),
        pl.Series([NOON_US // 1_000_000, None, NOON_US // 1_000_000 + 60]),
        pl.Series([str(NOON_US // 1_000), None, str(NOON_US // 1_000 + 60)]),
    ],
)
def test_dates_are_read_however_they_are_written(values: pl.Series) -> None:
    table = pl.DataFrame({"item_id": range(len(values)), "made": values})
    (found,) = date_columns(table).values()
    assert found.dtype == np.int64
    assert found[0] == NOON_US
    unknown = len(values) - 1 if values.dtype == pl.String and len(values) == 3 else 1
    if str(values[0]).isdigit():
        unknown = 1
    assert found[unknown] == MISSING


def test_a_day_begins_at_midnight() -> None:
    (found,) = date_columns(pl.DataFrame({"day": [date(2024, 5, 17)]})).values()
    assert found.tolist() == [NOON_US - 12 * HOUR]


@pytest.mark.parametrize(
    "values",
    [
        [3, 17, 9_000],  # prices
        [1_700_000_000] * 3,  # one number throughout
        [1, 1_700_000_000, 1_700_000_060],
        [1.7e9, 1.8e9, 1.9e9],
        ["ash", "2024-05-17", "birch"],
        ["17", "18", "x"],
        ["1e9", "17", "18"],
        [None, None, None],
        [True, False, True],
        [[NOON], [NOON], [NOON]],
        [timedelta(hours=1)] * 3,
    ],
)
def test_other_columns_are_no_dates(values: list[object]) -> None:
    assert date_columns(pl.DataFrame({"column": values})) == {}


def test_ids_and_groups_are_no_dates() -> None:
    days = ["2024-05-17", "2024-05-18"]
    assert date_columns(pl.DataFrame({"item_id": days, "group": days})) == {}


def test_an_age_is_of_the_moment_and_a_later_date_is_not_known_yet() -> None:
    dates = np.array([0, 5 * HOUR, MISSING])
    items = np.array([0, 1, 1, 1, 2, 7])
    times = np.array([3, 4, 5, 6, 9, 9]) * HOUR
    found = known_ages(dates, items, times)
    wanted = [np.log(4), np.nan, 0, np.log(2), np.nan, np.nan]
    np.testing.assert_allclose(found, wanted, rtol=1e-6)
    seen = np.array([1, 2, 3, 4, 5, np.nan], np.float32)
    means = np.array([9, 8], np.float32)
    both = ages(np.stack([dates, dates[::-1]]), items, times, seen, means)
    np.testing.assert_allclose(both[:, 0], [np.log(4), 2, 0, np.log(2), 5, 9], rtol=1e-6)
    np.testing.assert_allclose(both[[0, 5], 1], [1, 8])  # the date of item 0 is missing


def test_dates_that_lie_ahead_are_refused() -> None:
    dates = {"made": np.array([0, 0]), "ends": np.array([10 * HOUR, MISSING])}
    items, times = np.array([0, 1] * 10), np.full(20, 5 * HOUR)
    means, reasons = usual_ages(dates, items, times)
    assert means == {"made": pytest.approx(np.log(6))}
    assert reasons == {"ends": "a date before the slate for 0% of the items seen only."}
    means, reasons = usual_ages(dates, items, times + 6 * HOUR)
    assert means == {"made": pytest.approx(np.log(12)), "ends": pytest.approx(np.log(2))}
    assert reasons == {}


@pytest.mark.parametrize(
    "value",
    [
        NOON,
        NOON.replace(tzinfo=timezone(timedelta(hours=2))) + timedelta(hours=2),
        "2024-05-17T12:00:00Z",
        " 2024-05-17 12:00 ",
        NOON_US // 1_000_000,
        float(NOON_US // 1_000),
        str(NOON_US),
    ],
)
def test_a_date_of_one_item_is_read_as_a_column_of_them_is(value: object) -> None:
    found, wrong = read_dates([value, None])
    assert found.tolist() == [NOON_US, MISSING]
    assert not wrong
    require_date(value, "made")


WRONG = ["soon", 3, 1.5, float("nan"), float("inf"), True, ["2024-05-17"], 10**30, ""]


@pytest.mark.parametrize(
    "value", [*WRONG, "--5", "9" * 19, "9" * 5_000, "-", "１７００００００００"]
)
def test_what_is_no_date_is_unknown_or_refused(value: object) -> None:
    found, wrong = read_dates([value, date(2024, 5, 17)])
    assert found.tolist() == [MISSING, NOON_US - 12 * HOUR]
    assert wrong == 1
    with pytest.raises(InputError, match=r"column 'made': .* is no date"):
        require_date(value, "made")
