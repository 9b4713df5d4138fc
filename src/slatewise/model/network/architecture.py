"""A small network that sees an item beside the others of its slate.

    h_i = relu(W x_i + U s + e(group))                  of each item
    c   = V (max_i h_i, mean_i h_i) + U' s + b          of its slate
    φ_i = relu(W' h_i + c)
    u_i = w · φ_i + p(position)
    u_0 = w_0 · relu(V_0 (max_i h_i, mean_i h_i) + U_0 s + b_0) + a_0    of clicking nothing

with x_i what was known of an item before its slate was shown, and s of the slate and its user. Only
differences between the options of a slate count. The position explains a click and ranks nothing:
what it adds is a part of its own, which a ranking leaves out.

Shapes: N slates, F items of all of them, P features of an item, Q of a slate, H units.
"""

from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

CLIP: Final = 6.0
"""Standard deviations beyond which a feature counts no more."""
POSITION_FEATURES: Final = 5
"""Features of a position."""


@dataclass(frozen=True)
class SlateInputs:
    """What the network takes of N slates."""

    items: Tensor
    """[F, P] standardised"""
    slates: Tensor
    """[N, Q] standardised"""
    groups: Tensor
    """[F] int64, from 0 to the number of groups that the network knows, which stands for others"""
    offsets: Tensor
    """[N + 1] int64"""

    @property
    def lengths(self) -> Tensor:
        """[N] how many items each slate has."""
        return self.offsets.diff()

    @property
    def rows(self) -> Tensor:
        """[F] the slate of each item."""
        return torch.repeat_interleave(self.lengths, output_size=len(self.items))

    def take(self, rows: Tensor) -> "tuple[SlateInputs, Tensor]":
        """Return some slates [M], and which items [F'] they hold."""
        starts, lengths = self.offsets[rows], self.lengths[rows]
        ends = lengths.cumsum(0)
        total = int(ends[-1]) if len(ends) else 0
        shift = torch.repeat_interleave(starts - (ends - lengths), lengths, output_size=total)
        cells = torch.arange(total, device=starts.device) + shift
        offsets = nn.functional.pad(ends, (1, 0))
        taken = SlateInputs(
            self.items.index_select(0, cells),
            self.slates.index_select(0, rows),
            self.groups.index_select(0, cells),
            offsets,
        )
        return taken, cells


