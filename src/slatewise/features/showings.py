"""Slates as they were shown: once, with no click, one or several.

A slate with several clicks is several interactions of the log, one after the other. To whoever saw
it, it was one slate: its interactions share the past before it, it was seen once, and each of its
clicks counts. Otherwise a model would learn that what was just clicked is never clicked again, from
nothing but the way the log is written.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.data.several_clicks import further_clicks


@dataclass(frozen=True)
class Showing:
    """One slate that a user saw, as serving learns of it."""

    items: tuple[int, ...]
    """The items seen, in shown order, as numbers."""
    clicks: tuple[int, ...] = ()
    """Positions that were clicked, from 0, in the order of the clicks."""
    time: int = 0
    """Microseconds since 1970; only popularity asks for it."""
    source: int = 0
    """Into the dataset's `source_names`; only the click propensity asks for it."""

    def __post_init__(self) -> None:
        """Refuse clicks that cannot be."""
        inside = all(0 <= click < len(self.items) for click in self.clicks)
        if not inside or len(set(self.clicks)) < len(self.clicks):
            raise ValueError(f"clicks {self.clicks} on a slate of {len(self.items)} items")


def showing_starts(interactions: Interactions | SlateDataset) -> Tensor:
    """Mark the interactions that begin a showing: [N] bool.

    The others are further clicks on the slate before; see `slatewise.data.several_clicks`. A
    dataset keeps what was found.
    """
    if isinstance(interactions, SlateDataset):
        found = interactions.further_clicks
        if found is None:
            return torch.ones(interactions.num_interactions, dtype=torch.bool)
        return torch.from_numpy(found == 0)
    if interactions.several is not None:
        return interactions.first_choices.cpu()
    further = further_clicks(
        interactions.user_offsets.cpu().numpy(),
        interactions.times.cpu().numpy(),
        interactions.sources.cpu().numpy(),
        interactions.clicks.cpu().numpy(),
        interactions.slate_offsets.cpu().numpy(),
        interactions.slate_items.cpu().numpy(),
    )
    if further is None:
        return torch.ones(len(interactions.clicks), dtype=torch.bool)
    return torch.from_numpy(further == 0)


def replay(interactions: Interactions, user: int) -> Iterator[Showing]:
    """Yield what one of the B users saw, oldest first: a log replayed for serving."""
    one = interactions.of_users(torch.tensor([user], device=interactions.clicks.device))
    begins = torch.cat([showing_starts(one), torch.ones(1, dtype=torch.bool)]).nonzero()[:, 0]
    for first, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        slate = one.slate_items[one.slate_offsets[first] : one.slate_offsets[first + 1]]
        clicks = one.clicks[first:end].tolist()
        yield Showing(
            items=tuple(slate.tolist()),
            clicks=tuple(click for click in clicks if click >= 0),
            time=int(one.times[first]),
            source=int(one.sources[first]),
        )


def seen_in_slate(seen: int, clicked: Iterable[int]) -> int:
    """Return how many items of a slate were seen, given how many are said to be.

    What was clicked, at positions from 0, was seen, and so was all above it.
    """
    return max(seen, 1 + max(clicked, default=-1))


def as_interactions(shown: Sequence[Showing]) -> Interactions:
    """Return showings as interactions, each that of a user of its own."""
    rows = [(s, click) for s in shown for click in s.clicks or (-1,)]
    lengths = torch.tensor([max(1, len(s.clicks)) for s in shown], dtype=torch.int64)
    cells = torch.tensor([len(s.items) for s, _ in rows], dtype=torch.int64)
    return Interactions(
        user_offsets=torch.nn.functional.pad(lengths.cumsum(0), (1, 0)),
        train_end=lengths.int(),
        valid_end=lengths.int(),
        times=torch.tensor([s.time for s, _ in rows], dtype=torch.int64),
        sources=torch.tensor([s.source for s, _ in rows], dtype=torch.uint8),
        clicks=torch.tensor([click for _, click in rows], dtype=torch.int32),
        slate_offsets=torch.nn.functional.pad(cells.cumsum(0), (1, 0)),
        slate_items=torch.tensor([i for s, _ in rows for i in s.items], dtype=torch.int32),
    )


def training_counts(dataset: SlateDataset) -> Int64Array:
    """Count interactions, clicks and views of the training part, by source: [sources, 3]."""
    from slatewise.features import _numba  # noqa: PLC0415 (numba takes time to load)

    counts = np.zeros((len(dataset.source_names), 3), dtype=np.int64)
    _numba.count_training(
        dataset.user_offsets,
        dataset.train_end,
        showing_starts(dataset).numpy(),
        dataset.sources,
        dataset.clicks,
        dataset.slate_offsets,
        counts,
    )
    return counts
