"""The part of a log that a selection works with, split once more outside the test part.

Where times mean something, the latest interactions are judged: nothing that a trial model was
fitted on came after them, neither for item biases nor for anything else. Where times are only an
order within each user, some users are judged whom no trial model knows.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.data.split import SplitConfig, time_quantile
from slatewise.errors import SlatewiseError
from slatewise.selection.config import SelectionConfig
from slatewise.words import counted

Ends = npt.NDArray[np.int64]

_USERS: Final = 20_000
"""Most users whose times determine the cut: a log may be larger than memory."""


@dataclass(frozen=True)
class TrialSplits:
    """One log under two splits."""

    fitting: SlateDataset
    """its training part is fitted to, its validation part ends a fit"""
    judging: SlateDataset
    """its validation part, of other users, is what models are judged on"""
    by_time: bool
    """whether all that is judged is later than all that is fitted to"""

    @property
    def users(self) -> int:
        """The number of users fitted to."""
        return int((self.fitting.train_end > 0).sum())

    @property
    def judges(self) -> int:
        """The number of users judged on."""
        return int((self.judging.valid_end > self.judging.train_end).sum())

    @property
    def judged(self) -> int:
        """The number of interactions judged."""
        return int((self.judging.valid_end - self.judging.train_end).sum())


def trial_of(dataset: SlateDataset, config: SelectionConfig, seed: int) -> TrialSplits:
    """Draw the users of the fit, of its end and of judging, leaving test interactions alone."""
    rng = np.random.default_rng([seed, 6])
    end = np.minimum(dataset.valid_end, np.diff(dataset.user_offsets)).astype(np.int64)
    by_time = bool(dataset.meta["clock_times"]) or dataset.meta["split"]["method"] == "time"
    cut = _earlier(dataset, end, config, seed) if by_time else _other_users(end, config, rng)
    fitted = _within(config.interactions, cut, rng.permutation(np.flatnonzero(cut > 0)))
    train = np.zeros_like(end)
    train[fitted] = cut[fitted]
    # A user left out of the fit would be judged from the first interaction on, before the cut.
    able = rng.permutation(np.flatnonzero((end > cut) & (train == cut)))
    if len(able) < 2 or not len(fitted):
        raise SlatewiseError(
            f"{dataset.path}: {counted(len(able), 'user')} to judge on, too few to select terms.",
            "Bring a longer log, or name terms in the configuration instead of --auto.",
        )
    half = len(able) // 2
    ending = _within(config.ending, end - cut, able[:half])
    judging = _within(config.judged, end - cut, able[half:])
    return TrialSplits(
        dataset.with_ends(train, _until(train, end, ending)),
        dataset.with_ends(train, _until(train, end, judging)),
        by_time,
    )


def _within(most: int, counts: Ends, users: Int64Array) -> Int64Array:
    """Return as many of the users as have no more interactions together; one at least."""
    return users[: max(1, int(np.searchsorted(np.cumsum(counts[users]), most, side="right")))]


def _earlier(dataset: SlateDataset, end: Ends, config: SelectionConfig, seed: int) -> Ends:
    """Count each user's interactions before the moment from which on they are judged: [U]."""
    some = np.random.default_rng([seed, 7]).permutation(np.flatnonzero(end > 0))[:_USERS]
    users, ends = torch.from_numpy(some), torch.from_numpy(end[some])
    times = dataset.interactions().of_users(users, ends).times.numpy()
    moment = str(time_quantile(times, 1 - config.judged_share))
    cuts = dataset.split(SplitConfig(method="time", valid_from=moment, test_from=moment))
    return np.minimum(cuts.train_end, end)


def _other_users(end: Ends, config: SelectionConfig, rng: np.random.Generator) -> Ends:
    """Leave all of some users out of the fit: [U]."""
    drawn = rng.permutation(np.flatnonzero(end > 0))
    out = end.copy()
    out[drawn[: round(config.judged_share * len(drawn))]] = 0
    return out


def _until(train: Ends, end: Ends, users: Int64Array) -> Ends:
    """Return where validation ends if it is of these users alone: [U]."""
    out = train.copy()
    out[users] = end[users]
    return out
