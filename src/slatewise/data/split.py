"""The split into training, validation and test.

Each user's interactions are cut twice: [0, train_end) is for training, [train_end, valid_end) for
validation and the rest for test. The paper's split by user and a split by wall-clock time are two
ways to choose the cuts.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import Field, model_validator

from slatewise.config import Config
from slatewise.data.keys import Keys, mix
from slatewise.data.ragged import Int64Array, pieces
from slatewise.errors import SlatewiseError

_BINS = 1 << 16
_PREFIX: Final = 5
"""First interactions of held-out users that training sees, as in the paper."""
_FEW: Final = 600
"""Interactions held out below which training and judging depend on a few users."""
_MICROSECONDS: Final = {"s": 1e6, "ms": 1e3, "us": 1, "ns": 1e-3}


class SplitConfig(Config):
    """How the dataset is split."""

    method: Literal["user", "time", "column", "file"] = "user"
    """By user, as in Section 5 of the paper, by wall-clock time, as a column of the log says, or as
    a file of users and times says."""
    valid_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of users, or of the latest interactions, for validation."""
    test_share: float = Field(default=0.05, ge=0, lt=1)
    """Share of users, or of the latest interactions, for test."""
    prefix: int | None = Field(default=None, ge=0)
    """First interactions of validation and test users that training sees (by user); without it 5,
    or 0 where users are so short that 5 leave less than half of theirs, and fewer than 600."""
    seed: int = 0
    """Which users are drawn (by user)."""
    valid_from: str | None = None
    """Start of validation, instead of its share: an ISO time or an integer (by time)."""
    test_from: str | None = None
    """Start of test, instead of its share (by time)."""
    file: str | None = None
    """Table of `user_id`, `valid_from` and `test_from` (by file)."""

    @model_validator(mode="after")
    def _leave_training(self) -> Self:
        if self.valid_share + self.test_share >= 1:
            raise ValueError("validation and test leave nothing for training")
        if (self.valid_from is None) != (self.test_from is None):
            raise ValueError("give both valid_from and test_from, or neither")
        if self.valid_from is not None and self.method != "time":
            raise ValueError("valid_from and test_from belong to the split by time")
        if (self.file is not None) != (self.method == "file"):
            raise ValueError("a file belongs to the split by file, and that needs one")
        return self

    @property
    def is_brought(self) -> bool:
        """Whether the log or a file says what is held out."""
        return self.method in ("column", "file")

    def in_unit(self, unit: str | None, *, clock_times: bool) -> "SplitConfig":
        """Return the same with integers, written in the unit of the log's times, as ISO times.

        A date is refused where the log's times are only an order.
        """
        for moment in (self.valid_from, self.test_from):
            if moment is not None and not clock_times and not _is_integer(moment):
                raise SlatewiseError(
                    f"the log's times are integers without a unit: '{moment}' cannot be found.",
                    "Give the integer, or the unit of the times with --time-unit.",
                )
        if unit not in _MICROSECONDS:
            return self
        changes = {
            name: _iso(int(moment), unit)
            for name in ("valid_from", "test_from")
            if (moment := getattr(self, name)) is not None and _is_integer(moment)
        }
        return self.model_copy(update=changes)


def _is_integer(moment: str) -> bool:
    return moment.strip().removeprefix("-").isdigit()


def _iso(moment: int, unit: str) -> str:
    """Write an integer in a unit since 1970 as an ISO time."""
    try:
        since = timedelta(microseconds=round(moment * _MICROSECONDS[unit]))
        return (datetime(1970, 1, 1, tzinfo=UTC) + since).isoformat()
    except OverflowError as error:
        raise SlatewiseError(
            f"'{moment}' is no time in the unit of the log's times, '{unit}'.",
            "Write it as the log does, or as 2024-05-17T12:30:00.",
        ) from error


@dataclass(frozen=True)
class Split:
    """Where each user's interactions are cut: two arrays of shape [U]."""

    train_end: npt.NDArray[np.int32]
    valid_end: npt.NDArray[np.int32]


def split(
    config: SplitConfig,
    keys: Keys,
    times: Int64Array,
    offsets: Int64Array,
    further: npt.NDArray[np.int32] | None = None,
) -> Split:
    """Cut every user's interactions: keys [U], times [N], offsets [U + 1].

    A slate with several clicks, of which `further` [N] counts those before, stays whole.
    """
    if config.is_brought:
        raise SlatewiseError(
            f"a split by {config.method} is made when a log is prepared.",
            "Prepare the log again, or split by user or by time.",
        )
    if config.method == "time":
        return split_by_time(config, times, offsets)
    cuts = split_by_user(config, keys, np.diff(offsets))
    return between_slates(cuts, offsets, further)


def between_slates(
    cuts: Split, offsets: Int64Array, further: npt.NDArray[np.int32] | None
) -> Split:
    """Move cuts that lie within a slate with several clicks to its end."""
    if further is None:
        return cuts
    return Split(
        *(_between_slates(cut, offsets, further) for cut in (cuts.train_end, cuts.valid_end))
    )


