"""A small network that sees an item together with the others of its slate.

    h_i = relu(W x_i + U s + e(group))                  of each item
    c   = V (max_i h_i, mean_i h_i) + U' s + b          of its slate
    φ_i = relu(W' h_i + c)
    u_i = w · φ_i + p(position)
    u_0 = w_0 · relu(V_0 (max_i h_i, mean_i h_i) + U_0 s + b_0) + a_0    of clicking nothing

It may have several members: networks that begin with other weights and share nothing, of whose
utilities it takes the mean.

with x_i what was known of an item before its slate was shown, and s of the slate and its user. Only
differences between the options of a slate count. The position explains a click and ranks nothing:
what it adds is a part of its own, which a ranking leaves out.

Shapes: N slates, F items of all of them, I items, P features of an item that change with time, C
that stay, Q of a slate, M members, H units of a member.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any, Final

import torch
from torch import Tensor, nn

from slatewise.model.kernels.pooled import pooled_units, spread_units

CLIP: Final = 6.0
"""Standard deviations beyond which a feature counts no more."""
POSITION_FEATURES: Final = 5
"""Features of a position."""
POSITION_UNITS: Final = 16
"""Of the layer that they go through."""


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
    numbers: Tensor | None = None
    """[F] int64, the row of each item in `catalogue`"""
    catalogue: Tensor | None = None
    """[I + 1, C] what is known of every item, whatever the time; its last row is of new ones"""

    @property
    def features(self) -> Tensor:
        """[F, P + C] all that is known of each item."""
        if self.catalogue is None or self.numbers is None:
            return self.items
        return torch.cat([self.items, self.catalogue.index_select(0, self.numbers)], 1)

    @property
    def num_features(self) -> int:
        """P + C, features of an item."""
        return self.items.shape[1] + (0 if self.catalogue is None else self.catalogue.shape[1])

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
            None if self.numbers is None else self.numbers.index_select(0, cells),
            self.catalogue,
        )
        return taken, cells

    def to(self, device: torch.device | str) -> "SlateInputs":
        """Return the same on a device."""
        parts: list[Any] = [getattr(self, field.name) for field in fields(self)]
        moved: list[Any] = [None if part is None else part.to(device) for part in parts]
        return SlateInputs(*moved)


class MemberLinear(nn.Module):
    """A linear layer for each member, which sees its own inputs alone.

    With one member it is `nn.Linear`, in names and shapes.
    """

    bias: nn.Parameter | None

    def __init__(self, members: int, inputs: int, outputs: int, *, bias: bool = True) -> None:
        super().__init__()
        layers = [nn.Linear(inputs, outputs, bias=bias) for _ in range(members)]
        self.weight = nn.Parameter(torch.cat([layer.weight.detach() for layer in layers]))
        self.bias = None
        if bias:
            self.bias = nn.Parameter(torch.cat([layer.bias.detach() for layer in layers]))
        self._members = members

    def forward(self, values: Tensor) -> Tensor:
        """Return the outputs of all members side by side: [K, M, inputs] to [K, M · outputs]."""
        if self._members == 1:
            return nn.functional.linear(values[:, 0], self.weight, self.bias)
        weight = self.weight.view(self._members, -1, values.shape[2])  # [M, outputs, inputs]
        out = torch.bmm(values.transpose(0, 1), weight.transpose(1, 2)).transpose(0, 1).flatten(1)
        return out if self.bias is None else out + self.bias


class SlateNetwork(nn.Module):
    """The network above, or the mean of several."""

    def __init__(
        self, features: int, slate_features: int, groups: int, hidden: int, members: int = 1
    ) -> None:
        super().__init__()
        self.members, units = members, members * hidden
        self.of_item = nn.Linear(features, units)
        self.of_slate = nn.Linear(slate_features, units, bias=False)
        self.of_group = nn.Embedding(groups + 1, units)
        self.beside = MemberLinear(members, hidden, hidden, bias=False)
        self.pooled = MemberLinear(members, 2 * hidden + slate_features, hidden)
        self.weights = nn.Linear(units, 1, bias=False)
        self.none_hidden = MemberLinear(members, 2 * hidden + slate_features, hidden)
        self.none_weights = MemberLinear(members, hidden, 1)
        # `place_…` are keys of saved runs.
        self.place_hidden = nn.Linear(POSITION_FEATURES + slate_features, members * POSITION_UNITS)
        self.place_weights = MemberLinear(members, POSITION_UNITS, 1, bias=False)
        nn.init.zeros_(self.of_group.weight)
        # Close to a choice at random: from there every direction is open.
        for last in (self.weights, self.none_weights, self.place_weights):
            nn.init.normal_(last.weight, std=0.01)

    @property
    def last_weights(self) -> Tensor:
        """Weights w of the mean of all members: [1, M H]."""
        return self.weights.weight / self.members

    def hidden_units(self, inputs: SlateInputs) -> tuple[Tensor, Tensor]:
        """Return the last hidden layer of items [F, M H], and the utility of no click [N]."""
        units, greatest, mean = self._pooled_units(inputs)
        seen = self._seen(greatest, mean, inputs.slates)
        beside = self.beside(self._by_member(units))
        return spread_units(beside, self.pooled(seen), inputs.offsets), self._no_click(seen)

    def item_units(self, inputs: SlateInputs) -> Tensor:
        """Return the first hidden layer of items, which knows nothing of the others: [F, M H]."""
        return self._pooled_units(inputs)[0]

    def _pooled_units(self, inputs: SlateInputs) -> tuple[Tensor, Tensor, Tensor]:
        """Return the first hidden layer, and its maximum and mean over each slate [N, M H]."""
        items, slates = self.of_item(inputs.features), self.of_slate(inputs.slates)
        return pooled_units(items, slates, self.of_group.weight, inputs.groups, inputs.offsets)

    def units_beside(self, units: Tensor, slate: Tensor, shown: Tensor) -> tuple[Tensor, Tensor]:
        """Return the last hidden layer of candidates for one slate, and what no click is worth.

        Of candidates with units [K, M H], those at `shown` [k] make up the slate with features
        [1, Q]; any other is seen in it in place of the last one. Returns [K, M H] and [1].
        """
        members, rest = units[shown], units[shown[:-1]]
        # Units are not negative: of no others the greatest is 0.
        greatest = torch.maximum(units, nn.functional.pad(rest, (0, 0, 0, 1)).amax(0))
        mean = (units + rest.sum(0)) / len(shown)
        greatest[shown], mean[shown] = members.amax(0), members.mean(0)
        seen = self._seen(greatest, mean, slate.expand(len(units), -1))
        last = torch.relu(self.beside(self._by_member(units)) + self.pooled(seen))
        return last, self._no_click(seen[shown[:1]])

    def _by_member(self, units: Tensor) -> Tensor:
        return units.view(len(units), self.members, units.shape[1] // self.members)

    def _seen(self, greatest: Tensor, mean: Tensor, slates: Tensor) -> Tensor:
        """Put together what each member sees of slates: [N, M, 2 H + Q]."""
        own = slates[:, None].expand(-1, self.members, -1)
        return torch.cat([self._by_member(greatest), self._by_member(mean), own], 2)

    def _no_click(self, seen: Tensor) -> Tensor:
        hidden = self._by_member(torch.relu(self.none_hidden(seen)))
        utility: Tensor = self.none_weights(hidden).mean(1)
        return utility

    def position_utilities(self, inputs: SlateInputs) -> Tensor:
        """Return what the position of each item adds: [F]."""
        positions = position_features(inputs.offsets)
        slates = inputs.slates.index_select(0, inputs.rows)
        hidden = torch.relu(self.place_hidden(torch.cat([positions, slates], 1)))
        out: Tensor = self.place_weights(self._by_member(hidden)).mean(1)
        return out

    def forward(self, inputs: SlateInputs) -> tuple[Tensor, Tensor]:
        """Return the utilities of items [F], positions included, and of clicking nothing [N]."""
        last, none = self.hidden_units(inputs)
        of_items = (last @ self.last_weights.T)[:, 0]
        return of_items + self.position_utilities(inputs), none

    @classmethod
    def merged(cls, members: "Sequence[SlateNetwork]") -> "SlateNetwork":
        """Return the mean of several networks of one shape, each with one member."""
        if len(members) == 1:
            return members[0]
        first, states = members[0], [member.state_dict() for member in members]
        beside = {"of_group.weight", "weights.weight"}  # [..., units]; all others have [units, ...]
        state = {
            name: torch.cat([one[name] for one in states], 1 if name in beside else 0)
            for name in states[0]
        }
        features, hidden = first.of_item.in_features, first.of_item.out_features
        groups = first.of_group.num_embeddings - 1
        network = cls(features, first.of_slate.in_features, groups, hidden, len(members))
        network.load_state_dict(state)
        return network.to(first.weights.weight.device)


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
    click [N], else −1 is none. What has −∞ is no option.
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
