"""Features of an item as JSON."""

from typing import Any

import pytest

from slatewise.errors import InputError
from slatewise.service.store.features import LARGEST, LONGEST_VECTOR, features_of, features_text

FEATURES = {
    "text": [0.1, -2.5],
    "brand": "ash \N{DECIDUOUS TREE}",
    "price": 120,
    "new": True,
    "x": None,
    "tags": ["new", "outdoor"],
}


def test_features_come_back_as_they_were_and_the_same_are_the_same_text() -> None:
    text = features_text(FEATURES)
    assert features_of(text) == FEATURES
    assert features_text(dict(sorted(FEATURES.items()))) == text
    assert features_of(features_text({})) == {}


@pytest.mark.parametrize(
    ("features", "problem"),
    [
        ({"price": float("nan")}, "'price' is no number"),
        ({"price": 10**400}, "'price' is no number"),
        ({"text": [1.0, float("inf")]}, "'text' is no number"),
        ({"text": ["a", 1.0]}, "'text' is no number"),
        ({"text": ["a", "b" * 600]}, "a feature has 600 characters"),
        ({"text": [0.0] * (LONGEST_VECTOR + 1)}, "'text' is no number"),
        ({"inside": {"price": 3}}, "'inside' is no number"),
        ({"brand": "x" * 600}, "a feature has 600 characters"),
        ({"brand": "a\0"}, "NUL"),
        ({"brand": "\ud800"}, "no valid Unicode"),
        ({"": 1}, "name of a feature is empty"),
        ({f"f{number}": number for number in range(101)}, "101 features"),
        ({f"f{number}": [0.125] * 4_000 for number in range(3)}, "72,0"),
    ],
)
def test_what_no_store_should_keep_is_refused(features: dict[str, Any], problem: str) -> None:
    with pytest.raises(InputError, match=problem) as refusal:
        features_text(features)
    assert refusal.value.remedy


def test_the_largest_features_are_kept() -> None:
    features = {f"f{number}": [0.125] * LONGEST_VECTOR for number in range(2)}
    assert len(features_text(features)) < LARGEST
