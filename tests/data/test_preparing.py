"""Bad input and reductions: each has the outcome the documentation promises."""

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.formats import ItemsFormat, LogFormat, load_formats
from slatewise.data.log import Log
from slatewise.data.preparing import prepare
from slatewise.data.reductions import PRESETS, PrepareConfig
from slatewise.data.split import SplitConfig
from slatewise.errors import InputError, SlatewiseError
from tests.data.recovering import rows_of

Write = Callable[..., tuple[Path, Path]]


def row(**changes: Any) -> dict[str, Any]:
    usual = {
        "user_id": "ann",
        "time": 1,
        "slate": ["a", "b", "c"],
        "click": "b",
        "source": "search",
    }
    return usual | changes


def found(dataset: SlateDataset) -> dict[str, tuple[int, int]]:
    return {p["what"]: (p["count"], p["row"]) for p in dataset.meta["report"]["problems"]}


GOOD = row(time=9)

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
        [GOOD, row(time=9, click="a")],
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


@pytest.mark.parametrize("missing", ["user_id", "time", "slate", "click", "source"])
def test_a_missing_column_is_named_with_the_way_to_map_it(
    missing: str, write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row()])
    pl.read_parquet(log).rename({missing: "other"}).write_parquet(log)
    with pytest.raises(InputError, match=f"no column '{missing}'.*other") as error:
        prepare(log, items, tmp_path / "out")
    assert f"--map {missing}=COLUMN" in error.value.remedy
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


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("log.parquet", lambda data: data[: len(data) // 2], "truncated"),
        ("log.parquet", lambda data: b"user_id,time\n1,2\n", "not Parquet"),
        ("log.parquet", lambda data: b"", "empty"),
        (
            "log.parquet",
            lambda data: data[:8] + b"\0" * (len(data) - 16) + data[-8:],
            "cannot be read",
        ),
        ("log.jsonl", lambda data: b'{"user_id": 1}\n{"user_id"', "cannot be read"),
        ("log.csv", lambda data: b'user_id,time,slate,click,source\n"x', "cannot be read"),
        ("log.xls", lambda data: data, "unknown kind"),
    ],
)
def test_damaged_files_are_refused(
    name: str,
    damage: Callable[[bytes], bytes],
    message: str,
    write_log: Write,
    tmp_path: Path,
) -> None:
    log, items = write_log([row()])
    bad = tmp_path / "bad" / name
    bad.parent.mkdir()
    bad.write_bytes(damage(log.read_bytes()))
    with pytest.raises(InputError, match=message) as error:
        prepare(bad, items, tmp_path / "out")
    assert error.value.file == bad
    assert error.value.remedy
    assert not list(tmp_path.glob("*out*")) + list(tmp_path.glob(".*out*"))


