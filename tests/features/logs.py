"""Random logs, and plain transcriptions of what a past is."""

from dataclasses import replace

import numpy as np
import torch

from slatewise.data.interactions import Interactions

HOUR = 3_600_000_000


def random_log(
    seed: int, *, users: int = 5, items: int = 8, hours: int = 12, sources: int = 2
) -> Interactions:
    """Draw a small log with ties in time, empty users, and slates with several clicks."""
    rng = np.random.default_rng(seed)
    lengths, rows = [], []
    for _ in range(users):
        moments = np.sort(rng.integers(0, hours, rng.integers(0, 9))) * HOUR
        mine = []
        for time in moments.tolist():
            slate = rng.permutation(items)[: rng.integers(1, min(items, 6) + 1)].tolist()
            number = int(rng.integers(0, min(3, len(slate)) + 1))
            clicks = rng.permutation(len(slate))[:number].tolist() or [-1]
            source = int(rng.integers(sources))
            mine += [(time, source, click, slate) for click in clicks]
        lengths.append(len(mine))
        rows += mine
    ends = torch.tensor(lengths, dtype=torch.int32)
    return Interactions(
        user_offsets=torch.tensor(np.concatenate([[0], np.cumsum(lengths)]), dtype=torch.int64),
        train_end=ends,
        valid_end=ends,
        times=torch.tensor([row[0] for row in rows], dtype=torch.int64),
        sources=torch.tensor([row[1] for row in rows], dtype=torch.uint8),
        clicks=torch.tensor([row[2] for row in rows], dtype=torch.int32),
        slate_offsets=torch.tensor(
            np.concatenate([[0], np.cumsum([len(row[3]) for row in rows])]), dtype=torch.int64
        ),
        slate_items=torch.tensor([i for row in rows for i in row[3]], dtype=torch.int32),
    )


def slate(log: Interactions, n: int) -> list[int]:
    return log.slate_items[log.slate_offsets[n] : log.slate_offsets[n + 1]].tolist()


def first_of_showing(log: Interactions, n: int) -> int:
    """Go back to the interaction with which the slate of n was shown."""
    owner = int(torch.searchsorted(log.user_offsets, n, right=True)) - 1
    first, shown, clicked = n, None, {-1}
    for row in range(int(log.user_offsets[owner]), n + 1):
        now, click = (int(log.times[row]), int(log.sources[row]), slate(log, row)), log.clicks[row]
        if now != shown or click < 0 or -1 in clicked or int(click) in clicked:
            first, shown, clicked = row, now, set()
        clicked.add(int(click))
    return first


def past_of_user(log: Interactions, n: int) -> list[int]:
    """Return the earlier interactions of the same user, without those on the same slate."""
    owner = int(torch.searchsorted(log.user_offsets, n, right=True)) - 1
    return list(range(int(log.user_offsets[owner]), first_of_showing(log, n)))


def with_other_future(log: Interactions, moment: int, seed: int, items: int) -> Interactions:
    """Replace items and clicks of every interaction at or after a moment."""
    rng = np.random.default_rng(seed)
    cells = torch.repeat_interleave(log.times >= moment, log.slate_offsets.diff())
    drawn = torch.from_numpy(rng.integers(0, items, len(cells))).int()
    lengths = log.slate_offsets.diff().numpy()
    clicks = torch.from_numpy(rng.integers(-1, lengths)).int()
    return replace(
        log,
        slate_items=torch.where(cells, drawn, log.slate_items),
        clicks=torch.where(log.times >= moment, clicks, log.clicks),
    )
