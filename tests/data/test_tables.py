"""Files and directories as people have them: odd names, parts, companions, JSON lines."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from slatewise.data.preparation import prepare
from slatewise.data.tables import open_tables
from slatewise.errors import InputError
from tests.data.log_rows import GOOD, Write, row
from tests.data.recovery import rows_of

ROW = {"user_id": "ann", "time": 1, "slate": ["a", "b"], "click": "b", "source": "search"}
ITEMS = pl.DataFrame({"item_id": ["a", "b"], "group": ["g", "h"]})

WRITERS: dict[str, Callable[[pl.DataFrame, Path], Any]] = {
    ".parquet": lambda frame, file: frame.write_parquet(file),
    ".csv": lambda frame, file: frame.with_columns(pl.col("slate").list.join("|")).write_csv(file),
    ".jsonl": lambda frame, file: frame.write_ndjson(file),
}


def write(file: Path, *rows: dict[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    WRITERS[file.suffix](pl.DataFrame(rows or [ROW]), file)
    return file


def names(path: Path, name: str = "log") -> list[str]:
    return [str(table.path.relative_to(path)) for table in open_tables(path, name)]


@pytest.mark.parametrize("kind", ["lists", "text"])
def test_parquet_tells_how_many_items_its_slates_hold(kind: str, tmp_path: Path) -> None:
    frame = pl.DataFrame({"slate": [list(range(n, n + 200)) for n in range(100)], "slate_id": 1})
    if kind == "text":
        text = pl.col("slate").cast(pl.List(pl.String)).list.join("|")
        frame = frame.with_columns(text)
    frame.write_parquet(tmp_path / "log.parquet", row_group_size=30)
    (table,) = open_tables(tmp_path / "log.parquet", "log")
    items = table.items("slate")
    assert items == 20_000 if kind == "lists" else 10_000 < items < 40_000


@pytest.mark.parametrize("suffix", WRITERS)
def test_paths_are_no_patterns(suffix: str, tmp_path: Path) -> None:
    folder = tmp_path / "a[1]*?"
    log = write(folder / f"log{suffix}")
    ITEMS.write_parquet(folder / "items.parquet")
    dataset = prepare(log, folder / "items.parquet", folder / "out")
    assert rows_of(dataset) == {"ann": [(1, ("a", "b"), "b", "search")]}


@pytest.mark.parametrize("suffix", [".csv", ".jsonl"])
def test_compressed_text_reads_as_text(suffix: str, tmp_path: Path) -> None:
    plain = write(tmp_path / f"log{suffix}", ROW, ROW | {"time": 2, "click": None})
    packed = tmp_path / "packed" / f"log{suffix}.gz"
    packed.parent.mkdir()
    packed.write_bytes(gzip.compress(plain.read_bytes()))
    ITEMS.write_csv(tmp_path / "packed" / "items.csv")
    dataset = prepare(packed.parent, packed.parent, tmp_path / "out")
    assert rows_of(dataset) == {
        "ann": [(1, ("a", "b"), "b", "search"), (2, ("a", "b"), None, "search")]
    }


def test_damage_in_compressed_text_is_named_by_row(tmp_path: Path) -> None:
    lines = b"user_id,time,slate,click,source\nann,1,a|b,b,s\nbo,2,a|b,b,s,what\n"
    log = tmp_path / "log.csv.gz"
    log.write_bytes(gzip.compress(lines))
    ITEMS.write_csv(tmp_path / "items.csv")
    with pytest.raises(InputError, match="row 2"):
        prepare(log, tmp_path / "items.csv", tmp_path / "out")
    whole = gzip.compress(lines * 1000)
    log.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="cannot be read"):
        prepare(log, tmp_path / "items.csv", tmp_path / "out")


def test_only_visible_regular_files_are_parts(tmp_path: Path) -> None:
    write(tmp_path / "spark.parquet" / "part-0.snappy.parquet")
    write(tmp_path / "spark.parquet" / "part-1.snappy.parquet")
    for hidden in ("_temporary/0.parquet", ".part-0.parquet", "_metadata.parquet"):
        write(tmp_path / "spark.parquet" / hidden)
    parts = ["part-0.snappy.parquet", "part-1.snappy.parquet"]
    assert names(tmp_path / "spark.parquet") == parts
    assert names(tmp_path) == [f"spark.parquet/{part}" for part in parts]


def test_a_named_file_stands_alone_or_with_its_companions(tmp_path: Path) -> None:
    write(tmp_path / "log.parquet")
    ITEMS.write_parquet(tmp_path / "items.parquet")
    ITEMS.write_parquet(tmp_path / "items.v2.parquet.bak")
    write(tmp_path / "truth" / "states.parquet")
    assert names(tmp_path) == ["log.parquet"]
    assert names(tmp_path, "items") == ["items.parquet"]
    for other in ("log-2.parquet", "log.csv", "more/0.parquet"):
        extra = write(tmp_path / other)
        with pytest.raises(InputError, match=f"{other}") as error:
            open_tables(tmp_path, "log")
        assert "Name the file" in error.value.remedy
        extra.unlink()


def test_a_key_of_json_lines_may_appear_late(tmp_path: Path) -> None:
    items = tmp_path / "items.parquet"
    ITEMS.write_parquet(items)
    log = tmp_path / "log.jsonl"
    bare = {key: value for key, value in ROW.items() if key != "click"}
    lines = [bare | {"time": time} for time in range(12_000)] + [ROW | {"time": 12_000}]
    log.write_text("\n".join(map(json.dumps, lines)))
    dataset = prepare(log, items, tmp_path / "out")
    assert rows_of(dataset)["ann"][-1] == (12_000, ("a", "b"), "b", "search")
    assert dataset.meta["counts"]["clicks"] == 1


def test_json_lines_of_two_kinds_name_row_and_column(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    lines = [ROW] * 11_000 + [ROW | {"time": [1]}]
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(InputError, match="is a list, and in rows before it was a number") as error:
        open_tables(log, "log")
    assert (error.value.file, error.value.row, error.value.column) == (log, 11_001, "time")


@pytest.mark.parametrize("empty", [{"click": None}, {}])
def test_a_part_of_json_lines_may_lack_clicks(empty: dict[str, Any], tmp_path: Path) -> None:
    items = tmp_path / "items.parquet"
    pl.DataFrame({"item_id": [1, 2], "group": ["g", "h"]}).write_parquet(items)
    numbered = ROW | {"slate": [1, 2], "click": 2}
    bare = {key: value for key, value in numbered.items() if key != "click"} | empty
    (tmp_path / "log").mkdir()
    for part, line in enumerate([bare, numbered, bare]):
        text = json.dumps(line | {"time": part})
        (tmp_path / "log" / f"{part}.jsonl").write_text(text)
    dataset = prepare(tmp_path / "log", items, tmp_path / "out")
    assert [entry[2] for entry in rows_of(dataset)["ann"]] == [None, 2, None]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", 'user_id,time,slate,click,source\nann,1,"a|\nb",,s\nsøren,1,a|b,b,s\n'),
        ("log.jsonl", '{"user_id": "ann"}\n{"user_id": "søren"}\n'),
    ],
)
def test_a_row_that_is_not_utf8_is_named(name: str, text: str, tmp_path: Path) -> None:
    log, items = tmp_path / name, tmp_path / "items.parquet"
    ITEMS.write_parquet(items)
    log.write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8") as error:
        prepare(log, items, tmp_path / "out")
    assert (error.value.file, error.value.row) == (log, 2)


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