class SlateNetwork(nn.Module):
    """The network above."""

    def __init__(self, features: int, slate_features: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.of_item = nn.Linear(features, hidden)
        self.of_slate = nn.Linear(slate_features, hidden, bias=False)
        self.of_group = nn.Embedding(groups + 1, hidden)
        self.beside = nn.Linear(hidden, hidden, bias=False)
        self.pooled = nn.Linear(2 * hidden + slate_features, hidden)
        self.weights = nn.Linear(hidden, 1, bias=False)
        self.none_hidden = nn.Linear(2 * hidden + slate_features, hidden)
        self.none_weights = nn.Linear(hidden, 1)
        # `place_…` are keys of saved runs.
        self.place_hidden = nn.Linear(POSITION_FEATURES + slate_features, 16)
        self.place_weights = nn.Linear(16, 1, bias=False)
        nn.init.zeros_(self.of_group.weight)
        # Close to a choice at random: from there every direction is open.
        for last in (self.weights, self.none_weights, self.place_weights):
            nn.init.normal_(last.weight, std=0.01)

    def hidden_units(self, inputs: SlateInputs) -> tuple[Tensor, Tensor]:
        """Return the last hidden layer of items [F, H], and the utility of no click [N]."""
        rows, units = inputs.rows, self.item_units(inputs)
        greatest, mean = (
            torch.segment_reduce(units, how, offsets=inputs.offsets, axis=0, initial=0.0)
            for how in ("max", "mean")
        )
        seen = torch.cat([greatest, mean, inputs.slates], 1)  # [N, 2 H + Q]
        last = torch.relu(self.beside(units) + self.pooled(seen).index_select(0, rows))
        return last, self._no_click(seen)

    def item_units(self, inputs: SlateInputs) -> Tensor:
        """Return the first hidden layer of items, which knows nothing of the others: [F, H]."""
        slates = self.of_slate(inputs.slates).index_select(0, inputs.rows)
        units = self.of_item(inputs.items) + slates
        return torch.relu(units + self.of_group(inputs.groups))

    def units_beside(self, units: Tensor, slate: Tensor, shown: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last hidden layer of candidates for one slate, and what no click is worth.

        Of candidates with units [K, H], those at `shown` [k] make up the slate with features
        [1, Q]; any other is seen in it in place of the last one. Returns [K, H] and [1].
        """
        members, rest = units[shown], units[shown[:-1]]
        # Units are not negative: of no others the greatest is 0.
        greatest = torch.maximum(units, nn.functional.pad(rest, (0, 0, 0, 1)).amax(0))
        mean = (units + rest.sum(0)) / len(shown)
        greatest[shown], mean[shown] = members.amax(0), members.mean(0)
        seen = torch.cat([greatest, mean, slate.expand(len(units), -1)], 1)  # [K, 2 H + Q]
        last = torch.relu(self.beside(units) + self.pooled(seen))
        return last, self._no_click(seen[shown[:1]])

    def _no_click(self, seen: Tensor) -> Tensor:
        utility: Tensor = self.none_weights(torch.relu(self.none_hidden(seen)))[:, 0]
        return utility

    def position_utilities(self, inputs: SlateInputs) -> Tensor:
        """Return what the position of each item adds: [F]."""
        positions = position_features(inputs.offsets)
        slates = inputs.slates.index_select(0, inputs.rows)
        hidden = torch.relu(self.place_hidden(torch.cat([positions, slates], 1)))
        out: Tensor = self.place_weights(hidden)[:, 0]
        return out

    def forward(self, inputs: SlateInputs) -> tuple[Tensor, Tensor]:
        """Return the utilities of items [F], positions included, and of clicking nothing [N]."""
        last, none = self.hidden_units(inputs)
        return self.weights(last)[:, 0] + self.position_utilities(inputs), none


def position_features(offsets: Tensor) -> Tensor:
    """Return the features of each position of slates: [F, 5]."""
    lengths = offsets.diff()
    first = torch.repeat_interleave(offsets[:-1], lengths)
    position = (torch.arange(len(first), device=offsets.device) - first).float()
    of = torch.repeat_interleave(lengths, lengths).float()
    return torch.stack(
        [
            position.log1p(),
            1 / (1 + position),
            position / of,
            (position == 0).float(),
            (position == 1).float(),
        ],
        1,
    )


def log_sums(utilities: Tensor, offsets: Tensor) -> Tensor:
    """Return log Σ exp over the items of each slate: [F] to [N]; 0 for an empty one."""
    peak = torch.segment_reduce(utilities, "max", offsets=offsets, axis=0, initial=-1e9)
    rows = torch.repeat_interleave(offsets.diff(), output_size=len(utilities))
    shifted = (utilities - peak.index_select(0, rows)).exp()
    total = torch.segment_reduce(shifted, "sum", offsets=offsets, axis=0)
    return torch.where(offsets.diff() > 0, peak + total.log(), 0.0)


def slate_log_likelihood(
    utilities: Tensor, none: Tensor | None, clicks: Tensor, offsets: Tensor
) -> Tensor:
    """Return the log-probability of each choice: [N].

    Of items with utilities [F] and clicking nothing [N]; without the latter every slate has a
    click [N], else −1 is none.
    """
    lengths = offsets.diff()
    peak = torch.segment_reduce(utilities.detach(), "max", offsets=offsets, axis=0)
    if none is not None:
        peak = torch.maximum(peak, none.detach())
    shifted = utilities - torch.repeat_interleave(peak, lengths, output_size=len(utilities))
    total = torch.segment_reduce(shifted.exp(), "sum", offsets=offsets, axis=0)
    chosen = shifted.index_select(0, offsets[:-1] + clicks.clamp(min=0))
    if none is not None:
        total = total + (none - peak).exp()
        chosen = torch.where(clicks >= 0, chosen, none - peak)
    return chosen - total.log()
