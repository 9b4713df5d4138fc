"""Simulated and random logs, ugly ones too: every click, slate, order and source comes back."""

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatewise.data import log as log_module
from slatewise.data import spill
from slatewise.data.preparation import prepare
from slatewise.simulation import load_config, write_log
from tests.data.recovery import rows_of

Row = dict[str, Any]

_ids = st.sampled_from(
    [
        st.integers(-(2**62), 2**62),
        st.integers(0, 9),
        st.text(min_size=1, max_size=6),
    ]
)


@st.composite
def logs(draw: st.DrawFn, *, plain: bool = False) -> list[Row]:
    """Draw interactions in random order, with ties, repeated users and odd ids.

    Plain ids survive a text file: no edge of white space, no brackets.
    """
    user_ids, item_ids = draw(_ids), draw(_ids)
    if plain:
        user_ids, item_ids = user_ids.filter(_is_plain), item_ids.filter(_is_plain)
    users = draw(st.lists(user_ids, min_size=1, max_size=6, unique=True))
    items = draw(st.lists(item_ids, min_size=1, max_size=12, unique=True))
    rows = []
    for time in draw(st.lists(st.integers(-50, 50), min_size=1, max_size=40)):
        slate = draw(st.lists(st.sampled_from(items), min_size=1, max_size=8, unique=True))
        click = draw(st.none() | st.sampled_from(slate))
        source = draw(st.sampled_from(["search", "recommendation", "mail: søndag"]))
        user = draw(st.sampled_from(users))
        rows.append(
            {"user_id": user, "time": time, "slate": slate, "click": click, "source": source}
        )
    return rows


def _is_plain(value: Any) -> bool:
    text = str(value)
    return text.isprintable() and text == text.strip() and not text.startswith(("[", '"', "'"))


def expected(rows: list[Row]) -> dict[Any, list[Any]]:
    """Group by user and sort by time, copies dropped, ties in file order."""
    result: dict[Any, list[Any]] = {}
    for row in rows:
        entry = (row["time"], tuple(row["slate"]), row["click"], row["source"])
        own = result.setdefault(row["user_id"], [])
        if entry not in own:
            own.append(entry)
    return {user: sorted(own, key=lambda entry: entry[0]) for user, own in result.items()}


def write(directory: Path, rows: list[Row]) -> tuple[Path, Path]:
    log, items = directory / "log.parquet", directory / "items.parquet"
    item_type = pl.Int64 if isinstance(rows[0]["slate"][0], int) else pl.String
    pl.DataFrame(rows, schema_overrides={"click": item_type}).write_parquet(log)
    listed = sorted({item for row in rows for item in row["slate"]})[::2]
    pl.DataFrame(
        {"item_id": listed, "group": "g"}, schema_overrides={"item_id": item_type}
    ).write_parquet(items)
    return log, items


@given(rows=logs())
def test_every_interaction_comes_back(
    rows: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("trip")
    log, items = write(directory, rows)
    dataset = prepare(log, items, directory / "out")
    assert rows_of(dataset) == expected(rows)
    assert dataset.meta["report"]["rows"] == len(rows)


@given(rows=logs())
def test_small_batches_and_many_buckets_change_nothing_but_the_order_of_users(
    rows: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("trip")
    log, items = write(directory, rows)
    with (
        patch.object(spill, "_ROWS_PER_BUCKET", 3),
        patch.object(log_module, "BATCH_ROWS", 4),
    ):
        dataset = prepare(log, items, directory / "out")
    assert rows_of(dataset) == expected(rows)


@given(rows=logs(), data=st.data())
def test_the_order_of_the_log_does_not_matter_without_ties(
    rows: list[Row], data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    once = list({(row["user_id"], row["time"]): row for row in rows}.values())
    shuffled = data.draw(st.permutations(once))
    hashes = []
    for version in (once, shuffled):
        directory = tmp_path_factory.mktemp("trip")
        log, items = write(directory, version)
        hashes.append(prepare(log, items, directory / "out").content_hash)
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("suffix", [".csv", ".tsv", ".jsonl"])
@given(rows=logs(plain=True))
def test_text_formats_give_the_same_interactions(
    suffix: str, rows: list[Row], tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("trip")
    log, items = write(directory, rows)
    frame = pl.read_parquet(log)
    other = directory / f"other{suffix}"
    if suffix == ".jsonl":
        frame.write_ndjson(other)
    else:
        text = frame.with_columns(
            slate=pl.Series([_json(slate) for slate in frame["slate"].to_list()])
        )
        text.write_csv(other, separator="\t" if suffix == ".tsv" else ",")
    found = rows_of(prepare(other, items, directory / "out"))
    wanted = expected(rows)
    if suffix != ".jsonl":
        # Text files hold text: ids come back as they are written.
        wanted = {
            str(user): [
                (t, tuple(map(str, s)), None if c is None else str(c), o) for t, s, c, o in own
            ]
            for user, own in wanted.items()
        }
    assert found == wanted


def _json(slate: list[Any]) -> str:
    return json.dumps([str(item) for item in slate])


@pytest.mark.parametrize("truth", ["paper", "outside"])
def test_a_simulated_log_comes_back(truth: str, tmp_path: Path) -> None:
    write_log(load_config("tiny", truth=truth), tmp_path / "sim")
    dataset = prepare(
        tmp_path / "sim" / "log.parquet", tmp_path / "sim" / "items.parquet", tmp_path / "set"
    )
    log = pl.read_parquet(tmp_path / "sim" / "log.parquet").with_columns(
        pl.col("time").to_physical()
    )
    assert rows_of(dataset) == expected(log.to_dicts())
    items = pl.read_parquet(tmp_path / "sim" / "items.parquet")
    assert dataset.items.equals(items)
    assert dataset.meta["report"]["problems"] == []
