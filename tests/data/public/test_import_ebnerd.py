from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from published import imported

from slatewise.data.public import import_public
from slatewise.errors import InputError

TIMES = [datetime(2023, 5, 21, 21, 6, second) for second in range(4)]
SCHEMA = {
    "impression_id": pl.UInt32,
    "article_id": pl.Int32,
    "impression_time": pl.Datetime("us"),
    "article_ids_inview": pl.List(pl.Int32),
    "article_ids_clicked": pl.List(pl.Int32),
    "user_id": pl.UInt32,
}


def behaviors(**changes: object) -> pl.DataFrame:
    columns = {
        "impression_id": [1, 2, 3, 4],
        "article_id": [None, 77, None, None],
        "impression_time": TIMES,
        "article_ids_inview": [[1, 2, 3], [3, 1], [2, 1], []],
        "article_ids_clicked": [[2], [3, 1], [9], [1]],
        "user_id": [10, 11, 10, 12],
    }
    return pl.DataFrame({**columns, **changes}, schema=SCHEMA)


ARTICLES = pl.DataFrame(
    {
        "article_id": [1, 2, 3],
        "title": ["Én", "To", "Tre"],
        "category": [118, 140, 118],
        "category_str": ["nyheder", "sport", None],
    },
    schema_overrides={"article_id": pl.Int32},
)


def write(folder: Path, *frames: pl.DataFrame, articles: pl.DataFrame = ARTICLES) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    if len(frames) == 1:
        frames[0].write_parquet(folder / "behaviors.parquet")
    else:
        for split, frame in zip(("train", "validation"), frames, strict=True):
            (folder / split).mkdir()
            frame.write_parquet(folder / split / "behaviors.parquet", row_group_size=2)
    articles.write_parquet(folder / "articles.parquet")
    return folder


@pytest.mark.parametrize("chunk_size", [1, 3, 100])
def test_impressions_become_slates(tmp_path: Path, chunk_size: int) -> None:
    source = write(tmp_path / "eb", behaviors())
    log, items, tally = imported("ebnerd", source, tmp_path / "out", chunk_size)
    assert log.rows() == [
        (10, TIMES[0], [1, 2, 3], [2], "front-page"),
        (11, TIMES[1], [3, 1], [3, 1], "article-page"),
    ]
    assert log.schema["user_id"] == pl.Int64
    assert log.schema["click"] == pl.List(pl.Int64)
    assert items.rows() == [(1, "nyheder", "Én"), (2, "sport", "To"), (3, "unknown", "Tre")]
    assert tally.left_out == {"no article in view": 1, "a clicked article was not in view": 1}
    assert tally.looked_at == 4


def test_both_splits_are_read(tmp_path: Path) -> None:
    source = write(tmp_path / "eb", behaviors(), behaviors(user_id=[20, 21, 22, 23]))
    log, _, tally = imported("ebnerd", source, tmp_path / "out")
    assert log["user_id"].to_list() == [10, 11, 20, 21]
    assert tally.read == 8


def test_without_the_page_the_source_is_recommendation(tmp_path: Path) -> None:
    source = write(tmp_path / "eb", behaviors().drop("article_id"))
    log, _, _ = imported("ebnerd", source, tmp_path / "out")
    assert log["source"].to_list() == ["recommendation"] * 2


@pytest.mark.parametrize("column", ["user_id", "impression_time", "article_ids_inview"])
def test_a_missing_column_is_named(tmp_path: Path, column: str) -> None:
    source = write(tmp_path / "eb", behaviors().drop(column))
    with pytest.raises(InputError, match="missing") as error:
        import_public("ebnerd", source, tmp_path / "out")
    assert error.value.column == column
    assert list(tmp_path.iterdir()) == [source]


def test_the_test_set_is_refused_with_the_remedy(tmp_path: Path) -> None:
    source = write(tmp_path / "eb", behaviors().drop("article_ids_clicked"))
    with pytest.raises(InputError, match="published without its clicks"):
        import_public("ebnerd", source, tmp_path / "out")


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("user_id", pl.String()),
        ("impression_time", pl.String()),
        ("article_ids_inview", pl.List(pl.String)),
    ],
)
def test_a_column_of_another_type_is_named(tmp_path: Path, column: str, kind: pl.DataType) -> None:
    source = write(tmp_path / "eb", behaviors().cast({column: kind}))
    with pytest.raises(InputError, match="does not hold") as error:
        import_public("ebnerd", source, tmp_path / "out")
    assert error.value.column == column


@pytest.mark.parametrize("column", ["user_id", "impression_time"])
def test_a_row_without_user_or_time_is_named(tmp_path: Path, column: str) -> None:
    values = behaviors()[column].to_list()
    values[2] = None
    source = write(tmp_path / "eb", behaviors(**{column: values}))
    with pytest.raises(InputError, match="expected a") as error:
        import_public("ebnerd", source, tmp_path / "out", chunk_size=2)
    assert (error.value.row, error.value.column) == (3, column)


@pytest.mark.parametrize("name", ["behaviors.parquet", "articles.parquet"])
@pytest.mark.parametrize("keep", [0, 100])
def test_truncated_files_are_named(tmp_path: Path, name: str, keep: int) -> None:
    source = write(tmp_path / "eb", behaviors())
    (source / name).write_bytes((source / name).read_bytes()[:keep])
    with pytest.raises(InputError, match="not a complete Parquet file") as error:
        import_public("ebnerd", source, tmp_path / "out")
    assert error.value.file == source / name
    (source / name).unlink()
    with pytest.raises(InputError, match="missing"):
        import_public("ebnerd", source, tmp_path / "out")


def test_data_damaged_inside_the_file_is_an_error(tmp_path: Path) -> None:
    source = write(tmp_path / "eb", behaviors())
    data = bytearray((source / "behaviors.parquet").read_bytes())
    data[4:200] = bytes(196)
    (source / "behaviors.parquet").write_bytes(bytes(data))
    with pytest.raises(InputError, match="cannot be read"):
        import_public("ebnerd", source, tmp_path / "out")


def test_empty_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="log is empty"):
        import_public("ebnerd", write(tmp_path / "a", behaviors().clear()), tmp_path / "out")
    source = write(tmp_path / "b", behaviors(), articles=ARTICLES.clear())
    with pytest.raises(InputError, match="item table is empty"):
        import_public("ebnerd", source, tmp_path / "out")
