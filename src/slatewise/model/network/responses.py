"""What the network learned: how the odds of a click on an item change with one of its features.

Of some slates, one item each: its feature takes one value after the other, and all else stays. The
others of the slate see the change too.

Shapes: N slates, F items of all of them, P features of an item, V values.
"""

from dataclasses import replace
from typing import Final, NamedTuple

import torch
from torch import Tensor

from slatewise.model.network.architecture import SlateInputs, SlateNetwork, log_sums

SLATES: Final = 200
"""Slates that an answer is averaged over, at most."""
VALUES: Final = 7
"""Values that a feature takes: from the 2 % to the 98 % quantile of its own."""


class Response(NamedTuple):
    """The mean log odds of a click on an item, by one of its features."""

    feature: int
    values: Tensor
    """[V] as the network has them: standardised"""
    log_odds: Tensor
    """[V]"""

    @property
    def range(self) -> float:
        """How far the feature moves the log odds."""
        return float(self.log_odds.max() - self.log_odds.min())


def responses(network: SlateNetwork, inputs: SlateInputs, *, can_pass: bool) -> list[Response]:
    """Return the response to each feature of items, what moves most first.

    Slates of one item say nothing where clicking nothing is no option.
    """
    rows = torch.nonzero(inputs.lengths > (0 if can_pass else 1)).squeeze(1)
    chance = torch.Generator().manual_seed(0)
    rows = rows[torch.randperm(len(rows), generator=chance)[:SLATES]]
    if not len(rows):
        return []
    some, _ = inputs.take(rows)
    drawn = torch.rand(len(rows), generator=chance)
    cells = some.offsets[:-1] + (drawn * some.lengths).long()  # [N] one item of each slate
    quantiles, found = torch.linspace(0.02, 0.98, VALUES), []
    for feature in range(inputs.items.shape[1]):
        marks = some.items[:, feature].quantile(quantiles).tolist()
        values = torch.tensor(sorted(set(marks)))  # many features are 0 most of the time
        log_odds = [_log_odds(network, some, cells, feature, value, can_pass) for value in values]
        found.append(Response(feature, values, torch.stack(log_odds)))
    return sorted(found, key=lambda one: -one.range)


def _log_odds(
    network: SlateNetwork,
    inputs: SlateInputs,
    cells: Tensor,
    feature: int,
    value: Tensor,
    can_pass: bool,
) -> Tensor:
    items = inputs.items.clone()
    items[cells, feature] = value
    with torch.no_grad():
        last, none = network.hidden_units(replace(inputs, items=items))
        utilities = (last @ network.last_weights.T)[:, 0]
        total = log_sums(utilities, inputs.offsets)
        total = torch.logaddexp(total, none) if can_pass else total
    share: Tensor = utilities[cells] - total  # log P
    return (share - torch.log(-torch.expm1(share.clamp(max=-1e-6)))).mean()
