"""A user's history and a list of candidates, as the interactions that features are computed of."""

import numpy as np
import torch

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array, offsets_of, ranges
from slatewise.features.user_history import UserHistory


def interactions_with_list(
    history: UserHistory, items: Int64Array, source: int, time: int
) -> Interactions:
    """Return what a user saw as interactions, and a list of items as the last of them.

    Slates without a time count as seen just now, or where a later one has a time, just before that.
    All must be of sources that the model knows.
    """
    time = max(time, int(history.times.max(initial=0)))  # what she did is past, by any clock
    times = np.where(history.times > 0, history.times, time)
    times = np.minimum.accumulate(times[::-1])[::-1]  # [V]
    clicks = np.bincount(history.click_slates, minlength=len(history))
    slates = np.repeat(np.arange(len(history)), np.maximum(clicks, 1))  # [N] of each interaction
    clicked = np.full(len(slates) + 1, -1, np.int32)
    clicked[:-1][clicks[slates] > 0] = history.clicks - history.offsets[history.click_slates]
    lengths = np.diff(history.offsets)[slates]
    seen = history.items[ranges(history.offsets[slates], lengths)]
    ends = torch.tensor([len(clicked)], dtype=torch.int32)
    return Interactions(
        user_offsets=torch.tensor([0, len(clicked)]),
        train_end=ends,
        valid_end=ends,
        times=torch.from_numpy(np.append(times[slates], time).astype(np.int64)),
        sources=torch.from_numpy(np.append(history.sources[slates], source).astype("u1")),
        clicks=torch.from_numpy(clicked),
        slate_offsets=torch.from_numpy(offsets_of(np.append(lengths, len(items)))),
        slate_items=torch.from_numpy(np.append(seen, items).astype(np.int32)),
    )
