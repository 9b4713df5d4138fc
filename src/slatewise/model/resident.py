"""A batch of a log that stays on its device: what is gathered of it, in shapes that never change.

A GPU is fast where nothing waits for the host, and a step is recorded once and replayed. So no
shape may depend on which users are drawn: a batch has room for the longest ones, rows that are not
used count nothing, and items of slates stay where they lie in the log.

The states of a user lie together, as do the events that lead from one to the next: event e of user
b leads from state e + b to state e + b + 1. (`ClickSteps` lays them out by step, for a CPU.)

Shapes: B users, N interactions that fit, K events that fit, M = K + B states.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions, SeveralClicks
from slatewise.model.evidence import SlateEvidence


@dataclass(frozen=True)
class ResidentBatch:
    """The training interactions of B users, in place."""

    log: Interactions
    """of which they are"""
    choices: Interactions
    """[N] what is known of each interaction but its items; rows that are not used belong to one
    user more, the last"""
    real: Tensor
    """[N] whether a row is used"""
    user_of: Tensor
    """[N] whose interaction it is, B where it is not used"""
    rows: Tensor
    """[N] interactions of the log; 0 where a row is not used"""
    starts: Tensor
    """[N] where the slate of each begins in the log"""
    state_of: Tensor
    """[N] the state in which each found its user"""
    event_offsets: Tensor
    """[B + 2] user b has the events from `event_offsets[b]` to the next"""
    events: Tensor
    """[K] the interaction of each event, N where there is none"""
    kinds: Tensor
    """[K] −1 for a click, else the index of the slate's source in `SlateEvidence.fractions`"""
    state_before: Tensor
    """[K] the state that each event finds"""

    @classmethod
    def of(
        cls,
        log: Interactions,
        users: Tensor,
        ends: Tensor,
        room: "Room",
        evidence: SlateEvidence | None = None,
    ) -> "ResidentBatch":
        """Lay out the first `ends` [B] interactions of users [B], for which there is room."""
        size, most = room
        device, count = users.device, len(users)
        counts = torch.cat([ends, size - ends.sum(dtype=ends.dtype)[None]]).long()  # [B + 1]
        offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))  # [B + 2]
        number = torch.arange(size, device=device)
        everybody = torch.arange(count + 1, device=device)
        user_of = torch.repeat_interleave(everybody, counts, output_size=size)  # [N]
        real = user_of < count
        first = torch.nn.functional.pad(log.user_offsets.index_select(0, users), (0, 1))
        rows = torch.where(real, (first - offsets[:-1]).index_select(0, user_of) + number, 0)
        starts = log.slate_offsets.index_select(0, rows)
        lengths = torch.where(real, log.slate_offsets.index_select(0, rows + 1) - starts, 1)
        clicks = torch.where(real, log.clicks.index_select(0, rows), -1)
        sources = torch.where(real, log.sources.index_select(0, rows), 0)
        moves, kinds = clicks >= 0, torch.full_like(rows, -1)
        if evidence is not None:
            index = evidence.source_index.index_select(0, sources.int())
            kinds = torch.where(moves, -1, index)
            moves = moves | (real & (index >= 0))
        passed = torch.nn.functional.pad(moves.long().cumsum(0), (1, 0))  # [N + 1]
        before = passed[:-1]
        # Interactions that move no user go to one slot behind all others.
        events = torch.full((most + 1,), size, device=device)
        events.scatter_(0, torch.where(moves, before, most), torch.where(moves, number, size))
        events = events[:-1]
        known = events.clamp(max=size - 1)
        event_users = torch.where(events < size, user_of.index_select(0, known), count)
        step_features, several = log.step_features, log.several
        choices = Interactions(
            user_offsets=offsets,
            train_end=counts.int(),
            valid_end=counts.int(),
            times=log.times.index_select(0, rows),
            sources=sources,
            clicks=clicks,
            slate_offsets=torch.nn.functional.pad(lengths.cumsum(0), (1, 0)),
            slate_items=log.slate_items[:0],
            step_features=None if step_features is None else step_features.index_select(0, rows),
            several=None
            if several is None
            else SeveralClicks(
                torch.where(real, several.further.index_select(0, rows), 0),
                real & several.stops.index_select(0, rows),
                several.taken[:0],
            ),
        )
        return cls(
            log=log,
            choices=choices,
            real=real,
            user_of=user_of,
            rows=rows,
            starts=starts,
            state_of=before + user_of,
            event_offsets=passed.index_select(0, offsets),
            events=events,
            kinds=kinds.index_select(0, known),
            state_before=torch.arange(most, device=device) + event_users,
        )

    @property
    def num_users(self) -> int:
        """B."""
        return len(self.event_offsets) - 2

    @property
    def event_users(self) -> Tensor:
        """[K] whose event it is, B where there is none."""
        return self.state_before - torch.arange(len(self.events), device=self.events.device)

    @property
    def is_click(self) -> Tensor:
        """[K] whether an event is a click; the others are slates without one, or none at all."""
        return (self.kinds < 0) & (self.events < len(self.rows))

    @property
    def event_ranges(self) -> tuple[Tensor, Tensor]:
        """Where the items of each event begin in the log, and how many they are: [K] each.

        A click is a slate of one, and where there is no event there is no item.
        """
        known = self.events.clamp(max=len(self.rows) - 1)
        clicks = self.choices.clicks.index_select(0, known)
        starts = self.starts.index_select(0, known) + clicks.clamp(min=0)
        lengths = self.choices.scroll_lengths.index_select(0, known)
        lengths = torch.where(clicks >= 0, 1, lengths)
        return starts, torch.where(self.events < len(self.rows), lengths, 0)

    @property
    def clicks_before(self) -> Tensor:
        """[N] how many clicks, slates without one not counted, came before each interaction."""
        seen = torch.nn.functional.pad((self.choices.clicks >= 0).long().cumsum(0), (1, 0))
        return seen[:-1] - seen.index_select(0, self.choices.user_offsets[self.user_of])

    @property
    def click_counts(self) -> Tensor:
        """[B] how many clicks each user made."""
        seen = torch.nn.functional.pad((self.choices.clicks >= 0).long().cumsum(0), (1, 0))
        return seen.index_select(0, self.choices.user_offsets).diff()[:-1]

    def gathered(self) -> Interactions:
        """Return the interactions that are used with their items, one after the other.

        Their number depends on the data, and the host waits for it: for what has no kernel.
        """
        rows = self.rows[self.real]
        lengths = self.choices.scroll_lengths[self.real]
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        shift = torch.repeat_interleave(self.starts[self.real] - offsets[:-1], lengths)
        cells = torch.arange(len(shift), device=shift.device) + shift
        chosen, several = self.choices, self.log.several
        return replace(
            chosen,
            user_offsets=chosen.user_offsets[:-1],
            train_end=chosen.train_end[:-1],
            valid_end=chosen.valid_end[:-1],
            times=self.log.times[rows],
            sources=chosen.sources[self.real],
            clicks=chosen.clicks[self.real],
            slate_offsets=offsets,
            slate_items=self.log.slate_items[cells],
            cell_features=self.log.features_of(cells),
            step_features=None if chosen.step_features is None else chosen.step_features[self.real],
            several=None if several is None else several.gathered(rows, cells),
        )


