"""What training may see, and what it is judged on.

Each user's interactions are cut twice: [0, train_end) is for training, [train_end, valid_end) for
validation and the rest for test. The paper's split by user and a split by wall-clock time are two
ways to choose the cuts.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from slatewise.config import Config
from slatewise.data.keys import Keys, mix
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError

_CHUNK = 1 << 22
_BINS = 1 << 16


class SplitConfig(Config):
    """How the dataset is split."""

    method: Literal["user", "time"] = "user"
    """By user, as in Section 5 of the paper, or by wall-clock time."""
    valid_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of users, or of the latest interactions, for validation."""
    test_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of users, or of the latest interactions, for test."""
    prefix: int = Field(default=5, ge=0)
    """First interactions of validation and test users that training sees (by user)."""
    seed: int = 0
    """Which users are drawn (by user)."""
    valid_from: str | None = None
    """Start of validation, instead of its share: an ISO time or an integer (by time)."""
    test_from: str | None = None
    """Start of test, instead of its share (by time)."""

    @model_validator(mode="after")
    def _leave_training(self) -> Self:
        if self.valid_share + self.test_share >= 1:
            raise ValueError("validation and test leave nothing for training")
        if (self.valid_from is None) != (self.test_from is None):
            raise ValueError("give both valid_from and test_from, or neither")
        if self.valid_from is not None and self.method != "time":
            raise ValueError("valid_from and test_from belong to the split by time")
        return self

    def require_clock(self, clock_times: bool) -> None:
        """Refuse a date where the log's times are only an order."""
        for moment in (self.valid_from, self.test_from):
            if moment is not None and not clock_times and not moment.lstrip("-").isdigit():
                raise SlatewiseError(
                    f"the log's times are integers without a unit: '{moment}' cannot be found.",
                    "Give the integer, or the unit of the times with --time-unit.",
                )


@dataclass(frozen=True)
class Split:
    """Where each user's interactions are cut: two arrays of shape [U]."""

    train_end: npt.NDArray[np.int32]
    valid_end: npt.NDArray[np.int32]


def split(config: SplitConfig, keys: Keys, times: Int64Array, offsets: Int64Array) -> Split:
    """Cut every user's interactions: keys [U], times [N], offsets [U + 1]."""
    if config.method == "time":
        return split_by_time(config, times, offsets)
    return split_by_user(config, keys, np.diff(offsets))


def split_by_user(config: SplitConfig, keys: Keys, lengths: Int64Array) -> Split:
    """Give validation and test their share of users, drawn by key (Section 5 of the paper).

    A user's place in the draw depends on her own key and the seed alone, so most users keep their
    role when a later log brings new ones.
    """
    users = len(keys)
    tested = int(np.ceil(config.test_share * users))
    validated = int(np.ceil(config.valid_share * users))
    drawn = np.argsort(mix(mix(keys, salt=config.seed)), kind="stable")
    test, valid = drawn[:tested], drawn[tested : tested + validated]
    train_end = lengths.astype(np.int32)
    valid_end = train_end.copy()
    train_end[valid] = np.minimum(lengths[valid], config.prefix)
    train_end[test] = valid_end[test] = np.minimum(lengths[test], config.prefix)
    return Split(train_end, valid_end)


def split_by_time(config: SplitConfig, times: Int64Array, offsets: Int64Array) -> Split:
    """Cut all users at the same two moments."""
    if config.valid_from is not None and config.test_from is not None:
        valid_from, test_from = _moment(config.valid_from), _moment(config.test_from)
        if valid_from > test_from:
            raise SlatewiseError(
                "validation starts after test.", "Let --valid-from be before --test-from."
            )
    else:
        valid_from = time_quantile(times, 1 - config.valid_share - config.test_share)
        test_from = time_quantile(times, 1 - config.test_share)
    return Split(
        _count_before(times, offsets, valid_from), _count_before(times, offsets, test_from)
    )


def time_quantile(times: Int64Array, share: float) -> int:
    """Return a moment before which about `share` of the times lie, in bounded memory.

    Exact to one part in 65,536 of the time range.
    """
    chunks = [slice(start, start + _CHUNK) for start in range(0, len(times), _CHUNK)]
    first = min(int(times[c].min()) for c in chunks)
    last = max(int(times[c].max()) for c in chunks)
    width = (last - first) // _BINS + 1
    counts = np.zeros(_BINS, dtype=np.int64)
    for chunk in chunks:
        counts += np.bincount((times[chunk] - first) // width, minlength=_BINS)
    bin_end = int(np.searchsorted(np.cumsum(counts), share * len(times))) + 1
    return first + bin_end * width


def _count_before(times: Int64Array, offsets: Int64Array, moment: int) -> npt.NDArray[np.int32]:
    """Count each user's interactions before a moment: a prefix, as times are sorted per user."""
    running = np.zeros(len(offsets), dtype=np.int64)
    total = 0
    for start in range(0, len(times), _CHUNK):
        stop = min(start + _CHUNK, len(times))
        before = np.concatenate([[0], np.cumsum(times[start:stop] < moment)])
        here = slice(
            np.searchsorted(offsets, start, "right"), np.searchsorted(offsets, stop, "right")
        )
        running[here] = total + before[offsets[here] - start]
        total += int(before[-1])
    return np.diff(running).astype(np.int32)


def _moment(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise SlatewiseError(
            f"'{text}' is not a time.", "Write it as 2024-05-17T12:30:00, or as an integer."
        ) from error
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000)
