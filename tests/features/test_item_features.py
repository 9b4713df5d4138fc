import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.errors import InputError
from slatewise.features import ItemEncoder, read_item_columns
from slatewise.features.item_columns import Kind
from slatewise.features.item_features import OTHER

KINDS: dict[str, Kind] = {"price": "number", "brand": "category", "text": "embedding"}


def table() -> pl.DataFrame:
    return pl.DataFrame(
        {
            "price": [10.0, 20.0, None, 30.0],
            "brand": ["b", "a", "b", None],
            "text": [[1.0, 0.0], [3.0, 4.0], None, [5.0, 8.0]],
        }
    )


def test_numbers_categories_and_vectors_become_columns_with_indicators() -> None:
    encoder = ItemEncoder.fit(table(), KINDS)
    assert encoder.names == [
        "price",
        "price is missing",
        "brand = b",
        "brand = a",
        "brand is missing",
        "text[0]",
        "text[1]",
        "text is missing",
    ]
    sd = np.sqrt(200 / 3)
    # Around the mean (3, 4): squares 4, 16, 0, 0, 4, 16, of which the mean is 40 / 6.
    scale = np.sqrt(40 / 6)
    wanted = [
        [-10 / sd, 0, 1, 0, 0, -2 / scale, -4 / scale, 0],
        [0, 0, 0, 1, 0, 0, 0, 0],
        [0, 1, 1, 0, 0, 0, 0, 1],
        [10 / sd, 0, 0, 0, 1, 2 / scale, 4 / scale, 0],
    ]
    np.testing.assert_allclose(encoder.encode(table()), wanted, rtol=1e-6)
    assert encoder.encode(table()).dtype == np.float32


def test_an_encoder_read_back_from_json_encodes_new_items_the_same_way() -> None:
    encoder = ItemEncoder.fit(table(), KINDS)
    again = ItemEncoder.build(json.loads(encoder.model_dump_json()), "items.json")
    assert again == encoder
    new = pl.DataFrame({"price": [40], "brand": ["never seen"], "text": [[3, 4]]})
    row = again.encode(new)[0]
    np.testing.assert_allclose(row, [20 / np.sqrt(200 / 3), 0, 0, 0, 0, 0, 0, 0], rtol=1e-6)


def test_categories_beyond_the_cap_share_a_column() -> None:
    brands = pl.DataFrame({"brand": ["c", "a", "a", "b", "b", "d"]})
    encoder = ItemEncoder.fit(brands, {"brand": "category"}, most_categories=2)
    assert encoder.names == ["brand = a", "brand = b", "brand is another"]
    assert encoder.encode(brands).argmax(axis=1).tolist() == [2, 0, 0, 1, 1, 2]
    unseen = encoder.encode(pl.DataFrame({"brand": ["e", None]}))
    assert unseen.tolist() == [[0, 0, 1], [0, 0, 0]]


def test_a_constant_and_a_column_without_values_are_zeros() -> None:
    items = pl.DataFrame(
        {"same": [0.1, 0.1, 0.1], "nothing": pl.Series([None] * 3, dtype=pl.Float64)}
    )
    encoder = ItemEncoder.fit(items, {"same": "number", "nothing": "number"})
    np.testing.assert_allclose(encoder.encode(items), [[0, 0, 1]] * 3, atol=1e-9)


def test_vectors_that_nobody_knows_are_no_obstacle() -> None:
    nothing = pl.DataFrame({"text": pl.Series([None, None], dtype=pl.List(pl.Float64))})
    encoder = ItemEncoder.fit(table(), {"text": "embedding"})
    assert encoder.encode(nothing).tolist() == [[0, 0, 1]] * 2
    empty = ItemEncoder.fit(nothing, {"text": "embedding"})
    assert empty.encode(nothing).tolist() == [[1], [1]]


@pytest.fixture
def dataset(write_log: Callable[..., Any], tmp_path: Path) -> SlateDataset:
    rows = [{"user_id": 1, "time": 1, "slate": ["x", "y", "z"], "click": "x", "source": "s"}]
    return prepare(*write_log(rows, {"x": "g", "y": "g", "z": "g"}), tmp_path / "dataset")


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_columns_of_a_table_follow_the_items_of_the_dataset(
    dataset: SlateDataset, tmp_path: Path
) -> None:
    file = write(
        tmp_path / "more.csv",
        'sku,price,brand,text\nz,3.5,b,"[1, 2]"\nother,1,a,"[0, 0]"\nx,,,\n',
    )
    columns = read_item_columns(dataset, file, KINDS, item_id="sku")
    assert columns.to_dict(as_series=False) == {
        "price": [None, None, 3.5],
        "brand": [None, None, "b"],
        "text": [None, None, [1.0, 2.0]],
    }
    assert ItemEncoder.fit(columns, KINDS).encode(columns).shape == (3, 7)


