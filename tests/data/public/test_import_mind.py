from datetime import datetime
from pathlib import Path

import polars as pl
import pytest
from published import BEHAVIORS, NEWS, imported, write_mind

from slatewise.data.public import import_public
from slatewise.errors import InputError


@pytest.mark.parametrize("chunk_size", [1, 2, 100])
def test_impressions_become_slates(tmp_path: Path, chunk_size: int) -> None:
    log, items, tally = imported("mind", write_mind(tmp_path / "m"), tmp_path / "o", chunk_size)
    assert log.rows() == [
        ("U1", datetime(2019, 11, 15, 8, 55, 22), ["N1", "N2", "N3"], ["N2"], "recommendation"),
        ("U2", datetime(2019, 11, 9, 12, 5, 1), ["N3", "N1"], ["N3", "N1"], "recommendation"),
        ("U1", datetime(2019, 11, 16, 23, 0, 0), ["N4", "N2"], [], "recommendation"),
    ]
    assert log.schema["time"] == pl.Datetime("us")
    assert log.schema["click"] == pl.List(pl.String)
    assert items.rows() == [
        ("N1", "sports", "golf", 'A "hole" in one'),
        ("N2", "news", "newsus", "Plain, with a comma"),
        ("N3", "news", "newsworld", '"Unbalanced quote'),
        ("N4", "unknown", None, None),
    ]
    assert tally.notes == {"items shown but not in the item table, given the group 'unknown'": 1}
    assert not tally.left_out


@pytest.mark.parametrize(
    ("line", "column", "problem"),
    [
        ("4\tU3\t11/15/2019 8:55:22 AM\t\tN1 N2", "impressions", "'N1 N2'"),
        ("4\tU3\t11/15/2019 8:55:22 AM\t\tN1-0 N2", "impressions", "-0 or -1"),
        ("4\tU3\t11/15/2019 8:55:22 AM\t\t", "impressions", "None"),
        ("4\tU3\t11/15/2019 8:55:22 AM", "impressions", "None"),
        ("4\tU3\t15.11.2019 08:55\t\tN1-0", "time", "15.11.2019"),
        ("4\t\t11/15/2019 8:55:22 AM\t\tN1-0", "user_id", "a user"),
        ("4\tU3\t11/15/2019 8:55:22 AM\t\tN1-0\tmore", None, "6 fields instead of 5"),
    ],
)
@pytest.mark.parametrize("chunk_size", [1, 100])
def test_a_bad_line_is_named(
    tmp_path: Path, line: str, column: str | None, problem: str, chunk_size: int
) -> None:
    source = write_mind(tmp_path / "mind", [*BEHAVIORS, line])
    with pytest.raises(InputError, match=problem) as error:
        import_public("mind", source, tmp_path / "out", chunk_size=chunk_size)
    assert (error.value.file, error.value.row) == (source / "behaviors.tsv", 4)
    assert error.value.column == column
    assert list(tmp_path.iterdir()) == [source]


def test_the_test_part_is_refused_with_the_remedy(tmp_path: Path) -> None:
    source = write_mind(tmp_path / "mind", ["1\tU1\t11/15/2019 8:55:22 AM\tN9\tN1 N2 N3"])
    with pytest.raises(InputError, match="published without its clicks"):
        import_public("mind", source, tmp_path / "out")


def test_windows_line_ends_do_no_harm(tmp_path: Path) -> None:
    source = write_mind(tmp_path / "mind")
    text = (source / "behaviors.tsv").read_bytes().replace(b"\n", b"\r\n")
    (source / "behaviors.tsv").write_bytes(text)
    log, _, _ = imported("mind", source, tmp_path / "out")
    assert log["slate"].to_list()[0] == ["N1", "N2", "N3"]


@pytest.mark.parametrize("name", ["behaviors.tsv", "news.tsv"])
@pytest.mark.parametrize(
    ("content", "problem"),
    [(b"", "empty"), (b"one field\n", "found 1 fields"), (b"\xff\xfe\t\x80\n", "not a text file")],
)
def test_files_of_another_kind_are_named(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    source = write_mind(tmp_path / "mind")
    (source / name).write_bytes(content)
    with pytest.raises(InputError, match=problem) as error:
        import_public("mind", source, tmp_path / "out")
    assert error.value.file == source / name
    (source / name).unlink()
    with pytest.raises(InputError, match="missing"):
        import_public("mind", source, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [source]


def test_bytes_that_are_not_text_further_on_are_an_error(tmp_path: Path) -> None:
    source = write_mind(tmp_path / "mind")
    with (source / "behaviors.tsv").open("ab") as file:
        file.write(b"4\tU\xff\xfe\t11/15/2019 8:55:22 AM\t\tN1-0\n")
    with pytest.raises(InputError, match="cannot be read") as error:
        import_public("mind", source, tmp_path / "out")
    assert error.value.file == source / "behaviors.tsv"


def test_an_article_described_twice_is_refused(tmp_path: Path) -> None:
    source = write_mind(tmp_path / "mind", news=[*NEWS, NEWS[1]])
    with pytest.raises(InputError, match=r"'N2' is described twice.*row 4"):
        import_public("mind", source, tmp_path / "out", chunk_size=1)


def test_an_article_without_a_category_is_kept_and_counted(tmp_path: Path) -> None:
    source = write_mind(tmp_path / "mind", news=[*NEWS, "N4\t\t\tNo category\t\t\t\t"])
    _, items, tally = imported("mind", source, tmp_path / "out")
    assert items.rows()[3] == ("N4", "unknown", None, "No category")
    assert tally.notes == {"articles without a category, given the group 'unknown'": 1}
