"""What was known before a slate was shown: one table for its items, and one for the slate.

The items have their popularity, and what passed before between the user and the item or its group;
a slate has what its user did so far, its length, source and hour. Training, evaluation and serving
ask the same function, so that a network, or any other learner, sees the same numbers everywhere.

Other users' events are known from the next tick of popularity on. Of the user's own, what comes
before a slate in the log is its past, also at an equal time: many logs know no more than the day.

Shapes: N interactions, F items seen, I items, P features of an item seen, Q of an interaction.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.config import Config
from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.features.popularity import AGE, SECOND, Popularity, PopularityConfig
from slatewise.features.popularity_index import PopularityIndex
from slatewise.features.showings import showing_starts, training_counts

Floats = npt.NDArray[np.float32]
Popular = Callable[[Interactions], Tensor]
"""Returns the popularity of every item seen, at its time: [F, 4 H + 1]."""

HALF_LIVES: Final = (0.5, 2.0, 6.0, 24.0, 96.0, 1_000.0)
"""Hours over which popularity fades; the last is as good as never."""
OWN: Final = (
    "clicked_before",
    "shown_before",
    "slates_since_shown",
    "minutes_since_shown",
    "slates_since_clicked",
    "minutes_since_clicked",
    "clicked_last",
    "group_clicked",
    "group_shown",
    "group_rate",
    "slates_since_group_clicked",
    "group_clicked_last",
)
"""What passed between a user and an item or its group."""
USER: Final = (
    "slates",
    "clicks",
    "click_rate",
    "lately_2",
    "lately_5",
    "lately_20",
    "slates_since_click",
    "minutes_since_slate",
    "minutes_since_click",
    "session",
    "slate_length",
)
"""What a user did before, and how long the slate is."""
_DAY: Final = 24 * 3_600 * SECOND


class PastTable(NamedTuple):
    """The features of interactions."""

    items: Tensor
    """[F, P] float32, of each item seen"""
    slates: Tensor
    """[N, Q] float32, of each interaction"""


class PastFeatures(Config):
    """What the features are computed with; saved as it is."""

    popularity: Popularity | None
    """None where times are only an order: then nothing is counted in hours"""
    rates: tuple[float, ...]
    """training clicks per interaction, by source"""
    rate: float
    """the same over all sources"""

    @classmethod
    def fit(cls, dataset: SlateDataset) -> "PastFeatures":
        """Count click rates in the training part."""
        counts = training_counts(dataset)
        rates = (counts[:, 1] + 0.5) / (counts[:, 0] + 1)
        popularity = None
        if dataset.meta["clock_times"]:
            popularity = Popularity.fit(dataset, PopularityConfig(half_lives=HALF_LIVES))
        rate = (counts[:, 1].sum() + 0.5) / (counts[:, 0].sum() + 1)
        return cls(popularity=popularity, rates=tuple(rates.tolist()), rate=float(rate))

    @property
    def item_names(self) -> tuple[str, ...]:
        """The P columns of items."""
        own = tuple(name for name in OWN if self._is_known(name))
        return own if self.popularity is None else (*self.popularity.names, *own)

    @property
    def slate_names(self) -> tuple[str, ...]:
        """The Q columns of slates."""
        user = [name for name in USER if self._is_known(name)]
        sources = [f"source_{number}" for number in range(len(self.rates))]
        hours = [] if self.popularity is None else ["hour_sine", "hour_cosine"]
        return *user, *sources, *hours

    def _is_known(self, name: str) -> bool:
        return self.popularity is not None or not ("minutes" in name or name == "session")

    def first_seen(self, table: PastTable) -> Tensor:
        """Return log(1 + hours since each item was first seen), up to four weeks: [F].

        NaN for an item that nobody has seen, which its views tell.
        """
        names = self.item_names
        views = table.items[:, names.index(f"views_{HALF_LIVES[-1]:g}h")]
        return table.items[:, names.index(AGE)].masked_fill(views == 0, torch.nan)

    def in_log(
        self, dataset: SlateDataset, item_groups: npt.NDArray[np.integer] | None = None
    ) -> Callable[[Interactions], PastTable]:
        """Return what computes the features of any users of a log, from all that it holds.

        `item_groups` [I] are those that a model knows its items by, where the log has others.
        """
        popular = None
        if self.popularity is not None:
            popular = PopularityIndex.of(self.popularity, dataset).cells
        groups = dataset.item_groups if item_groups is None else item_groups
        return lambda interactions: self.table(interactions, groups, popular)

    def table(
        self,
        interactions: Interactions,
        item_groups: npt.NDArray[np.integer],
        popular: Popular | None = None,
    ) -> PastTable:
        """Return the features of interactions, which must begin where their users began.

        Args:
            interactions: of any users.
            item_groups: [I] the group of each item.
            popular: looks up popularity; needed where the log has clock times.
        """
        known = None
        if self.popularity is not None:
            if popular is None:
                raise ValueError("popularity is a part of these features: give what looks it up")
            known = popular(interactions).cpu().numpy()
        sources, times = interactions.sources.cpu().numpy(), interactions.times.cpu().numpy()
        return self._assembled(*self._own(interactions, item_groups), sources, times, known)

    def of_last(
        self,
        interactions: Interactions,
        kinds: Int64Array,
        num_kinds: int,
        popular: Floats | None = None,
    ) -> PastTable:
        """Return what `table` has for the last of one user's interactions, the others being past.

        The past is counted, not described: what a ranking asks of a long one takes a fraction.

        Args:
            interactions: of one user, from her first on.
            kinds: [F] the group of each item seen.
            num_kinds: how many groups there are.
            popular: [K, 4 H + 1] popularity of the K items of the last; needed as in `table`.
        """
        from slatewise.features import _past_numba  # noqa: PLC0415 (numba takes time to load)

        items = interactions.slate_items.numpy().astype(np.int64)
        offsets, sources = interactions.slate_offsets.numpy(), interactions.sources.numpy()
        found = np.unique(items[offsets[-2] :])
        pairs = np.searchsorted(found, items)
        asked = pairs < len(found)
        asked[asked] = found[pairs[asked]] == items[asked]
        pairs[~asked] = len(found)  # the others share a number
        cells = np.empty((offsets[-1] - offsets[-2], len(OWN)), np.float32)
        step, times = np.empty((1, len(USER)), np.float32), interactions.times.numpy()
        bad = _past_numba.past_of_last(
            *(times, sources, interactions.clicks.numpy(), showing_starts(interactions).numpy()),
            *(offsets, pairs, kinds, (len(found) + 1, num_kinds)),
            *(np.array(self.rates), self.rate, cells, step[0]),
        )
        _refuse_bad(bad)
        return self._assembled(cells, step, sources[-1:], times[-1:], popular)

    def _assembled(
        self,
        own: Floats,
        user: Floats,
        sources: npt.NDArray[np.integer],
        times: Int64Array,
        popular: Floats | None,
    ) -> PastTable:
        """Put the columns of items [F] and slates [N] side by side."""
        cells = [own[:, [self._is_known(name) for name in OWN]]]
        steps = [user[:, [self._is_known(name) for name in USER]]]
        steps.append(np.eye(len(self.rates), dtype=np.float32)[sources])
        if self.popularity is not None and popular is not None:
            cells.insert(0, popular)
            angle = (times % _DAY) * (2 * np.pi / _DAY)
            steps.append(np.stack([np.sin(angle), np.cos(angle)], 1).astype(np.float32))
        return PastTable(
            torch.from_numpy(np.concatenate(cells, 1)), torch.from_numpy(np.concatenate(steps, 1))
        )

    def _own(
        self, interactions: Interactions, item_groups: npt.NDArray[np.integer]
    ) -> tuple[Floats, Floats]:
        from slatewise.features import _past_numba  # noqa: PLC0415 (numba takes time to load)

        items = interactions.slate_items.cpu().numpy().astype(np.int64)
        offsets = interactions.slate_offsets.cpu().numpy()
        user_offsets = interactions.user_offsets.cpu().numpy()
        lengths = np.diff(offsets[user_offsets])
        users = np.repeat(np.arange(len(lengths)), lengths)  # [F]
        pairs, pair_count = _numbered(users, items)
        kinds, kind_count = _numbered(users, item_groups[items].astype(np.int64))
        cells = np.empty((len(items), len(OWN)), np.float32)
        steps = np.empty((len(interactions.clicks), len(USER)), np.float32)
        bad = _past_numba.past(
            user_offsets,
            interactions.times.cpu().numpy(),
            interactions.sources.cpu().numpy(),
            interactions.clicks.cpu().numpy(),
            showing_starts(interactions).numpy(),
            offsets,
            pairs,
            kinds,
            (pair_count, kind_count),
            np.array(self.rates),
            self.rate,
            cells,
            steps,
        )
        _refuse_bad(bad)
        return cells, steps


def _refuse_bad(bad: int) -> None:
    """Refuse interactions of which one is bad, −1 for none."""
    if bad >= 0:
        raise ValueError(f"interaction {bad} has an unknown source or a click outside its slate")


def _numbered(users: Int64Array, things: Int64Array) -> tuple[Int64Array, int]:
    """Number the pairs of user and thing: [F], and how many there are."""
    keys = users * (int(things.max(initial=0)) + 1) + things
    found, numbers = np.unique(keys, return_inverse=True)
    return numbers.astype(np.int64, copy=False), len(found)
