"""Features of a window's items: those that the shop gave, else those that the model was fitted to.

So the items of a first run keep theirs night after night; of all others they are unknown. They
serve in three ways. The features of the prior (`--item-features`) are encoded as in the run that
first had them: a category that it does not know counts as `other` if it has that, else as unknown.
What a network knows of items is that of the version that is judged. And the columns themselves are
those of the window's dataset, from which tonight's networks learn, new columns and categories too.

Shapes: J items of the window, R that the shop described.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import polars as pl
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.features.item_values import encode_values
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.model.terms.known import NOBODY, Facts
from slatewise.service.nights.window import NightData, read_features
from slatewise.service.store.feature_columns import feature_columns
from slatewise.service.store.features import Features


@dataclass(frozen=True)
class WindowFeatures:
    """Features of the items of a window, as a version of a model reads them."""

    prior: ItemFeatures | None = None
    """those that predict vectors, where the model was trained with any"""
    described: Int64Array = field(default_factory=lambda: NOBODY)
    """[R] the items that the shop described"""
    facts: Mapping[str, Facts] | None = None
    """what terms read of these, by their names"""
    misfits: int = 0
    """values of another kind than the model knows; they count as unknown"""


NO_FEATURES: Final = WindowFeatures()


def window_features(model: SlateModel, data: NightData) -> WindowFeatures:
    """Return what a model reads of the items of a window."""
    index = {item: number for number, item in enumerate(data.dataset.item_ids.to_list())}
    prior, misfits = _prior(model, index), 0
    described, facts = [NOBODY], dict[str, list[Facts]]()
    for rows, values in _given(data, index):
        described.append(rows)
        if prior is not None:
            encoded, wrong = encode_values(prior.encoder, values)
            prior.matrix[torch.from_numpy(rows)] = torch.from_numpy(encoded)
            misfits += wrong
        for name, term in model.terms.by_name.items():
            found, wrong = term.facts_of(values)
            facts.setdefault(name, []).append(found)
            misfits += wrong
    joined = {
        name: {key: np.concatenate([part[key] for part in parts]) for key in parts[0]}
        for name, parts in facts.items()
    }
    return WindowFeatures(prior, np.concatenate(described), joined, misfits)


def _prior(model: SlateModel, index: Mapping[int | str, int]) -> ItemFeatures | None:
    """Return the features that the model itself has of the items, unknown ones of others."""
    encoder, own = model.item_encoder, model.posterior.item_features
    if encoder is None or own is None:
        return None
    matrix = np.repeat(encode_values(encoder, [{}])[0], len(index), axis=0)
    shared = [(index[item], row) for row, item in enumerate(model.item_ids) if item in index]
    into, out_of = np.array(shared, np.int64).reshape(-1, 2).T
    matrix[into] = own.numpy()[out_of]
    return ItemFeatures(torch.from_numpy(matrix), encoder)


def described_dataset(model: SlateModel | None, data: NightData) -> SlateDataset:
    """Return the window's dataset with all columns of items that are known.

    Those that the shop gave, and of items that it did not describe those of the model's networks.
    """
    dataset = data.dataset
    ids = dataset.item_ids.to_list()
    columns = {} if model is None else _of_networks(model, ids)
    index = {item: number for number, item in enumerate(ids)}
    pages = list(_given(data, index))
    described = np.concatenate([NOBODY, *(rows for rows, _ in pages)])
    places = np.arange(len(ids))
    places[described] = len(ids) + np.arange(len(described))
    for told in feature_columns([values for _, values in pages], columns):
        if told.name not in columns:
            columns[told.name] = pl.Series(told.name, [None], told.dtype).new_from_index(
                0, len(ids)
            )
        columns[told.name] = columns[told.name].append(told).gather(places)
    return dataset.with_items([columns[name] for name in sorted(columns)])


def _given(
    data: NightData, index: Mapping[int | str, int]
) -> Iterator[tuple[Int64Array, list[Features]]]:
    """Read page by page which items the shop described, and their features."""
    for items, features in read_features(data.window):
        known = [number for number, item in enumerate(items) if item in index]
        rows = [index[items[number]] for number in known]
        yield np.array(rows, np.int64), [features[number] for number in known]


def _of_networks(model: SlateModel, ids: Sequence[int | str]) -> dict[str, pl.Series]:
    """Return what the networks of a model know of items [J]: a column each."""
    index = {item: number for number, item in enumerate(model.item_ids)}
    rows = pl.Series([index.get(item) for item in ids], dtype=pl.UInt32)
    found: dict[str, pl.Series] = {}
    for term in model.terms.by_name.values():
        if (known := term.columns_read) is not None:
            found |= {name: known[name].gather(rows) for name in known.columns if name not in found}
    return found
