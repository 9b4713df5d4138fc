"""What features say of items that came after training, read from the store when they are offered.

Of items that a model was trained with it knows more, and their features need not be read: of a
million items hardly any are, and none stay in memory.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slatewise.features.item_features import ItemEncoder
from slatewise.features.item_values import encode_values, refuse_misfits
from slatewise.service.store.features import Features
from slatewise.slates.predictive import Predictive, Said

Ints = npt.NDArray[np.int64]

_PAGE: Final = 5_000
_log = logging.getLogger(__name__)


class FeatureSource(Protocol):
    """What is asked of the store."""

    def item_features(self, numbers: Sequence[int]) -> Mapping[int, Features]:
        """Return the features that changes of items told, by the numbers of the changes."""


class Told(NamedTuple):
    """What features say, by the changes that told them: N of them."""

    numbers: Ints
    """[N] ascending, the first 0, which is for items without"""
    said: Said
    """[N, C]"""

    def of(self, numbers: Ints) -> Said:
        """Return what the features of changes [R] say: [R, C]."""
        rows = np.searchsorted(self.numbers, numbers)
        return Said(self.said.means[rows], self.said.variances[rows])


class Described:
    """Features of items, as one version of a model reads them that was trained with some."""

    def __init__(self, version: str, predictive: Predictive, encoder: ItemEncoder) -> None:
        self._version, self._predictive, self._encoder = version, predictive, encoder

    def read(self, store: FeatureSource, numbers: Ints) -> Told:
        """Read the features that changes [N] told."""
        wanted = np.unique(numbers[numbers > 0])
        parts = [self._predictive.unknown]
        for start in range(0, len(wanted), _PAGE):
            parts.append(self._page(store, wanted[start : start + _PAGE].tolist()))
        said = Said(*(np.concatenate(each) for each in zip(*parts, strict=True)))
        return Told(np.concatenate([np.zeros(1, np.int64), wanted]), said)

    def refuse_misfits(self, features: Features) -> None:
        """Refuse features that the model knows and that are of another kind."""
        refuse_misfits(self._encoder, features)

    def _page(self, store: FeatureSource, numbers: list[int]) -> Said:
        found = store.item_features(numbers)
        items = [found.get(number, {}) for number in numbers]
        encoded, misfits = encode_values(self._encoder, items)
        if misfits:
            _log.warning(
                "%s features of items are of another kind than in version %s of the model: "
                "they count as unknown.",
                f"{misfits:,}",
                self._version,
            )
        return self._predictive.says(encoded)
