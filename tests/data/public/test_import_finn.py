import json
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from published import GROUPS, finn_arrays, imported, write_finn

from slatewise.data.public import import_public
from slatewise.errors import InputError

Arrays = dict[str, np.ndarray[Any, Any]]

EXPECTED = [
    {"user_id": 11, "time": 0, "slate": [3, 4, 5], "click": 4, "source": "search"},
    {"user_id": 11, "time": 1, "slate": [6, 7], "click": None, "source": "recommendation"},
    {"user_id": 12, "time": 0, "slate": [7], "click": 7, "source": "recommendation"},
    {"user_id": 13, "time": 0, "slate": [5, 6], "click": 6, "source": "search"},
    {"user_id": 13, "time": 2, "slate": [3, 5, 7, 4], "click": 4, "source": "recommendation"},
]


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
@pytest.mark.parametrize("compressed", [True, False])
@pytest.mark.parametrize("chunk_size", [1, 6, 1000])
def test_every_edition_gives_the_same_log(
    tmp_path: Path, dtype: type, compressed: bool, chunk_size: int
) -> None:
    source = write_finn(tmp_path / "finn", dtype=dtype, compressed=compressed)
    log, items, tally = imported("finn", source, tmp_path / "out", chunk_size)
    assert log.to_dicts() == EXPECTED
    assert log.schema == {
        "user_id": pl.Int64,
        "time": pl.Int64,
        "slate": pl.List(pl.Int64),
        "click": pl.Int64,
        "source": pl.String,
    }
    assert items["item_id"].to_list() == [3, 4, 5, 6, 7]
    assert items["group"].to_list() == [GROUPS["3"]] * 2 + [GROUPS["4"]] * 3
    assert tally.left_out == {
        "click on an unknown item": 1,
        "every item shown is unknown": 1,
        "the clicked item is missing from the slate": 1,
    }
    assert tally.notes == {
        "padding steps, which are no interactions": 1,
        "unknown items taken out of slates": 1,
        "slates published with one item missing": 1,
    }
    assert tally.looked_at == 9


def test_steps_that_are_neither_padding_nor_usable_are_counted(tmp_path: Path) -> None:
    arrays = finn_arrays()
    arrays["interaction_type"][0, 0] = 0  # items shown, but nobody knows where
    arrays["click"][0, 1] = 0  # items shown, but neither a click nor a no-click
    arrays["slate"][2, 2] = [1, 0, 0, 0, 0]  # nothing shown, and nothing clicked
    arrays["click"][2, 2] = 1
    log, _, tally = imported("finn", write_finn(tmp_path / "finn", arrays), tmp_path / "out")
    assert log.to_dicts() == EXPECTED[2:4]
    assert tally.left_out["interaction type undefined"] == 1
    assert tally.left_out["neither a click nor a no-click recorded"] == 1
    assert tally.left_out["no item shown"] == 1


def many(copies: int) -> Arrays:
    arrays = {name: np.concatenate([array] * copies) for name, array in finn_arrays().items()}
    arrays["userId"] = np.arange(3 * copies)
    return arrays


@pytest.mark.parametrize(
    ("column", "index", "value", "written"),
    [
        ("click_idx", (0, 0), 1, 5 * 60),
        ("slate_lengths", (0, 0), 2, 5 * 60),
        ("click", (0, 0), 7, 5 * 60 - 1),
    ],
)
def test_a_rare_disagreement_is_reported_and_a_frequent_one_is_damage(
    tmp_path: Path, column: str, index: tuple[int, int], value: int, written: int
) -> None:
    arrays = many(60)
    arrays[column][index] = value
    log, _, tally = imported("finn", write_finn(tmp_path / "rare", arrays), tmp_path / "out")
    assert tally.notes[f"interactions whose {column} disagrees with the slate"] == 1
    assert log.height == written

    arrays = many(60)
    arrays[column][3 + index[0] :: 3, index[1]] = value
    with pytest.raises(InputError) as error:
        import_public("finn", write_finn(tmp_path / "often", arrays), tmp_path / "none")
    assert (error.value.row, error.value.column) == (4, column)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("column", "index", "value"),
    [
        ("slate", (1, 2, 1), 8),
        ("slate", (1, 2, 1), -1),
        ("click", (1, 0), 99),
        ("interaction_type", (1, 1), 3),
    ],
)
def test_ids_that_do_not_exist_are_damage(
    tmp_path: Path, column: str, index: tuple[int, ...], value: int
) -> None:
    arrays = finn_arrays()
    arrays[column][index] = value
    with pytest.raises(InputError, match=f"found {value} at step {index[1]}") as error:
        import_public("finn", write_finn(tmp_path / "finn", arrays), tmp_path / "out", chunk_size=1)
    assert (error.value.row, error.value.column) == (2, column)


@pytest.mark.parametrize("name", ["data.npz", "itemattr.npz", "ind2val.json"])
@pytest.mark.parametrize("content", [b"", b"version https://git-lfs.github.com/spec/v1\n", b"\xff"])
def test_a_file_of_another_kind_is_named(tmp_path: Path, name: str, content: bytes) -> None:
    source = write_finn(tmp_path / "finn")
    (source / name).write_bytes(content)
    with pytest.raises(InputError) as error:
        import_public("finn", source, tmp_path / "out")
    assert error.value.file == source / name
    assert error.value.remedy
    (source / name).unlink()
    with pytest.raises(InputError, match="missing"):
        import_public("finn", source, tmp_path / "out")
    assert list(tmp_path.iterdir()) == [source]


