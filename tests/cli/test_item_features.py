"""Features of items on the command line: which columns, what is in them, what is wrong."""

import json
from pathlib import Path

import polars as pl
import pytest

from slatewise.data.preparation import prepare
from slatewise.features.item_kinds import item_kinds
from slatewise.simulation import load_config, write_log
from slatewise.training import load
from tests.cli.conftest import Run

ITEMS = 120


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of a few readers, and a quick configuration."""
    folder = tmp_path_factory.mktemp("described")
    small = {"items": ITEMS, "groups": 4, "exposure_skew": 0.5}
    write_log(load_config("news", users=60, catalogue=small), folder / "log")
    prepare(folder / "log", folder / "log", folder / "set")
    (folder / "quick.toml").write_text(
        "[model]\ndimensions = 2\ndynamics = 'linear'\nterms = ['bias', 'history', 'propensity', "
        "'position', 'popularity']\nevidence = ['recommendation']\n[training]\nmax_epochs = 1\n"
    )
    return folder


def table(folder: Path, **columns: list[object]) -> Path:
    """Write a CSV of items, every fourth of them not listed."""
    kept = [number for number in range(ITEMS) if number % 4]
    frame = pl.DataFrame({"item_id": kept, "group": ["x"] * len(kept)})
    frame = frame.with_columns(
        price=pl.Series([f"{number / 7:.3f}" if number % 3 else "" for number in kept]),
        brand=pl.Series([["ash", "birch", "cedar"][number % 3] for number in kept]),
        text=pl.Series([f"[{number % 5}, {number % 2}]" for number in kept]),
        **{name: pl.Series(values, dtype=pl.String) for name, values in columns.items()},
    )
    frame.write_csv(folder / "items.csv")
    return folder / "items.csv"


def test_every_further_column_of_a_table_is_a_feature(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    file, out = table(tmp_path), tmp_path / "run"
    code, text, _ = run(
        "train", folder / "set", out, "--config", folder / "quick.toml", "--item-features", file
    )
    assert code == 0
    shown = [line.split() for line in text.splitlines()]
    assert ["price", "number", "1", "60"] in shown
    assert ["brand", "category", "3", "30"] in shown
    assert ["text", "embedding", "2", "30"] in shown
    assert f"30 of {ITEMS} items have no features" in text
    model = load(out)
    assert model.item_encoder is not None
    assert model.item_encoder.names[:2] == ["price", "price is missing"]
    assert model.posterior.item_features is not None
    new = pl.DataFrame({"price": ["3.5"], "brand": ["birch"], "text": ["[1, 0]"]})
    assert model.item_encoder.encode(new).shape == (1, model.posterior.item_features.shape[1])


def test_columns_of_the_dataset_are_named_and_tried_by_auto(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    options = ["--auto", "--features", "feature_1, group=category", "--config"]
    code, text, _ = run("train", folder / "set", out, *options, folder / "quick.toml")
    assert code == 0
    assert "feature_1" in text
    stored = json.loads((out / "selection.json").read_text())
    assert "features" in {tried["name"] for tried in stored["candidates"]}
    assert (load(out).item_encoder is not None) == stored["chosen"]["features"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ({"size": ["1"] * 89 + ["large"]}, [], "row 90, column 'size': 'large' is not a number"),
        ({"size": ["1"] * 89 + ["large"]}, ["--features", "size=number"], "row 90, column 'size'"),
        ({"void": [""] * 90}, [], "column 'void': the column is empty"),
        ({"vector": ["[1, 2]"] * 89 + ["[1]"]}, [], "row 90, column 'vector'"),
        ({}, ["--features", "colour"], "no column 'colour'"),
        ({}, ["--features", "brand=text"], "'text' is no kind of feature"),
        ({}, ["--features", " , "], "no column is named"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(
    columns: dict[str, list[object]],
    options: list[str],
    message: str,
    run: Run,
    folder: Path,
    tmp_path: Path,
) -> None:
    file = table(tmp_path, **columns)
    code, _, errors = run(
        "train", folder / "set", tmp_path / "run", "--item-features", file, *options
    )
    assert (code, message in " ".join(errors.split())) == (2, True), errors
    assert "remedy:" in errors
    assert not (tmp_path / "run").exists()


def test_a_table_that_describes_none_of_the_items_is_refused(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    titles = "".join(f"{number},t{number - (number % 3 > 1)}\n" for number in range(400))
    for text, message in (
        (f"item_id,title\n{titles}", "different values in 400 rows"),
        ("item_id,price\n9001,1\n", "none of the items"),
        ("item_id,price\n1,1\n1,2\n", "row 2, column 'item_id': item 1 is listed twice"),
        ("sku,price\n1,1\n", "no column 'item_id'"),
        ("item_id,group\n1,a\n", "no further column"),
    ):
        (tmp_path / "items.csv").write_text(text)
        ask = ["train", folder / "set", tmp_path / "run", "--item-features", tmp_path / "items.csv"]
        code, _, errors = run(*ask)
        assert (code, message in " ".join(errors.split())) == (2, True), errors


def test_kinds_are_read_off_types_where_a_table_has_them(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {
            "item_id": [1, 2],
            "count": [1, 2],
            "open": [True, False],
            "brand": pl.Series(["a", "b"], dtype=pl.Categorical),
            "text": [[0.1, 0.2], [0.3, 0.4]],
            "tags": [["new", "red"], ["new"]],
            "ids": [[1, 22], [3]],
            "more": ["['new', 'red']", "['new']"],
            "written": ["[0.1, 0.2]", "[0.3, 0.4]"],
        }
    )
    frame.write_parquet(tmp_path / "items.parquet")
    found = item_kinds(tmp_path / "items.parquet")
    kinds = {"count": "number", "open": "number", "brand": "category", "text": "embedding"}
    assert found == kinds | {"tags": "tags", "ids": "tags", "more": "tags", "written": "embedding"}
    assert item_kinds(tmp_path / "items.parquet", {"count": "category"}) == {"count": "category"}


def test_a_moment_is_no_feature_as_it_is(run: Run, folder: Path, tmp_path: Path) -> None:
    code, _, errors = run("train", folder / "set", tmp_path / "run", "--features", "published")
    assert (code, "column 'published'" in " ".join(errors.split())) == (2, True)