def _between_slates(
    ends: npt.NDArray[np.int32], offsets: Int64Array, further: npt.NDArray[np.int32]
) -> npt.NDArray[np.int32]:
    """Move cuts [U] that lie within a slate to its end."""
    begins = np.append(np.flatnonzero(further == 0), len(further))
    rows = offsets[:-1] + ends  # the first interaction behind each cut
    return (begins[np.searchsorted(begins, rows)] - offsets[:-1]).astype(np.int32)


def split_by_user(config: SplitConfig, keys: Keys, lengths: Int64Array) -> Split:
    """Give validation and test their share of users, drawn by key (Section 5 of the paper).

    A user's rank in the draw depends on her own key and the seed alone, so most users keep their
    role when a later log brings new ones.
    """
    test, valid = _held_out(config, keys)
    prefix = with_prefix(config, keys, lengths).prefix or 0
    train_end = lengths.astype(np.int32)
    valid_end = train_end.copy()
    train_end[valid] = np.minimum(lengths[valid], prefix)
    train_end[test] = valid_end[test] = np.minimum(lengths[test], prefix)
    return Split(train_end, valid_end)


def with_prefix(config: SplitConfig, keys: Keys, lengths: Int64Array) -> SplitConfig:
    """Return the same with the prefix of a log whose users have `lengths` [U] interactions.

    Where hardly anybody comes back, as to search for a hotel, nothing is left after five.
    """
    if config.method != "user" or config.prefix is not None:
        return config
    own = lengths[np.concatenate(_held_out(config, keys))]
    left = int(np.maximum(own - _PREFIX, 0).sum())
    few = left < _FEW and 2 * left < own.sum()
    return config.model_copy(update={"prefix": 0 if few else _PREFIX})


def _held_out(config: SplitConfig, keys: Keys) -> tuple[Int64Array, Int64Array]:
    """Draw the users of test and of validation."""
    users = len(keys)
    # One user at least, if that leaves any for training.
    tested, validated = (
        max(round(share * users), int(share > 0 and users > 2))
        for share in (config.test_share, config.valid_share)
    )
    drawn = np.argsort(mix(mix(keys, salt=config.seed)), kind="stable")
    return drawn[:tested], drawn[tested : tested + validated]


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
    cuts = Split(
        _count_before(times, offsets, valid_from), _count_before(times, offsets, test_from)
    )
    if config.valid_from is None:
        _require_parts(config, cuts, len(times))
    return cuts


def _require_parts(config: SplitConfig, cuts: Split, total: int) -> None:
    """Refuse a split by time that leaves a part empty which should not be."""
    trained, validated = int(cuts.train_end.sum()), int(cuts.valid_end.sum())
    for name, share, count in (
        ("training", 1 - config.valid_share - config.test_share, trained),
        ("validation", config.valid_share, validated - trained),
        ("test", config.test_share, total - validated),
    ):
        if share > 0 and count == 0:
            raise SlatewiseError(
                f"the log's times are too coarse or too few: no moment leaves {share:.0%} of the "
                f"interactions, or anything near it, for {name}.",
                "Ask for larger shares, or name the moments with --valid-from and --test-from.",
            )


def time_quantile(times: Int64Array, share: float) -> int:
    """Return the moment before which as near to `share` of the times lie as any moment allows.

    In bounded memory: the bin that holds it is divided again until it is a single moment.
    """
    wanted = share * len(times)
    first = min(int(times[piece].min()) for piece in pieces(len(times)))
    last = max(int(times[piece].max()) for piece in pieces(len(times)))
    before, width = 0, 0
    while width != 1:
        width = (last - first) // _BINS + 1
        counts = np.zeros(_BINS, dtype=np.int64)
        for piece in pieces(len(times)):
            counts += _histogram(times[piece], first, last, width)
        ends = before + np.cumsum(counts)
        index = min(int(np.searchsorted(ends, wanted)), _BINS - 1)
        before, upto = int(ends[index] - counts[index]), int(ends[index])
        first += index * width
        last = min(last, first + width - 1)
    return first if wanted - before <= upto - wanted else first + 1


def _histogram(times: Int64Array, first: int, last: int, width: int) -> Int64Array:
    inside = times[(times >= first) & (times <= last)]
    # Unsigned, because two int64 may lie further apart than an int64 can say.
    since = inside.view(np.uint64) - np.uint64(first % 2**64)
    return np.bincount((since // np.uint64(width)).astype(np.int64), minlength=_BINS)


def _count_before(times: Int64Array, offsets: Int64Array, moment: int) -> npt.NDArray[np.int32]:
    """Count each user's interactions before a moment: a prefix, as times are sorted per user."""
    running = np.zeros(len(offsets), dtype=np.int64)
    total = 0
    for piece in pieces(len(times)):
        before = np.concatenate([[0], np.cumsum(times[piece] < moment)])
        here = slice(
            np.searchsorted(offsets, piece.start, "right"),
            np.searchsorted(offsets, piece.stop, "right"),
        )
        running[here] = total + before[offsets[here] - piece.start]
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
