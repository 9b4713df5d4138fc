"""Values of single items, against the columns of an encoder."""

from typing import Any

import numpy as np
import polars as pl
import pytest

from slatewise.errors import SlatewiseError
from slatewise.features.item_columns import Kind
from slatewise.features.item_features import ItemEncoder
from slatewise.features.item_values import encode_values, misfit, refuse_misfits

KINDS: dict[str, Kind] = {
    "price": "number",
    "brand": "category",
    "text": "embedding",
    "tags": "tags",
}
TABLE = pl.DataFrame(
    {
        "price": [10.0, 20.0, None, 30.0],
        "brand": ["b", "a", "b", "true"],
        "text": [[1.0, 0.0], [3.0, 4.0], [1.0, 1.0], [5.0, 8.0]],
        "tags": [["new"], ["red", "new"], [], ["new", "new"]],
    }
)
ENCODER = ItemEncoder.fit(TABLE, KINDS)


def test_items_one_by_one_are_encoded_as_a_table_of_them_is() -> None:
    rows = TABLE.rows(named=True)
    together, misfits = encode_values(ENCODER, rows)
    assert misfits == 0
    np.testing.assert_array_equal(together, ENCODER.encode(TABLE))
    alone = [encode_values(ENCODER, [row])[0][0] for row in rows]
    np.testing.assert_array_equal(together, alone)


def test_what_an_item_does_not_tell_is_unknown_and_what_nobody_knows_does_not_matter() -> None:
    found, misfits = encode_values(ENCODER, [{}, {"weight": 3}, {"price": None, "brand": "  "}])
    assert misfits == 0
    # The mean price, said to be missing as one was in training; no brand; the mean vector; no tag.
    assert found.tolist() == [[0, 1, 0, 0, 0, 0, 0, 0, 0]] * 3


def test_values_that_do_not_fit_are_unknown_and_counted() -> None:
    items = [
        {"price": "dear", "brand": ["x"], "text": [1.0], "tags": "red"},
        {"price": 20, "brand": True, "tags": ["red", "blue", 7]},
    ]
    found, misfits = encode_values(ENCODER, items)
    assert misfits == 4
    assert found[0].tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0]
    assert found[1].tolist() == [
        0,
        0,
        0,
        0,
        1,
        0,
        0,
        0,
        1,
    ]  # the truth value is the category 'true'


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        ("price", "12", "'12' is no number"),
        ("price", float("nan"), "'nan' is no number"),
        ("price", 10**400, "is no number"),
        ("price", [1.0], "is no number"),
        ("price", 20 + 1_001 * (200 / 3) ** 0.5, "1,001 standard deviations"),
        ("brand", ["a"], "one text"),
        ("brand", float("nan"), "one text"),
        ("text", [1.0], "has 1 numbers, those of training have 2"),
        ("text", [1.0, None], "list of numbers"),
        ("text", [1.0, float("inf")], "list of numbers"),
        ("text", "ab", "list of numbers"),
        ("text", 7, "list of numbers"),
        ("text", [1e9, 0.0], "1,000 times as far out"),
        ("tags", "red", "list of texts"),
        ("tags", [["red"]], "list of texts"),
    ],
)
def test_a_value_of_another_kind_is_refused_in_words(name: str, value: Any, problem: str) -> None:
    column = next(column for column in ENCODER.columns if column.name == name)
    assert problem in str(misfit(column, value))
    with pytest.raises(SlatewiseError, match=f"column '{name}'") as refusal:
        refuse_misfits(ENCODER, {name: value})
    assert "leave it out" in refusal.value.remedy


@pytest.mark.parametrize("value", [None, 20, 20.5, True, -(10**3)])
def test_numbers_of_every_type_fit(value: object) -> None:
    assert misfit(ENCODER.columns[0], value) is None