class Room(NamedTuple):
    """How much any batch of a log may have, together."""

    interactions: int
    """N"""
    events: int
    """K"""

    @classmethod
    def of(
        cls, log: Interactions, users: Tensor, batch: int, evidence: SlateEvidence | None = None
    ) -> "Room":
        """Add up the longest training parts of `batch` of the users [U], and those that move most.

        One event is to spare: rows that are not used find the state behind all others.
        """
        moves = log.clicks >= 0
        if evidence is not None:
            moves = moves | (evidence.source_index[log.sources.long()] >= 0)
        passed = torch.nn.functional.pad(moves.long().cumsum(0), (1, 0))
        first, ends = log.user_offsets[users], log.train_end[users]
        events = passed[first + ends] - passed[first]
        interactions, most = (
            int(torch.topk(counts, min(batch, len(counts))).values.sum())
            for counts in (ends, events)
        )
        return cls(max(1, interactions), most + 1)


def resident(interactions: Interactions, device: torch.device | str) -> Interactions:
    """Return a log on a device, to stay there; features in half precision, or one byte if many.

    Features have been divided by their typical size, so that half precision is wrong by a part in
    two thousand. They are most of the bytes: 2 for each feature of each item seen. From 8 GB on
    they get one, 255 steps from minus to plus the largest of their column. Counts are logarithms,
    so that none is far beyond its typical size: in the preset `finn` a step is .06 of it at most.
    """
    if torch.device(device).type == "cpu":
        return interactions
    features = interactions.cell_features
    moved = replace(interactions, cell_features=None).to(device)
    if features is None:
        return moved
    if 2 * features.numel() > MOST_BYTES:
        kept, scales = in_one_byte(features, device)
        return replace(moved, cell_features=kept, cell_scales=scales)
    half = torch.empty(features.shape, dtype=torch.float16, device=device)
    for rows in _pieces(len(features)):
        half[rows].copy_(features[rows])
    return replace(moved, cell_features=half)


def in_one_byte(features: Tensor, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """Round features [F, P] to whole numbers of one byte; return these, and scales [P]."""
    largest = torch.zeros(features.shape[1], device=device)
    for rows in _pieces(len(features)):
        largest = torch.maximum(largest, features[rows].to(device).abs().amax(0).float())
    scales = (largest / 127).clamp(min=torch.finfo(torch.float32).tiny)
    kept = torch.empty(features.shape, dtype=torch.int8, device=device)
    for rows in _pieces(len(features)):
        kept[rows] = (features[rows].to(device) / scales).round().to(torch.int8)
    return kept, scales


MOST_BYTES = 8_000_000_000
"""Bytes that features of half precision may take."""
_ROWS = 1 << 22
"""Rows of features that are moved at a time: they may lie in a file larger than the memory."""


def _pieces(count: int) -> Iterator[slice]:
    return (slice(start, start + _ROWS) for start in range(0, count, _ROWS))
