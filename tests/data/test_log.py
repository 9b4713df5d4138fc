"""Columns and values as people have them: ids, times, slates, clicks, positions."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from slatewise.data.formats import ItemsFormat, LogFormat, load_formats
from slatewise.data.log import Log
from slatewise.data.preparation import prepare
from slatewise.errors import InputError, SlatewiseError
from tests.data.log_rows import GOOD, Write, found, row
from tests.data.recovery import rows_of


def test_several_missing_columns_are_named_at_once(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row()])
    pl.read_parquet(log).rename({"user_id": "who", "click": "bought"}).write_parquet(log)
    with pytest.raises(InputError, match=r"no columns 'user_id', 'click'; it has who,") as error:
        prepare(log, items, tmp_path / "out")
    assert "--map user_id=COLUMN --map click=COLUMN" in error.value.remedy


@pytest.mark.parametrize("missing", ["user_id", "time", "slate", "click", "source"])
def test_a_missing_column_is_named_with_the_way_to_map_it(
    missing: str, write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row()])
    pl.read_parquet(log).rename({missing: "other"}).write_parquet(log)
    with pytest.raises(InputError, match=f"no column '{missing}'.*other") as error:
        prepare(log, items, tmp_path / "out")
    assert f"--map {missing}=COLUMN" in error.value.remedy
    assert ("add a column that counts them" in error.value.remedy) == (missing == "time")
    mapped = prepare(
        log, items, tmp_path / "out", log_format=LogFormat().mapped([f"{missing}=other"])
    )
    assert mapped.num_interactions == 1


@pytest.mark.parametrize(
    ("changes", "column", "message"),
    [
        ({"slate": 3}, "slate", "not a list of item ids"),
        ({"slate": [1.5], "click": None}, "slate", r"\[1.5\] is not a list of item ids"),
        ({"time": "yesterday"}, "time", "'yesterday' is not a time"),
        ({"time": [1]}, "time", "not a time"),
        ({"user_id": [1]}, "user_id", "not an integer id"),
        ({"user_id": 1.5}, "user_id", "1.5 is not an integer id"),
        ({"source": ["a", "b"]}, "source", "not a name"),
    ],
)
def test_a_mistyped_column_is_an_error(
    changes: dict[str, Any], column: str, message: str, write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row()])
    pl.DataFrame([row(**changes)]).write_parquet(log)
    with pytest.raises(InputError, match=message) as error:
        prepare(log, items, tmp_path / "out")
    assert error.value.column == column
    assert not (tmp_path / "out").exists()


def test_a_value_that_does_not_parse_is_named_by_row(write_log: Write, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "user_id,time,slate,click,source\n"
        "ann,2024-05-01T10:00:00Z,a|b,a,search\n"
        "ann,soon,a|b,a,search\n"
    )
    _, items = write_log([row()])
    with pytest.raises(InputError, match="'soon' is not a time") as error:
        prepare(log, items, tmp_path / "out")
    assert (error.value.file, error.value.row, error.value.column) == (log, 2, "time")


def test_numbers_and_text_meet_as_text(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(slate=[7, 8], click=8.0)], groups={"7": "g", "8": "h"})
    dataset = prepare(log, items, tmp_path / "out")
    assert rows_of(dataset) == {"ann": [(1, ("7", "8"), "8", "search")]}
    assert found(dataset) == {}


def test_a_value_can_mean_no_click(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(slate=[7, 8], click=-1), row(slate=[7, 8], click=7, time=2)])
    dataset = prepare(log, items, tmp_path / "out", log_format=LogFormat(no_click="-1"))
    assert [entry[2] for entry in rows_of(dataset)["ann"]] == [None, 7]


def test_no_click_values_in_lists_text_and_positions(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(slate=[7, 8], click=[-1]), row(slate=[7, 8], click=[8], time=2)])
    layout = LogFormat(no_click="-1")
    assert [
        e[2] for e in rows_of(prepare(log, items, tmp_path / "a", log_format=layout))["ann"]
    ] == [
        None,
        8,
    ]
    text = tmp_path / "log.csv"
    text.write_text(
        "user_id,time,slate,click,source\n"
        'ann,1,7|8,none,s\nann,2,7|8,"[""7"", ""8""]",s\nann,3,7|8,8|7,s\nann,4,7|8,,s\n'
    )
    dataset = prepare(text, items, tmp_path / "b", log_format=LogFormat(no_click="none"))
    assert [e[2] for e in rows_of(dataset)["ann"]] == [None, "7", "8", "8", "7", None]
    positions = tmp_path / "positions.parquet"
    rows = [row(slate=[7, 8], position=p, time=t) for t, p in enumerate([0, 2])]
    pl.DataFrame(rows).drop("click").write_parquet(positions)
    dataset = prepare(positions, items, tmp_path / "c", log_format=LogFormat(no_click="0"))
    assert [e[2] for e in rows_of(dataset)["ann"]] == [None, 8]


def test_positions_do_not_become_clicks_where_a_whole_batch_has_none(
    write_log: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slatewise.data.log.BATCH_ROWS", 2)
    rows = [row(time=t, click=None if t < 4 else "b", position=0 if t < 4 else 2) for t in range(6)]
    dataset = prepare(*write_log(rows), tmp_path / "out")
    assert [e[2] for e in rows_of(dataset)["ann"]] == [None] * 4 + ["b"] * 2
    assert found(dataset) == {}


def test_a_mapped_column_must_be_there(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row()])
    with pytest.raises(InputError, match="no column 'place'"):
        prepare(log, items, tmp_path / "out", log_format=LogFormat(position="place"))


def test_a_time_too_large_for_its_unit_is_named(write_log: Write, tmp_path: Path) -> None:
    for time in (17_145_576_000_000, "17145576000000"):
        log, items = write_log([row(time=time)])
        with pytest.raises(InputError, match=r"17145576000000.* is not a time") as error:
            prepare(log, items, tmp_path / "out", log_format=LogFormat(time_unit="s"))
        assert error.value.row == 1


def test_other_separators_are_seen_in_the_header(write_log: Write, tmp_path: Path) -> None:
    _, items = write_log([row()])
    log = tmp_path / "log.csv"
    log.write_text("user_id;time;slate;click;source\nann;1;a|b;b;search\n")
    dataset = prepare(log, items, tmp_path / "out")
    assert rows_of(dataset) == {"ann": [(1, ("a", "b"), "b", "search")]}


def test_one_source_for_a_log_without_the_column(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row()])
    pl.read_parquet(log).drop("source").write_parquet(log)
    dataset = prepare(log, items, tmp_path / "out", log_format=LogFormat(default_source="web"))
    assert dataset.source_names == ["web"]


def test_times_of_every_kind_are_microseconds(write_log: Write, tmp_path: Path) -> None:
    moment = datetime(2024, 5, 17, 12, 30)
    micro = 1_715_949_000_000_000
    cases: list[tuple[Any, str | None]] = [
        (moment, None),
        ("2024-05-17T12:30:00Z", None),
        ("2024-05-17 14:30:00+02:00", None),
        (micro // 10**6, "s"),
        (micro // 10**3, "ms"),
        (micro, "us"),
        (micro * 1000, "ns"),
        (str(micro // 10**3), "ms"),
        (micro / 10**6, None),
    ]
    for number, (time, unit) in enumerate(cases):
        log, items = write_log([row(time=time)])
        layout = LogFormat.build({"time_unit": unit}, "test")
        dataset = prepare(log, items, tmp_path / f"out{number}", log_format=layout)
        assert dataset.times.tolist() == [micro], time
        assert dataset.meta["clock_times"]
    log, items = write_log([row(time=17)])
    dataset = prepare(log, items, tmp_path / "order")
    assert (dataset.times.tolist(), dataset.meta["clock_times"]) == ([17], False)


@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(("unit", "per_second"), [("s", 1), ("ms", 10**3), ("us", 10**6)])
def test_integers_that_are_times_of_our_days_in_one_unit_are_read_so(
    unit: str, per_second: int, as_text: bool, write_log: Write, tmp_path: Path
) -> None:
    moments = [631_152_000, 874_724_710, 1_715_949_000, 2_208_988_799]
    kind = str if as_text else int
    rows = [row(time=kind(moment * per_second)) for moment in moments]
    dataset = prepare(*write_log([row(time=None), *rows]), tmp_path / "set")
    assert dataset.times.tolist() == [moment * 10**6 for moment in moments]
    assert (dataset.meta["clock_times"], dataset.meta["guessed_time_unit"]) == (True, unit)
    # The description says how it was read, so that the same is read again.
    assert dataset.meta["input"]["log"]["format"]["time_unit"] == unit


@pytest.mark.parametrize("odd", [631_151_999, 2_208_988_800, 1_715_949_000_000, 5])
def test_one_integer_outside_our_days_makes_all_an_order(
    odd: int, write_log: Write, tmp_path: Path
) -> None:
    times = [*range(1_715_950_000, 1_715_950_100), odd]
    log, items = write_log([row(time=time) for time in times])
    dataset = prepare(log, items, tmp_path / "set")
    assert dataset.times.tolist() == sorted(times)
    assert (dataset.meta["clock_times"], dataset.meta["guessed_time_unit"]) == (False, "order")


def test_a_unit_or_an_order_that_is_named_is_not_guessed(write_log: Write, tmp_path: Path) -> None:
    files = write_log([row(time=1_715_949_000)])
    for unit in ("order", "us"):
        layout = LogFormat.build({"time_unit": unit}, "test")
        dataset = prepare(*files, tmp_path / unit, log_format=layout)
        assert dataset.times.tolist() == [1_715_949_000]
        assert dataset.meta["clock_times"] == (unit == "us")
        assert dataset.meta["guessed_time_unit"] is None


def test_all_files_of_a_log_are_asked_for_the_unit(tmp_path: Path, write_log: Write) -> None:
    _, items = write_log([row()])
    folder = tmp_path / "log"
    folder.mkdir()
    for number, time in enumerate((1_715_949_000, 7)):
        frame = pl.DataFrame([row(time=time, user_id=f"u{number}")])
        frame.write_parquet(folder / f"{number}.parquet")
    assert not prepare(folder, items, tmp_path / "set").meta["clock_times"]


def test_positions_count_from_one(write_log: Write, tmp_path: Path) -> None:
    rows = [row(position=2), row(time=2, position=1), row(time=3, click=None, position=None)]
    dataset = prepare(*write_log(rows), tmp_path / "out")
    assert found(dataset) == {"click position differs from the item's place": (1, 2)}
    assert [entry[2] for entry in rows_of(dataset)["ann"]] == ["b", "b", None]


def test_a_click_can_be_given_by_position_alone(write_log: Write, tmp_path: Path) -> None:
    rows = [
        row(position=3),
        row(time=2, position=0),
        row(time=3, position=None),
        row(time=4, position=4),
    ]
    log, items = write_log(rows)
    pl.read_parquet(log).drop("click").write_parquet(log)
    dataset = prepare(log, items, tmp_path / "out")
    assert [entry[2] for entry in rows_of(dataset)["ann"]] == ["c", None]
    assert found(dataset) == {"click position is outside the slate": (2, 2)}


def test_mapping_from_toml(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row()])
    pl.read_parquet(log).rename({"user_id": "visitor"}).write_parquet(log)
    pl.read_parquet(items).rename({"group": "category"}).write_parquet(items)
    mapping = tmp_path / "mapping.toml"
    mapping.write_text('[log]\nuser_id = "visitor"\n[items]\ngroup = "category"\n')
    log_format, items_format = load_formats(mapping)
    dataset = prepare(
        log, items, tmp_path / "out", log_format=log_format, items_format=items_format
    )
    assert dataset.num_interactions == 1
    for text, message in {
        "[log]\nvisitor = 'x'": "'visitor'",
        "[shop]\na = 1": "unknown section 'shop'",
        "[log": "not TOML",
    }.items():
        mapping.write_text(text)
        with pytest.raises(SlatewiseError, match=message):
            load_formats(mapping)
    with pytest.raises(SlatewiseError, match="FIELD=COLUMN"):
        ItemsFormat().mapped(["category"])


@pytest.mark.parametrize("delimiter", ["|", ";", ",", " ", "::"])
def test_slates_in_text_may_be_delimited(delimiter: str, write_log: Write, tmp_path: Path) -> None:
    _, items = write_log([GOOD])
    log = tmp_path / "log.csv"
    slate = delimiter.join(["a", "b", "c"])
    header = "user_id,time,slate,click,source"
    log.write_text(f'{header}\nann,2,"{slate}",b,search\nann,3,"[""c"", ""a""]",,search\n')
    layout = LogFormat(delimiter=delimiter if delimiter in (" ", "::") else None)
    dataset = prepare(log, items, tmp_path / "out", log_format=layout)
    assert rows_of(dataset)["ann"] == [
        (2, ("a", "b", "c"), "b", "search"),
        (3, ("c", "a"), None, "search"),
    ]


@pytest.mark.parametrize(
    ("slate", "wanted"),
    [
        ("x|y;z", ("x", "y;z")),
        ("x;y,z", ("x", "y,z")),
        ("x,y\tz", ("x", "y\tz")),
        ("New York|Bo", ("New York", "Bo")),
        ("New York", ("New York",)),
    ],
)
def test_the_first_usual_delimiter_counts_and_a_space_is_none(
    slate: str, wanted: tuple[str, ...], write_log: Write, tmp_path: Path
) -> None:
    _, items = write_log([GOOD])
    log = tmp_path / "log.csv"
    log.write_text(f'user_id,time,slate,click,source\nann,2,"{slate}",,search\n')
    assert rows_of(prepare(log, items, tmp_path / "out"))["ann"] == [(2, wanted, None, "search")]


def test_whole_numbers_as_pandas_writes_them(write_log: Write, tmp_path: Path) -> None:
    _, items = write_log([row(slate=[7, 11], click=7)])
    log = tmp_path / "log.csv"
    log.write_text(
        "user_id,time,slate,click,position,source\n"
        "ann,1,7|11,11.0,2.0,s\nann,2,7|11,,,s\nann,3,7|11.0,11.0,2.0,s\nann,4,7|11,-1.0,,s\n"
    )
    dataset = prepare(log, items, tmp_path / "out", log_format=LogFormat(no_click="-1"))
    assert [e[2] for e in rows_of(dataset)["ann"]] == ["11", None, "11.0", None]
    assert set(found(dataset)) == {"item is not in the items table"}  # 11.0


def test_two_fields_may_be_one_column(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(time=9)])
    layout = LogFormat(source="user_id")
    dataset = prepare(
        log, items, tmp_path / "out", log_format=layout, items_format=ItemsFormat(group="item_id")
    )
    assert rows_of(dataset) == {"ann": [(9, ("a", "b", "c"), "b", "ann")]}
    assert dataset.group_names == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("time", "unit", "message"),
    [
        (timedelta(hours=3), None, "Duration.* not a time"),
        (1_715_949_000_000, "s", "1715949000000 is not a time"),
        (1_715_949_000_000.0, None, "1715949000000.0 is not a time"),
        ("1715949000000", "s", "'1715949000000' is not a time"),
    ],
)
def test_what_is_no_moment_of_the_calendar_is_refused(
    time: Any, unit: str | None, message: str, write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row(time=time)])
    layout = LogFormat.build({"time_unit": unit}, "test")
    with pytest.raises(InputError, match=message) as error:
        prepare(log, items, tmp_path / "out", log_format=layout)
    assert error.value.column == "time"
    assert "--time-unit" in error.value.remedy


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("dtype", [pl.Int64, pl.UInt64, pl.Int32])
def test_times_up_to_the_year_9999_fit_every_integer_column(
    unit: str, dtype: type[pl.DataType], write_log: Write, tmp_path: Path
) -> None:
    per_second = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[unit]
    greatest = {pl.Int64: 2**63 - 1, pl.UInt64: 2**64 - 1, pl.Int32: 2**31 - 1}[dtype]
    latest = min(253_402_300_799 * per_second, greatest)
    layout = LogFormat.build({"time_unit": unit}, "test")
    log, items = write_log([row(time=latest)], schema={"time": dtype})
    dataset = prepare(log, items, tmp_path / "out", log_format=layout)
    assert dataset.times.tolist() == [round(latest * 10**6 / per_second)]


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
@pytest.mark.parametrize(
    ("time", "dtype"),
    [(2**63 - 1, pl.Int64), (-(2**63), pl.Int64), (2**64 - 1, pl.UInt64), (2**63, pl.UInt64)],
)
def test_a_time_at_the_limits_of_its_type_is_refused_with_its_row(
    time: int, dtype: type[pl.DataType], unit: str, write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row(), row(time=time)], schema={"time": dtype})
    layout = LogFormat.build({"time_unit": unit}, "test")
    with pytest.raises(InputError, match=f"{time} is not a time") as error:
        prepare(log, items, tmp_path / "out", log_format=layout)
    assert (error.value.file, error.value.row, error.value.column) == (log, 2, "time")
    assert "--time-unit" in error.value.remedy


@pytest.mark.parametrize("dtype", [pl.Datetime("ms"), pl.Datetime("us"), pl.Date])
def test_a_date_beyond_the_calendar_is_refused_with_its_row(
    dtype: pl.DataType, write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row(), row(time=2**31 - 1 if dtype == pl.Date else 2**63 - 1)])
    table = pl.read_parquet(log)
    number = table["time"].cast(pl.Int32) if dtype == pl.Date else table["time"]
    table.with_columns(number.cast(dtype)).write_parquet(log)
    with pytest.raises(InputError, match=r"\d+ is not a time") as error:
        prepare(log, items, tmp_path / "out")
    assert (error.value.row, error.value.column) == (2, "time")


def test_ids_beyond_64_bits_are_refused_with_a_way_out(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(user_id=2**63)], schema={"user_id": pl.UInt64})
    with pytest.raises(InputError, match="9223372036854775808 is not an integer id") as error:
        prepare(log, items, tmp_path / "out")
    assert "as text" in error.value.remedy


@pytest.mark.parametrize("length", [5, 50])
def test_batches_and_buckets_shrink_with_the_length_of_slates(
    length: int, write_log: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slatewise.data.log.BATCH_ITEMS", 500)
    monkeypatch.setattr("slatewise.data.spill._ITEMS_PER_BUCKET", 1000)
    rows = [
        row(user_id=n, slate=list(range(n, n + length)), click=n) for n in range(4000 // length)
    ]
    log, items = write_log(rows)
    source = Log(log, LogFormat())
    assert source.items == 4000
    sizes = [batch.height for batch in source.batches(pl.Int64)]
    assert max(sizes) * length <= 500 + length
    stages: list[tuple[str, int, int]] = []
    prepare(log, items, tmp_path / "out", progress=lambda *stage: stages.append(stage))
    assert {total for stage, _, total in stages if stage == "writing"} == {5}


@pytest.mark.parametrize("kind", ["lists", "text"])
def test_batches_shrink_where_slates_are_long(
    kind: str, write_log: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slatewise.data.log.BATCH_ITEMS", 500)
    lengths = [1] * 2000 + [100] * 20
    log, _ = write_log([row(slate=[1000 + i for i in range(n)], click=None) for n in lengths])
    if kind == "text":
        text = pl.col("slate").cast(pl.List(pl.String)).list.join("|")
        pl.read_parquet(log).with_columns(text).write_parquet(log)
    source = Log(log, LogFormat())
    batches = list(source.batches(source.item_type))
    assert max(int(batch["slate"].list.len().sum()) for batch in batches) <= 1000
    assert pl.concat(batches)["row"].to_list() == list(range(1, 2021))
    assert pl.concat(batches)["slate"].list.len().to_list() == lengths
