"""Search for the half-lives with which popularity best predicts clicks."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.data import SlateDataset
from slatewise.data.ragged import Int64Array, offsets_of, ranges
from slatewise.errors import SlatewiseError
from slatewise.features.linear_choice import LinearChoice
from slatewise.features.popularity import (
    FADING,
    HALF_LIVES,
    SECOND,
    Popularity,
    PopularityConfig,
)
from slatewise.features.popularity_index import PopularityIndex

Doubles = npt.NDArray[np.float64]

SHORTEST: Final = 0.25
"""Hours of the first half-life tried; each further one is twice as long."""
LONGEST: Final = 4_096.0
"""Hours, beyond which none is tried."""
NEAR: Final = 1.5
"""Half-lives within this factor of each other say the same."""
LONG: Final = (720.0, 2_160.0, 8_760.0)
"""A month, a season and a year, in hours: what they say beside shorter ones where logs are long."""
SLATES: Final = 10_000
"""Training slates looked at, at most."""


@dataclass(frozen=True)
class HalfLives:
    """The half-lives found, and what each one tried gained."""

    chosen: tuple[float, ...]
    """In hours, the best first"""
    gains: dict[float, float]
    """Half-life tried -> log-likelihood per slate beyond that without popularity"""


def usual_half_lives(hours: float) -> tuple[float, ...]:
    """Return half-lives for a log of this many hours, where no choices can be used to search them.

    In a log of years hardly anything is left of a click after 96 hours, when the next comes.
    """
    return *HALF_LIVES, *(long for long in LONG if long <= hours)


def hours_of(dataset: SlateDataset) -> float:
    """Return the hours from the first event of a log to its last, 0 where times are an order."""
    if not dataset.meta["clock_times"]:
        return 0.0
    return int(dataset.times.max() - dataset.times.min()) / SECOND / 3_600


def half_lives_of(dataset: SlateDataset) -> tuple[float, ...]:
    """Search the half-lives of popularity; add the usual ones that are far from those found.

    Where times are only an order, take the usual ones.
    """
    if not dataset.meta["clock_times"]:
        return HALF_LIVES
    found, hours = search_half_lives(dataset).chosen, hours_of(dataset)
    more = [
        usual
        for usual in HALF_LIVES
        if usual <= hours and all(max(usual / one, one / usual) > NEAR for one in found)
    ]
    return *found, *more


def search_half_lives(
    dataset: SlateDataset,
    settings: PopularityConfig | None = None,
    *,
    most: int = 2,
    seed: int = 0,
) -> HalfLives:
    """Find up to `most` half-lives by the likelihood of training clicks.

    All candidates are computed in one pass over the log. For each, click rate and clicks predict
    which item of a slate was clicked, in at most 10,000 slates drawn with the seed; where slates
    have one item, whether it was. The best stays, then the best beside it if the gain in likelihood
    exceeds the BIC penalty of two weights, and so on.
    """
    drawn, between_items = _drawn(dataset, seed)
    tried = _candidates(dataset, between_items)
    wide = (settings or PopularityConfig()).model_copy(update={"half_lives": tried})
    choices = _Choices.of(Popularity.fit(dataset, wide), dataset, drawn, between_items)
    price, value = np.log(len(drawn)), choices.log_likelihood([])
    chosen: list[int] = []
    gains: dict[float, float] = {}
    while len(chosen) < min(most, len(tried)):
        values = [choices.log_likelihood([*chosen, h]) for h in range(len(tried))]
        if not chosen:
            gains = {tried[h]: (v - value) / len(drawn) for h, v in enumerate(values)}
        best = int(np.argmax(values))
        if chosen and values[best] - value <= price:
            break
        chosen, value = [*chosen, best], values[best]
    return HalfLives(tuple(tried[h] for h in chosen), gains)


def _candidates(dataset: SlateDataset, between_items: bool) -> tuple[float, ...]:
    """Return half-lives from a quarter of an hour to the length of the log, each twice the last.

    Of single items from an hour on, each four times the last: the differences are smaller.
    """
    powers = np.arange(1 + max(0, np.floor(np.log2(max(hours_of(dataset), SHORTEST) / SHORTEST))))
    tried = SHORTEST * 2.0**powers
    tried = tried[tried <= LONGEST]
    return tuple((tried if between_items or len(tried) < 3 else tried[2::2]).tolist())


def _drawn(dataset: SlateDataset, seed: int) -> tuple[Int64Array, bool]:
    """Draw training interactions [M], ascending; say whether they are choices between items.

    Those with a click among two items or more, or any where no slate has as many.
    """
    step = np.arange(len(dataset.clicks)) - np.repeat(
        dataset.user_offsets[:-1], np.diff(dataset.user_offsets)
    )
    training = step < np.repeat(dataset.train_end, np.diff(dataset.user_offsets))
    if dataset.further_clicks is not None:
        training &= np.asarray(dataset.further_clicks) == 0
    choices = training & (dataset.clicks >= 0) & (np.diff(dataset.slate_offsets) > 1)
    between_items = bool(choices.any())
    found = np.flatnonzero(choices if between_items else training)
    if not len(found):
        raise SlatewiseError(
            f"{dataset.path}: there are no training interactions.",
            "Half-lives cannot be searched: give them.",
        )
    return np.sort(np.random.default_rng(seed).permutation(found)[:SLATES]), between_items


@dataclass(frozen=True)
class _Choices:
    features: Doubles
    """[F, H, 2] click rate and clicks"""
    offsets: Int64Array
    """[M + 1]"""
    clicks: npt.NDArray[np.integer]
    """[M] position, −1 for none"""
    sources: Doubles | None
    """[M, sources] 1 at the source of each, on which no click depends; None without that option"""

    @classmethod
    def of(
        cls, popularity: Popularity, dataset: SlateDataset, drawn: Int64Array, between_items: bool
    ) -> "_Choices":
        starts = dataset.slate_offsets[drawn]
        lengths = dataset.slate_offsets[drawn + 1] - starts
        out = PopularityIndex.for_one_question(popularity, dataset).features(
            dataset.slate_items[ranges(starts, lengths)], np.repeat(dataset.times[drawn], lengths)
        )
        offsets = offsets_of(lengths)
        features = out[:, :-1].astype(np.float64).reshape(len(out), -1, len(FADING))[:, :, :2]
        one = np.eye(len(dataset.source_names))[dataset.sources[drawn].astype(np.int64)]
        return cls(features, offsets, dataset.clicks[drawn], None if between_items else one)

    def log_likelihood(self, half_lives: list[int]) -> float:
        """Return the greatest log-likelihood with the features of some half-lives."""
        items = self.features[:, half_lives].reshape(len(self.features), -1)
        if self.sources is None:
            clicked = np.zeros(len(items))
            clicked[self.offsets[:-1] + self.clicks] = 1
            choice = LinearChoice(items, self.offsets, clicked)
        else:
            p, q = items.shape[1], self.sources.shape[1]
            choice = LinearChoice.with_no_click(
                self.offsets,
                self.clicks,
                np.pad(items, ((0, 0), (0, q))),
                np.pad(self.sources, ((0, 0), (p, 0))),
            )
        return choice.log_likelihood(choice.fit())
