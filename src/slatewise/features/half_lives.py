"""Search for the half-lives with which popularity best predicts clicks."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.data import SlateDataset
from slatewise.data.ragged import Int64Array, offsets_of
from slatewise.errors import SlatewiseError
from slatewise.features.linear_choice import LinearChoice
from slatewise.features.popularity import (
    FADING,
    SECOND,
    Popularity,
    PopularityConfig,
    Sums,
    stream,
)

Doubles = npt.NDArray[np.float64]

SHORTEST: Final = 0.25
"""Hours of the first half-life tried; each further one is twice as long."""
LONGEST: Final = 4_096.0
"""Hours, beyond which none is tried."""
SLATES: Final = 10_000
"""Clicked training slates looked at, at most."""


@dataclass(frozen=True)
class HalfLives:
    """The half-lives found, and what each one tried gained."""

    chosen: tuple[float, ...]
    """In hours, the best first"""
    gains: dict[float, float]
    """Half-life tried -> log-likelihood per clicked slate beyond that of a click at random"""


def search_half_lives(
    dataset: SlateDataset,
    settings: PopularityConfig | None = None,
    *,
    most: int = 2,
    seed: int = 0,
) -> HalfLives:
    """Find up to `most` half-lives by the likelihood of training clicks.

    All candidates are computed in one pass over the log. For each, click rate and clicks predict
    which item of a slate was clicked, in at most 10,000 slates drawn with the seed; the best stays,
    then the best beside it if the gain in likelihood exceeds the BIC penalty of two weights, and so
    on.
    """
    tried = _candidates(dataset)
    wide = (settings or PopularityConfig()).model_copy(update={"half_lives": tried})
    drawn = _clicked_slates(dataset, seed)
    fits = _Fits.of(Popularity.fit(dataset, wide), dataset, drawn)
    price, value = np.log(len(drawn)), fits.at_random
    chosen: list[int] = []
    gains: dict[float, float] = {}
    while len(chosen) < most:
        values = [fits.log_likelihood([*chosen, h]) for h in range(len(tried))]
        if not chosen:
            gains = {tried[h]: (v - value) / len(drawn) for h, v in enumerate(values)}
        best = int(np.argmax(values))
        if chosen and values[best] - value <= price:
            break
        chosen, value = [*chosen, best], values[best]
    return HalfLives(tuple(tried[h] for h in chosen), gains)


def _candidates(dataset: SlateDataset) -> tuple[float, ...]:
    """Return half-lives from a quarter of an hour to the length of the log, each twice the last."""
    hours = int(dataset.times.max() - dataset.times.min()) / SECOND / 3_600
    powers = np.arange(1 + max(0, np.floor(np.log2(max(hours, SHORTEST) / SHORTEST))))
    tried = SHORTEST * 2.0**powers
    return tuple(tried[tried <= LONGEST].tolist())


def _clicked_slates(dataset: SlateDataset, seed: int) -> Int64Array:
    """Draw training interactions with a click among two items or more: [M], ascending."""
    step = np.arange(len(dataset.clicks)) - np.repeat(
        dataset.user_offsets[:-1], np.diff(dataset.user_offsets)
    )
    training = step < np.repeat(dataset.train_end, np.diff(dataset.user_offsets))
    usable = training & (dataset.clicks >= 0) & (np.diff(dataset.slate_offsets) > 1)
    found = np.flatnonzero(usable)
    if not len(found):
        raise SlatewiseError(
            f"{dataset.path}: no training slate of two items or more has a click.",
            "Half-lives cannot be searched: give them.",
        )
    return np.sort(np.random.default_rng(seed).permutation(found)[:SLATES])


@dataclass(frozen=True)
class _Fits:
    features: Doubles
    """[F, H, 2] click rate and clicks"""
    offsets: Int64Array
    """[M + 1]"""
    clicked: Doubles
    """[F] 1 where the item was clicked"""

    @classmethod
    def of(cls, popularity: Popularity, dataset: SlateDataset, drawn: Int64Array) -> "_Fits":
        offsets = offsets_of(np.diff(dataset.slate_offsets)[drawn])
        rows = np.full(dataset.num_interactions, -1)
        rows[drawn] = offsets[:-1]
        out = np.empty((offsets[-1], len(popularity.names)), dtype=np.float32)
        sums = Sums.empty(dataset.num_items, popularity)
        stream(popularity, dataset.interactions(), sums, rows, out)
        features = out[:, :-1].astype(np.float64).reshape(len(out), -1, len(FADING))[:, :, :2]
        clicked = np.zeros(len(out))
        clicked[offsets[:-1] + dataset.clicks[drawn]] = 1
        return cls(features, offsets, clicked)

    @property
    def at_random(self) -> float:
        return -float(np.log(np.diff(self.offsets)).sum())

    def log_likelihood(self, half_lives: list[int]) -> float:
        features = self.features[:, half_lives].reshape(len(self.features), -1)
        choice = LinearChoice(features, self.offsets, self.clicked)
        return choice.log_likelihood(choice.fit())