def change(name: str, value: Callable[[Arrays], np.ndarray[Any, Any]]) -> Callable[[Path], None]:
    def apply(source: Path) -> None:
        arrays = finn_arrays()
        np.savez(source / "data.npz", **{**arrays, name: value(arrays)})

    return apply


def drop_clicks(source: Path) -> None:
    arrays = finn_arrays()
    del arrays["click"]
    np.savez(source / "data.npz", **arrays)


def flip_a_byte(source: Path) -> None:
    # In the stored data of the slates, so that only the checksum can tell, at their end.
    write_finn(source, many(60), compressed=False)
    with zipfile.ZipFile(source / "data.npz") as archive:
        offset = archive.getinfo("slate.npy").header_offset
    data = bytearray((source / "data.npz").read_bytes())
    at = offset + data[offset:].index(b"\x93NUMPY") + 130
    data[at] ^= 1
    (source / "data.npz").write_bytes(bytes(data))


def cut_short(source: Path) -> None:
    data = (source / "data.npz").read_bytes()
    (source / "data.npz").write_bytes(data[: len(data) // 2])


def end_member_early(source: Path) -> None:
    with zipfile.ZipFile(source / "data.npz") as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(source / "data.npz", "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content[:-8] if name == "click.npy" else content)


@pytest.mark.parametrize(
    ("damage", "problem", "column"),
    [
        (drop_clicks, "the array is missing", "click"),
        (change("click", lambda a: a["click"][:2]), "2 rows", "click"),
        (change("click_idx", lambda a: a["click_idx"][:, :2]), "shape", "click_idx"),
        (change("slate", lambda a: a["slate"][:, :, 0]), "shape", "slate"),
        (change("slate", lambda a: np.asfortranarray(a["slate"])), "column by column", "slate"),
        (change("userId", lambda a: a["userId"] * 1.0), "integers", "userId"),
        (change("userId", lambda a: np.array(5)), "integers", "userId"),
        (cut_short, "not a complete .npz archive", None),
        (end_member_early, "bytes, but its shape", "click"),
        (flip_a_byte, "cannot be unpacked", "slate"),
    ],
)
def test_damaged_arrays_are_named(
    tmp_path: Path, damage: Callable[[Path], None], problem: str, column: str | None
) -> None:
    source = write_finn(tmp_path / "finn", compressed=False)
    damage(source)
    with pytest.raises(InputError, match=problem) as error:
        import_public("finn", source, tmp_path / "out")
    assert error.value.column == column
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("codes", "problem"),
    [
        ({"category": np.array([0, 1, 2, 3.5])}, "whole number"),
        ({"category": np.array([0, 1, 2, np.nan])}, "whole number"),
        ({"category": np.array(["a"])}, "whole number"),
        ({"category": np.array([0, 1, 2, 77])}, "77 has no name"),
        ({"group": np.array([0])}, "missing"),
    ],
)
def test_damaged_categories_are_named(tmp_path: Path, codes: Arrays, problem: str) -> None:
    source = write_finn(tmp_path / "finn")
    np.savez(source / "itemattr.npz", **codes)
    with pytest.raises(InputError, match=problem):
        import_public("finn", source, tmp_path / "out")


@pytest.mark.parametrize("names", [[], {"categories": {}}, {"category": {"a": "b"}}])
def test_damaged_names_are_named(tmp_path: Path, names: object) -> None:
    source = write_finn(tmp_path / "finn")
    (source / "ind2val.json").write_text(json.dumps(names))
    with pytest.raises(InputError, match="expected JSON"):
        import_public("finn", source, tmp_path / "out")


def test_an_empty_log_is_refused(tmp_path: Path) -> None:
    arrays = {name: array[:0] for name, array in finn_arrays().items()}
    with pytest.raises(InputError, match="empty"):
        import_public("finn", write_finn(tmp_path / "finn", arrays), tmp_path / "out")
    arrays = {name: array[1:2, 1:] for name, array in finn_arrays().items() if name != "userId"}
    arrays["userId"] = np.array([1])
    with pytest.raises(InputError, match="None of the 2 interactions"):
        import_public("finn", write_finn(tmp_path / "finn", arrays), tmp_path / "out")


def test_memory_follows_the_chunk_and_not_the_file(tmp_path: Path) -> None:
    users = 20_000
    slate = np.tile(finn_arrays()["slate"][0, 0], (users, 20, 5))[:, :, :25]
    slate[:, :, 5:] = 0
    click = np.full((users, 20), 4)
    arrays = {
        "userId": np.arange(users),
        "click": click,
        "click_idx": np.full_like(click, 2),
        "slate_lengths": click,
        "slate": slate,
        "interaction_type": np.ones_like(click),
    }
    source = write_finn(tmp_path / "finn", arrays, dtype=np.int64)
    size = slate.nbytes
    del arrays, slate, click
    tracemalloc.start()
    tally = import_public("finn", source, tmp_path / "out", chunk_size=10_000)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert tally.written == users * 20
    assert peak < size / 5