def test_columns_that_the_dataset_carries_can_be_encoded_directly(
    write_log: Callable[..., Any], tmp_path: Path
) -> None:
    rows = [{"user_id": 1, "time": 1, "slate": ["x", "y"], "click": "x", "source": "s"}]
    log, _ = write_log(rows)
    items = write(tmp_path / "items.csv", "item_id,group,price\ny,g,4\nx,g,2\n")
    dataset = prepare(log, items, tmp_path / "dataset")
    encoder = ItemEncoder.fit(dataset.items, {"price": "number"})
    assert encoder.encode(dataset.items)[:, 0].tolist() == [1, -1]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("item_id,price\nx,1\ny,dear\n", "more.csv, row 2, column 'price': 'dear' is not a number"),
        ("item_id,price\nx,inf\n", "row 1, column 'price': 'inf' is not a number"),
        ("item_id,price\nx,1\nx,2\n", "row 2, column 'item_id': item 'x' is listed twice"),
        ("item_id,price\n,1\n", "row 1, column 'item_id': the item id is missing"),
        ("item_id,price\nq,1\n", "none of the items"),
        ("item_id,cost\nx,1\n", "no column 'price'; they have item_id, cost"),
        ("id,price\nx,1\n", "no column 'item_id'"),
    ],
)
def test_a_wrong_table_is_refused_by_file_row_and_column(
    dataset: SlateDataset, tmp_path: Path, content: str, message: str
) -> None:
    file = write(tmp_path / "more.csv", content)
    with pytest.raises(InputError) as refusal:
        read_item_columns(dataset, file, {"price": "number"})
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([[1.0, 2.0], [1.0]], "row 2, column 'text': the vector has 1 numbers, the first has 2"),
        ([None, [1.0, None]], "row 2, column 'text': the vector has a gap"),
        ([[1.0, float("nan")]], "row 1, column 'text'"),
        (["[1, 2]", "[1, two]"], "row 2, column 'text'"),
        ([1.0], "values of type Float64 are not a list of numbers"),
    ],
)
def test_a_wrong_vector_is_refused(values: list[Any], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        ItemEncoder.fit(pl.DataFrame({"text": values}), {"text": "embedding"})
    assert message in str(refusal.value)


def test_an_embedding_of_another_length_is_refused_later() -> None:
    encoder = ItemEncoder.fit(table(), {"text": "embedding"})
    with pytest.raises(InputError, match="vectors of 3 numbers, not of 2"):
        encoder.encode(pl.DataFrame({"text": [[1.0, 2.0, 3.0]]}))


def test_a_list_is_no_category() -> None:
    with pytest.raises(InputError, match="not a category"):
        ItemEncoder.fit(pl.DataFrame({"tags": [["a", "b"]]}), {"tags": "category"})


def test_what_was_encoded_can_be_told_again() -> None:
    columns = table().with_columns(
        tags=pl.Series([["new"], ["red", "new"], [], None], dtype=pl.List(pl.String)),
        rare=pl.Series(["x", "x", "y", "z"]),
    )
    kinds: dict[str, Kind] = {**KINDS, "tags": "tags", "rare": "category"}
    encoder = ItemEncoder.fit(columns, kinds, most_categories=2)
    found = encoder.decode(encoder.encode(columns))
    assert found["price"].to_list() == pytest.approx(columns["price"].to_list(), nan_ok=True)
    assert found["brand"].to_list() == columns["brand"].to_list()
    for vector, wanted in zip(found["text"], columns["text"], strict=True):
        assert (vector is None) == (wanted is None)
        assert wanted is None or vector.to_list() == pytest.approx(wanted.to_list(), abs=1e-5)
    assert [None if one is None else sorted(one) for one in found["tags"].to_list()] == [
        ["new"],
        ["new", "red"],
        [],
        None,
    ]
    assert found["rare"].to_list() == ["x", "x", "y", OTHER]
    again = ItemEncoder.fit(found, {**KINDS, "tags": "tags"}, most_categories=2)
    wanted = encoder.encode(columns)[:, : len(again.names)]
    np.testing.assert_allclose(again.encode(found), wanted, atol=1e-6)