def test_damage_in_the_middle_of_a_log_leaves_nothing_behind(
    write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row(time=t) for t in range(20_000)])
    data = bytearray(log.read_bytes())
    data[4 : len(data) // 2] = bytes(len(data) // 2 - 4)
    log.write_bytes(data)
    with pytest.raises(InputError, match="cannot be read"):
        prepare(log, items, tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["items.parquet", "log.parquet"]


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


def test_a_time_too_large_for_its_unit_is_named(write_log: Write, tmp_path: Path) -> None:
    for time in (17_145_576_000_000, "17145576000000"):
        log, items = write_log([row(time=time)])
        with pytest.raises(InputError, match=r"17145576000000.* is not a time") as error:
            prepare(log, items, tmp_path / "out", log_format=LogFormat(time_unit="s"))
        assert error.value.row == 1


def test_a_date_cannot_split_an_order(write_log: Write, tmp_path: Path) -> None:
    division = SplitConfig(method="time", valid_from="2024-01-01", test_from="2024-02-01")
    with pytest.raises(SlatewiseError, match="without a unit"):
        prepare(*write_log([row()]), tmp_path / "out", division=division)


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


def test_several_clicks_become_interactions_or_only_the_first(
    write_log: Write, tmp_path: Path
) -> None:
    rows = [row(click=["c", "a"]), row(time=2, click=[]), row(time=3, click=None)]
    log, items = write_log(rows)
    each = prepare(log, items, tmp_path / "each")
    assert [entry[2] for entry in rows_of(each)["ann"]] == ["c", "a", None, None]
    assert each.meta["report"]["clicks_unfolded"] == 1
    assert found(each) == {}
    first = prepare(log, items, tmp_path / "first", PrepareConfig(several_clicks="first"))
    assert [entry[2] for entry in rows_of(first)["ann"]] == ["c", None, None]
    assert first.meta["report"]["clicks_ignored"] == 1
    assert first.meta["report"]["reductions"] == {}


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


def test_a_directory_of_files_is_one_log_and_rows_are_counted_per_file(
    write_log: Write, tmp_path: Path
) -> None:
    log, items = write_log([row(time=1), row(time=2)])
    parts = tmp_path / "parts"
    parts.mkdir()
    log.rename(parts / "1.parquet")
    pl.DataFrame([row(time=3), row(time=4, click="z")]).write_parquet(parts / "2.parquet")
    dataset = prepare(parts, items, tmp_path / "out")
    assert [entry[0] for entry in rows_of(dataset)["ann"]] == [1, 2, 3]
    (problem,) = dataset.meta["report"]["problems"]
    assert (problem["file"], problem["row"]) == (str(parts / "2.parquet"), 2)
    pl.DataFrame([row(user_id=1)]).write_parquet(parts / "3.parquet")
    with pytest.raises(InputError, match="differ"):
        prepare(parts, items, tmp_path / "other")


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


def many(users: int, steps: int, seed: int = 0) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(users):
        for time in range(steps):
            slate = rng.choice(60, size=rng.integers(1, 40), replace=False).tolist()
            click = slate[rng.integers(len(slate))] if rng.random() < 0.5 else None
            rows.append(row(user_id=user, time=time, slate=slate, click=click))
    return rows


def test_the_papers_reductions_leave_what_section_5_says(write_log: Write, tmp_path: Path) -> None:
    rows = many(users=60, steps=60)
    dataset = prepare(*write_log(rows), tmp_path / "out", PRESETS["paper"])
    counts = np.diff(dataset.user_offsets)
    assert counts.min() >= 10
    assert counts.max() == 20
    assert np.diff(dataset.slate_offsets).max() == 25
    everything = {(r["user_id"], r["time"]): r for r in rows}
    for user, entries in rows_of(dataset).items():
        for time, slate, click, _ in entries:
            original = everything[user, time]
            assert list(slate) == original["slate"][:25]
            assert click == original["click"]
    report = dataset.meta["report"]
    assert report["rows"] - sum(report["reductions"].values()) == dataset.num_interactions
    unclicked = sum(r["click"] is None for r in rows)
    kept = unclicked - report["reductions"]["without a click, not in the sample"]
    # A tenth of n, within four standard deviations.
    assert abs(kept - 0.1 * unclicked) < 4 * np.sqrt(0.09 * unclicked)


def test_the_sample_of_no_clicks_depends_on_rows_and_seed_not_on_order(
    write_log: Write, tmp_path: Path
) -> None:
    rows = many(users=20, steps=20)
    config = PrepareConfig(no_click_share=0.3)
    kept = rows_of(prepare(*write_log(rows), tmp_path / "a", config))
    assert rows_of(prepare(*write_log(rows[::-1]), tmp_path / "b", config)) == kept
    other = rows_of(
        prepare(*write_log(rows), tmp_path / "c", config.model_copy(update={"seed": 1}))
    )
    assert other != kept
    # A row that stays in the log keeps its fate when others leave it.
    fewer = rows_of(prepare(*write_log(rows[: len(rows) // 2]), tmp_path / "d", config))
    assert fewer == {user: entries for user, entries in kept.items() if user < 10}


def test_the_account_adds_up(write_log: Write, tmp_path: Path) -> None:
    rows = many(users=12, steps=30)
    rows += [
        row(user_id=None, slate=[1], click=None),
        row(user_id=1, slate=[], click=None),
        row(user_id=2, click=-5, slate=[1]),
    ]
    rows = [r | {"click": [] if r["click"] is None else [r["click"]]} for r in rows]
    rows[7]["slate"], rows[7]["click"] = [1, 2, 3, 4], [3, 2, 1]
    rows[9]["slate"], rows[9]["click"] = [1, 2, 3, 4], [3, 99]
    rows += [rows[0], row(user_id=3, time=99, slate=[1, 2, 3], click=[1])]
    dataset = prepare(
        *write_log(rows), tmp_path / "out", PrepareConfig(no_click_share=0.5, max_slate=9, first=12)
    )
    report = dataset.meta["report"]
    gone = sum(p["count"] for p in report["problems"] if p["drops"])
    gone += sum(report["reductions"].values())
    assert report["rows"] == len(rows)
    assert report["clicks_unfolded"] == 3
    assert (
        report["rows"] + 3 - gone == dataset.num_interactions == report["remaining"]["interactions"]
    )


def test_a_killed_run_leaves_the_old_dataset_and_no_other(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log(many(users=30, steps=20))
    out = tmp_path / "out"
    before = prepare(log, items, out).content_hash
    script = (
        "import os, signal, sys\n"
        "from slatewise.data import writing\n"
        "from slatewise.data.preparing import prepare\n"
        "writing.DatasetWriter.finish = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
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


@pytest.mark.parametrize(
    ("name", "text", "row", "problem"),
    [
        ("log.csv", "user_id,time,slate,click,source\na,1,x|y,x,s\na,2,x,y,x,s\n", 2, "6 fields"),
        ("log.jsonl", '{"user_id": "a", "time": 1}\n{"user_id": }\n', 2, "not JSON"),
    ],
)
def test_a_damaged_line_of_text_is_named(
    name: str, text: str, row: int, problem: str, write_log: Write, tmp_path: Path
) -> None:
    _, items = write_log([GOOD])
    log = tmp_path / name
    log.write_text(text)
    with pytest.raises(InputError, match=problem) as error:
        prepare(log, items, tmp_path / "out")
    assert (error.value.file, error.value.row) == (log, row)


def test_a_column_of_json_lines_that_is_empty_at_first(write_log: Write, tmp_path: Path) -> None:
    _, items = write_log([row(slate=[1, 2], click=1)])
    log = tmp_path / "log.jsonl"
    lines = [row(time=t, slate=[1, 2], click=None if t < 12_000 else 2) for t in range(12_001)]
    log.write_text("\n".join(json.dumps(line) for line in lines))
    dataset = prepare(log, items, tmp_path / "out")
    assert rows_of(dataset)["ann"][-1] == (12_000, (1, 2), 2, "search")


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


def test_two_fields_may_be_one_column(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(time=9)])
    layout = LogFormat(source="user_id")
    dataset = prepare(
        log, items, tmp_path / "out", log_format=layout, items_format=ItemsFormat(group="item_id")
    )
    assert rows_of(dataset) == {"ann": [(9, ("a", "b", "c"), "b", "ann")]}
    assert dataset.group_names == ["a", "b", "c"]


def test_an_items_table_without_rows_is_refused(write_log: Write, tmp_path: Path) -> None:
    log, _ = write_log([row()])
    empty = tmp_path / "empty.csv"
    empty.write_text("item_id,group\n")
    with pytest.raises(InputError, match=r"empty.csv: the items table has no rows"):
        prepare(log, empty, tmp_path / "out")


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


def test_ids_beyond_64_bits_are_refused_with_a_way_out(write_log: Write, tmp_path: Path) -> None:
    log, items = write_log([row(user_id=2**63)], schema={"user_id": pl.UInt64})
    with pytest.raises(InputError, match="9223372036854775808 is not an integer id") as error:
        prepare(log, items, tmp_path / "out")
    assert "as text" in error.value.remedy


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
