"""What features say of items that came after training, read from the store when they are offered.

Of items that a model was trained with it knows more, and their features need not be read: of a
million items hardly any are, and none stay in memory.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from slatewise.service.store.features import Features
from slatewise.slates.catalogue import Predict
from slatewise.slates.item_reader import Descriptions, ItemReader, joined

Ints = npt.NDArray[np.int64]

_PAGE: Final = 5_000
_log = logging.getLogger(__name__)


class FeatureSource(Protocol):
    """What is asked of the store."""

    def item_features(self, numbers: Sequence[int]) -> Mapping[int, Features]:
        """Return the features that changes of items brought, by the numbers of the changes."""


class FeatureReader:
    """Reads features of items for one version of a model."""

    def __init__(self, version: str, reader: ItemReader) -> None:
        self._version, self._reader = version, reader

    def read(self, store: FeatureSource, numbers: Ints) -> Predict:
        """Read the features of changes [N]; return what says it by their numbers, 0 for none."""
        wanted = np.unique(numbers[numbers > 0])
        parts = [self._reader.unknown]
        for start in range(0, len(wanted), _PAGE):
            parts.append(self._page(store, wanted[start : start + _PAGE].tolist()))
        described = joined(parts)
        known = np.concatenate([np.zeros(1, np.int64), wanted])
        return lambda asked: described.of(np.searchsorted(known, asked))

    def refuse_misfits(self, features: Features) -> None:
        """Refuse features that the model reads and that are of another kind."""
        self._reader.refuse_misfits(features)

    def _page(self, store: FeatureSource, numbers: list[int]) -> Descriptions:
        found = store.item_features(numbers)
        described, misfits = self._reader.read([found.get(number, {}) for number in numbers])
        if misfits:
            _log.warning(
                "%s features of items are of another kind than in version %s of the model: "
                "they count as unknown.",
                f"{misfits:,}",
                self._version,
            )
        return described
