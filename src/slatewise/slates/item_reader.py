"""Features of items that came after training, for all parts of a model that read some.

The prior moves the vectors of items by them, and networks read columns and dates.

Shapes: R items.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl

from slatewise.errors import SlatewiseError
from slatewise.features.item_values import encode_values, refuse_misfits
from slatewise.model.fitted import SlateModel
from slatewise.model.terms.known import Facts
from slatewise.slates.additions import RankingTerms
from slatewise.slates.catalogue import NewRows
from slatewise.slates.predictive import FeaturePrediction, Predictive

Ints = npt.NDArray[np.int64]

Columns = pl.DataFrame | Mapping[str, Sequence[object]]
"""Values by column; None is unknown."""


class Descriptions(NamedTuple):
    """What features say of R items."""

    prediction: FeaturePrediction | None
    """of their vectors; None for a model that was trained without features"""
    facts: Mapping[str, Facts]
    """what terms read of them, by the names of the terms"""

    def of(self, rows: npt.NDArray[np.integer[Any]]) -> "Descriptions":
        """Return what they say of some of the items."""
        prediction = None if self.prediction is None else self.prediction.of(rows)
        facts = {
            name: {key: values[rows] for key, values in own.items()}
            for name, own in self.facts.items()
        }
        return Descriptions(prediction, facts)


def joined(parts: Sequence[Descriptions]) -> Descriptions:
    """Return what was said of items in parts, one after the other."""
    first = parts[0]
    prediction = None
    if first.prediction is not None:
        predictions = [part.prediction for part in parts if part.prediction is not None]
        prediction = FeaturePrediction(*map(np.concatenate, zip(*predictions, strict=True)))
    facts = {
        name: {key: np.concatenate([part.facts[name][key] for part in parts]) for key in own}
        for name, own in first.facts.items()
    }
    return Descriptions(prediction, facts)


class ItemReader:
    """Reads features of new items, and says what a model believes of these."""

    def __init__(self, model: SlateModel, terms: RankingTerms) -> None:
        self._predictive, self._terms = Predictive(model), terms
        self.unknown = self.read([{}])[0]
        """of an item without features: R = 1"""

    @property
    def columns(self) -> list[str]:
        """The columns that are read."""
        encoder = self._predictive.encoder
        own = [] if encoder is None else [column.name for column in encoder.columns]
        return list(dict.fromkeys([*own, *self._terms.reads_items]))

    def read(self, items: Sequence[Mapping[str, object]]) -> tuple[Descriptions, int]:
        """Read features of items [R], and count the values that do not fit: they are unknown."""
        encoder, prediction, misfits = self._predictive.encoder, None, 0
        if encoder is not None:
            encoded, misfits = encode_values(encoder, items)
            prediction = self._predictive.from_features(encoded)
        facts, wrong = self._terms.facts_of(items)
        return Descriptions(prediction, facts), misfits + wrong

    def read_columns(self, columns: Columns, count: int) -> Descriptions:
        """Read the columns of `count` items: all that the model reads and no others.

        What is missing, strange or far out is refused with its column and row.
        """
        if not self.columns:
            raise SlatewiseError(
                "the model was trained without features of items.",
                "Leave them out, or train with --item-features, or a network on such columns.",
            )
        table = _table(columns)
        _require_same(table.columns, self.columns)
        if table.height != count:
            raise SlatewiseError(
                f"{count:,} items have {table.height:,} rows of features.",
                "Give each item one row.",
            )
        rows = table.rows(named=True)
        for number, row in enumerate(rows, start=1):
            self.refuse_misfits(row, row=number)
        return self.read(rows)[0]

    def refuse_misfits(self, values: Mapping[str, object], *, row: int | None = None) -> None:
        """Refuse features of an item that are read, and of another kind than in training."""
        if self._predictive.encoder is not None:
            refuse_misfits(self._predictive.encoder, values, row=row)
        self._terms.refuse_misfits(values, row=row)

    def __call__(self, groups: Ints, described: Descriptions | None = None) -> NewRows:
        """Return means and scales of new items of groups [R], which terms know from here on."""
        self._terms.add_items(groups, {} if described is None else described.facts)
        return self._predictive(groups, None if described is None else described.prediction)


def _require_same(given: Sequence[str], wanted: Sequence[str]) -> None:
    remedy = f"Give {', '.join(wanted)}, with None where a value is unknown."
    for name in given:
        if name not in wanted:
            raise SlatewiseError(f"the model knows no feature '{name}' of items.", remedy)
    for name in wanted:
        if name not in given:
            raise SlatewiseError(f"the feature '{name}' of the items is not given.", remedy)


def _table(columns: Columns) -> pl.DataFrame:
    try:
        return pl.DataFrame(columns)
    except (pl.exceptions.PolarsError, TypeError, ValueError) as error:
        raise SlatewiseError(
            f"the features of the items are no columns: {error}",
            "Give a list of equal length for each feature, of one kind, None where unknown.",
        ) from error
