"""The split of a window: what a model learns from, ends training by and is judged on.

The newest day judges. Of what came before, one user in ten says when training ends, and the others
are learned from. They are drawn by stable keys, so that hardly any user who ends a fit tonight was
learned from last night. The model that is promoted then learns from the newest day too, and the
same users end its training.
"""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from slatewise.data.dataset import SlateDataset
from slatewise.data.split import SplitConfig, time_quantile
from slatewise.service.store.clock import DAY

ENDING: Final = 0.1
"""Share of users by whom training ends."""
MOST_OF_THE_WINDOW: Final = 0.25
"""Share of the interactions that judge, at most: a young log is not all newest day."""
LEAST_JUDGED: Final = 50
"""Interactions that judge, at least: where the newest day has fewer, days before it judge too."""
MOST_JUDGED: Final = 200_000
"""Interactions that judge, at most, of whole users; their predictions are held in memory."""

_Ends = npt.NDArray[np.integer[Any]]


@dataclass(frozen=True)
class WindowSplit:
    """One window under three splits."""

    learning: SlateDataset
    """training and validation know nothing of the newest day, which is its test part"""
    judging: SlateDataset
    """the test part is the newest day of those who judge"""
    everything: SlateDataset
    """without a test part: the newest day is learned from as well"""
    judged_from: int
    """microseconds since 1970"""

    @property
    def judged(self) -> int:
        """The number of interactions that judge."""
        return int((np.diff(self.judging.user_offsets) - self.judging.valid_end).sum())

    @property
    def judges(self) -> int:
        """The number of users who judge."""
        return int((np.diff(self.judging.user_offsets) > self.judging.valid_end).sum())

    @property
    def learned(self) -> int:
        """The number of interactions that the judged model is fitted to."""
        return int(self.learning.train_end.sum())

    @property
    def ending(self) -> int:
        """The number of interactions that end its training."""
        return int((self.learning.valid_end - self.learning.train_end).sum())


def split_window(
    dataset: SlateDataset, end: int, learned_until: int | None, seed: int
) -> WindowSplit:
    """Split a window that ends at `end`; nothing judges that the served model has learned from."""
    judged_from = _judged_from(dataset, end, learned_until)
    moment = str(judged_from)
    before = dataset.split(SplitConfig(method="time", valid_from=moment, test_from=moment))
    roles = dataset.split(SplitConfig(valid_share=ENDING, test_share=0, prefix=0))
    lengths = np.diff(dataset.user_offsets)
    cut = before.train_end.astype(np.int64)
    train = np.minimum(roles.train_end, cut)
    judges = _draw_judges(lengths - cut, seed)
    return WindowSplit(
        dataset.with_ends(train, cut),
        dataset.with_ends(train, np.where(judges, cut, lengths)),
        dataset.with_ends(roles.train_end, lengths),
        judged_from,
    )


def _judged_from(dataset: SlateDataset, end: int, learned_until: int | None) -> int:
    few = LEAST_JUDGED / dataset.num_interactions
    young = time_quantile(dataset.times, 1 - MOST_OF_THE_WINDOW)
    recent = end - DAY
    if few < MOST_OF_THE_WINDOW:
        recent = min(recent, time_quantile(dataset.times, 1 - few))
    return max(recent, young, recent if learned_until is None else learned_until)


def _draw_judges(counts: _Ends, seed: int) -> npt.NDArray[np.bool_]:
    """Draw users who have no more interactions [U] together than may judge: [U]."""
    order = np.random.default_rng([seed, 8]).permutation(len(counts))
    drawn = np.zeros(len(counts), np.bool_)
    drawn[order[np.cumsum(counts[order]) <= MOST_JUDGED]] = True
    return drawn
