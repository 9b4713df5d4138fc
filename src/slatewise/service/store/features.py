"""Features of an item as clients send them: a JSON object of numbers, texts and lists.

The service keeps all of them, whatever models there are. Each version of a model reads what it
was trained with, as its encoder has it, and does not mind the rest.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_core import from_json

from slatewise.errors import InputError
from slatewise.features.item_values import is_finite
from slatewise.service.store.records import require_texts

MOST_FEATURES = 100
"""of an item"""
LONGEST_VECTOR = 4_096
"""numbers of one feature"""
LARGEST = 65_536
"""Characters of the features of an item, in JSON: two embeddings of 1,536 numbers."""

Features = Mapping[str, Any]


def features_text(features: Features) -> str:
    """Return features as JSON, the same for the same, refusing what no store could keep."""
    require_texts("the name of a feature", list(features))
    for name, value in features.items():
        if not _is_value(value):
            raise InputError(
                f"the feature {name!r} is no number, text or list of such",
                "Give finite numbers, texts or lists of either; null where it is unknown.",
            )
    parts = [part for value in features.values() for part in _parts(value)]
    require_texts("a feature", [part for part in parts if part and type(part) is str])
    text = json.dumps(features, sort_keys=True, separators=(",", ":"))
    if len(text) > LARGEST or len(features) > MOST_FEATURES:
        raise InputError(
            f"{len(features):,} features of an item take {len(text):,} characters",
            f"Give at most {MOST_FEATURES} that take {LARGEST:,} in all, as JSON.",
        )
    return text


def features_of(text: str) -> dict[str, Any]:
    """Return the features that were written as JSON."""
    found: dict[str, Any] = from_json(text)
    return found


def _is_value(value: object) -> bool:
    if value is None:
        return True
    parts = _parts(value)
    texts = all(isinstance(part, str) for part in parts)
    return len(parts) <= LONGEST_VECTOR and (texts or all(map(is_finite, parts)))


def _parts(value: Any) -> Sequence[Any]:
    """Return the elements of a list, or the value itself as one."""
    return value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
