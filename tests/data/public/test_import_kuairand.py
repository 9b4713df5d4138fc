from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from published import VIDEOS, imported, kuairand_row, write_kuairand

from slatewise.data.public import import_public
from slatewise.errors import InputError

TIME_MS = 1650485801301
STANDARD = [kuairand_row(1, 100, TIME_MS, 1, 0), kuairand_row(2, 101, TIME_MS + 1, 0, 0)]
RANDOM = [kuairand_row(1, 102, TIME_MS + 2, 0, 1)]


@pytest.mark.parametrize("chunk_size", [1, 100])
@pytest.mark.parametrize("below", ["", "data"])
def test_rows_become_slates_of_one(tmp_path: Path, chunk_size: int, below: str) -> None:
    write_kuairand(tmp_path / "k" / below, STANDARD, RANDOM)
    log, items, tally = imported("kuairand", tmp_path / "k", tmp_path / "out", chunk_size)
    time = datetime(2022, 4, 20, 20, 16, 41, 301_000)
    assert log.rows() == [
        (1, time, [100], 100, "recommendation"),
        (2, time.replace(microsecond=302_000), [101], None, "recommendation"),
        (1, time.replace(microsecond=303_000), [102], None, "random"),
    ]
    assert log.schema["time"] == pl.Datetime("us")
    assert items.rows() == [
        (100, "12", "12,65", "7", "NORMAL", "2022-04-01"),
        (101, "3", "3", "8", "AD", "2022-04-02"),
        (102, "unknown", None, "8", "NORMAL", "2022-04-02"),
    ]
    assert tally.notes == {"videos without a tag, given the group 'unknown'": 1}


@pytest.mark.parametrize(
    ("row", "column"),
    [
        (kuairand_row(1, 100, TIME_MS, 2, 0), "is_click"),
        (kuairand_row(1, 100, TIME_MS, 1, 7), "is_rand"),
        (kuairand_row(1, 100, TIME_MS, 1, 0).replace("100", "abc", 1), "video_id"),
        ("1,100,20220421,400", "time_ms"),
        (kuairand_row(1, 100, TIME_MS, 1, 0) + ",9", None),
    ],
)
@pytest.mark.parametrize("chunk_size", [1, 100])
def test_a_bad_row_is_named(tmp_path: Path, row: str, column: str | None, chunk_size: int) -> None:
    source = write_kuairand(tmp_path / "k", [*STANDARD, row], RANDOM)
    with pytest.raises(InputError) as error:
        import_public("kuairand", source, tmp_path / "out", chunk_size=chunk_size)
    assert error.value.file == source / "log_standard_4_08_to_4_21_pure.csv"
    assert (error.value.row, error.value.column) == (3, column)
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("file", "column"),
    [
        ("log_standard_4_08_to_4_21_pure.csv", "is_click"),
        ("log_random_4_22_to_5_08_pure.csv", "time_ms"),
        ("video_features_basic_pure.csv", "tag"),
    ],
)
def test_a_missing_column_is_named(tmp_path: Path, file: str, column: str) -> None:
    source = write_kuairand(tmp_path / "k", STANDARD, RANDOM)
    text = (source / file).read_text()
    (source / file).write_text(text.replace(column, "something", 1))
    with pytest.raises(InputError, match="the column is missing") as error:
        import_public("kuairand", source, tmp_path / "out")
    assert (error.value.file, error.value.column) == (source / file, column)


def test_two_versions_in_one_directory_are_refused(tmp_path: Path) -> None:
    source = write_kuairand(tmp_path / "k", STANDARD, RANDOM)
    write_kuairand(tmp_path / "k", STANDARD, RANDOM, version="1k")
    with pytest.raises(InputError, match="several versions lie together: 1k, pure"):
        import_public("kuairand", source, tmp_path / "out")


@pytest.mark.parametrize("kept", ["log_standard_*.csv", "video_features_basic_*.csv"])
def test_missing_files_are_named(tmp_path: Path, kept: str) -> None:
    source = write_kuairand(tmp_path / "k", STANDARD, RANDOM)
    for file in set(source.iterdir()) - set(source.glob(kept)):
        file.unlink()
    with pytest.raises(InputError, match="there is no"):
        import_public("kuairand", source, tmp_path / "out")


def test_files_with_a_header_and_nothing_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="log is empty"):
        import_public("kuairand", write_kuairand(tmp_path / "a", [], []), tmp_path / "out")
    source = write_kuairand(tmp_path / "b", STANDARD, RANDOM, videos=[])
    with pytest.raises(InputError, match="item table is empty"):
        import_public("kuairand", source, tmp_path / "out")
    (source / "log_random_4_22_to_5_08_pure.csv").write_text("")
    with pytest.raises(InputError, match="no columns"):
        import_public("kuairand", source, tmp_path / "out")


def test_a_video_that_only_the_log_knows_is_added(tmp_path: Path) -> None:
    source = write_kuairand(tmp_path / "k", STANDARD, RANDOM, videos=VIDEOS[:1])
    _, items, _ = imported("kuairand", source, tmp_path / "out")
    assert items.select("item_id", "group").rows() == [
        (100, "12"),
        (101, "unknown"),
        (102, "unknown"),
    ]


def test_what_stood_at_the_target_survives_a_failed_import(tmp_path: Path) -> None:
    source, out = write_kuairand(tmp_path / "k", STANDARD, RANDOM), tmp_path / "out"
    import_public("kuairand", source, out)
    before = (out / "log.parquet").read_bytes()
    write_kuairand(tmp_path / "k", ["broken"], RANDOM)
    with pytest.raises(InputError):
        import_public("kuairand", source, out, overwrite=True)
    assert (out / "log.parquet").read_bytes() == before


def test_progress_is_told(tmp_path: Path) -> None:
    source = write_kuairand(tmp_path / "k", STANDARD, RANDOM)
    told: list[tuple[int, int | None]] = []
    import_public("kuairand", source, tmp_path / "out", progress=lambda *now: told.append(now))
    assert told[-1] == (3, None)


def test_a_directory_is_required(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such directory"):
        import_public("kuairand", tmp_path / "nowhere", tmp_path / "out")
