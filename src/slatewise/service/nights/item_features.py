"""Features of a window's items, as a model that was trained with features reads them.

An item's features are those that the shop gave to the service. Without any, they are what the model
itself was trained with, so the items of a first run keep theirs night after night. For all other
items they are unknown. The encoder stays as it was in that run: a category that it does not know
counts as `other` if it has that, else as unknown.
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
from slatewise.service.nights.window import DESCRIBED, NightData

_PAGE: Final = 5_000


class WindowFeatures(NamedTuple):
    """Features of the items of a window."""

    features: ItemFeatures
    misfits: int
    """values of another kind than the model knows; they count as unknown"""


def window_features(model: SlateModel, data: NightData) -> WindowFeatures | None:
    """Return the features of the dataset's items by the model's encoder; None if it has none."""
    encoder, own = model.item_encoder, model.posterior.item_features
    if encoder is None or own is None:
        return None
    index = {item: number for number, item in enumerate(data.dataset.item_ids.to_list())}
    matrix = np.repeat(encode_values(encoder, [{}])[0], len(index), axis=0)
    shared = [(index[item], row) for row, item in enumerate(model.item_ids) if item in index]
    into, out_of = np.array(shared, np.int64).reshape(-1, 2).T
    matrix[into] = own.numpy()[out_of]
    misfits = _fill(matrix, encoder, index, data)
    return WindowFeatures(ItemFeatures(torch.from_numpy(matrix), encoder), misfits)


def _fill(
    matrix: npt.NDArray[np.float32],
    encoder: ItemEncoder,
    index: dict[int | str, int],
    data: NightData,
) -> int:
    """Fill in what the shop gave; return how many values did not fit."""
    given = pl.read_parquet(data.window.described)
    given = given.filter(pl.col(Columns.ITEM).is_in(list(index)))
    misfits = 0
    for page in given.iter_slices(_PAGE):
        numbers = page[DESCRIBED].to_list()
        found = data.store.item_features(numbers)
        values = [found.get(number, {}) for number in numbers]
        rows = [index[item] for item in page[Columns.ITEM].to_list()]
        matrix[rows], wrong = encode_values(encoder, values)
        misfits += wrong
    return misfits
