"""Features of a window's items, as a model that was trained with features reads them.

An item's features are those that the service was told. Where it was told none they are what the
model itself was trained with: so the items of a first run keep theirs, night after night. Of all
others they are unknown. The encoder stays as it was in that run: a category that it does not know
is one of the others, or none.
"""

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import polars as pl
import torch

from slatewise.data.columns import Columns
from slatewise.features.item_features import ItemEncoder
from slatewise.features.item_values import encode_values
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.service.nights.material import Material
from slatewise.service.nights.window import DESCRIBED

_PAGE: Final = 5_000


class Description(NamedTuple):
    """Features of the items of a window."""

    features: ItemFeatures
    misfits: int
    """values of another kind than the model knows; they count as unknown"""


def describe(model: SlateModel, material: Material) -> Description | None:
    """Return the features of the dataset's items by the model's encoder; None if it has none."""
    encoder, own = model.item_encoder, model.posterior.item_features
    if encoder is None or own is None:
        return None
    places = {item: place for place, item in enumerate(material.dataset.item_ids.to_list())}
    matrix = np.repeat(encode_values(encoder, [{}])[0], len(places), axis=0)
    known = [(places[item], row) for row, item in enumerate(model.item_ids) if item in places]
    into, out_of = np.array(known, np.int64).reshape(-1, 2).T
    matrix[into] = own.numpy()[out_of]
    misfits = _fill(matrix, encoder, places, material)
    return Description(ItemFeatures(torch.from_numpy(matrix), encoder), misfits)


def _fill(
    matrix: npt.NDArray[np.float32],
    encoder: ItemEncoder,
    places: dict[int | str, int],
    material: Material,
) -> int:
    """Fill in what the service was told of; return how many values did not fit."""
    told = pl.read_parquet(material.window.described)
    told = told.filter(pl.col(Columns.ITEM).is_in(list(places)))
    misfits = 0
    for page in told.iter_slices(_PAGE):
        numbers = page[DESCRIBED].to_list()
        found = material.store.item_features(numbers)
        values = [found.get(number, {}) for number in numbers]
        rows = [places[item] for item in page[Columns.ITEM].to_list()]
        matrix[rows], wrong = encode_values(encoder, values)
        misfits += wrong
    return misfits
