"""Fitting the slate-aware network: AdamW, averaged weights, early stopping on validation.

Its members begin with other weights and see slates in another order, each by its own likelihood,
and stop together, where their mean predicts best.

Shapes: N slates, F items of all of them, R slates of a part, M members.
"""

import copy
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from slatewise.data.interactions import SeveralClicks
from slatewise.model.network.architecture import SlateInputs, SlateNetwork, slate_log_likelihood

RATE: Final = 2e-3
"""Of steps with the smallest batch; it grows with the root of the batch."""
DECAY: Final = 0.02
"""Weight decay, of all but biases."""
AVERAGED: Final = 0.99
"""By which averaged weights are kept at each step: they generalise better than the last ones."""
BATCHES: Final = (256, 1_024)
"""Slates of a step, at least and at most; between them, what gives an epoch its steps.

On 91,000 slates of one item batches of 1,024 took a third of the time of 256, on 23,000 longer ones
512 took 70 %, for the same likelihood."""
STEPS: Final = 64
"""Of an epoch."""
WARM: Final = 50
"""Steps over which the rate rises."""
EPOCHS: Final = 40
"""Most passes over the training part."""
PATIENCE: Final = 3
"""Epochs without a better validation likelihood after which the rate falls, and then it ends."""
LOWER: Final = 0.3
MEMBERS: Final = ((10_000, 4), (60_000, 3))
"""Members of a network by the training slates, below each of these numbers; above them one."""


def usual_members(slates: int) -> int:
    """Return how many members a network has by default, by the number of training slates."""
    return next((members for most, members in MEMBERS if slates < most), 1)


@dataclass(frozen=True)
class Choices:
    """Slates with what was chosen from each."""

    inputs: SlateInputs
    clicks: Tensor
    """[N] int64: position in the slate, −1 for no click"""
    can_pass: bool
    """whether clicking nothing is an option"""
    several: SeveralClicks | None = None
    """which are further clicks on one slate: choices among what is left, of one that is made"""

    def log_likelihood(self, network: SlateNetwork, rows: Tensor) -> Tensor:
        """Return the log-probability of some choices: [R]."""
        inputs, cells = self.inputs.take(rows)
        utilities, none = network(inputs)
        utilities, none = self.options(utilities, none, rows, cells)
        return slate_log_likelihood(
            utilities, none if self.can_pass else None, self.clicks[rows], inputs.offsets
        )

    def options(
        self, utilities: Tensor, none: Tensor, rows: Tensor, cells: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return utilities of items [F'] and of clicking nothing [R], −∞ for what is no option.

        An item that was clicked before on the same slate is none, and clicking nothing is none for
        a further click.
        """
        if self.several is None:
            return utilities, none
        taken, further = self.several.taken[cells], self.several.further[rows] > 0
        return utilities.masked_fill(taken, -torch.inf), none.masked_fill(further, -torch.inf)

    def mean(self, network: SlateNetwork, rows: Tensor) -> float:
        """Return the mean log-probability of choices [R], without gradient."""
        with torch.no_grad():
            parts = [self.log_likelihood(network, part).sum() for part in torch.split(rows, 2_048)]
        return float(sum(parts)) / max(len(rows), 1)


@dataclass(frozen=True)
class FittedNetwork:
    """The network that predicts held-out choices best, and how well."""

    network: SlateNetwork
    validation: list[float]
    """mean log-likelihood before the first epoch, and after each"""


def fit_network(
    choices: Choices,
    training: Tensor,
    validation: Tensor,
    *,
    groups: int,
    hidden: int,
    seed: int,
    members: int = 1,
) -> FittedNetwork:
    """Fit the network to the slates `training` [R]; keep what predicts `validation` [R'] best.

    The same seed gives the same network, bit for bit, on the CPU.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        networks = [_begun(choices.inputs, groups, hidden) for _ in range(members)]
    climbs = [
        _Climb(choices, network.to(choices.clicks.device), len(training)) for network in networks
    ]
    generator = torch.Generator().manual_seed(seed)
    best, waited = [copy.deepcopy(climb.average) for climb in climbs], 0
    values = [choices.mean(SlateNetwork.merged(best), validation)]
    for _ in range(EPOCHS):
        for climb in climbs:
            order = torch.randperm(len(training), generator=generator)
            climb.epoch(training[order.to(training.device)])
        averages = [climb.average for climb in climbs]
        values.append(choices.mean(SlateNetwork.merged(averages), validation))
        if values[-1] >= max(values):
            waited, best = 0, copy.deepcopy(averages)
            continue
        waited += 1
        if waited == PATIENCE:
            if climbs[0].is_slower:
                break
            waited = 0
            for climb, network in zip(climbs, best, strict=True):
                climb.slow_down(network)
    return FittedNetwork(SlateNetwork.merged(best), values)


def _begun(inputs: SlateInputs, groups: int, hidden: int) -> SlateNetwork:
    """Return a network to be fitted."""
    network = SlateNetwork(inputs.num_features, inputs.slates.shape[1], groups, hidden)
    with torch.no_grad():
        # As with groups: a column of items counts once it is learned, and adds no noise before.
        network.of_item.weight[:, inputs.items.shape[1] :] = 0
    return network


class _Climb:
    """Steps of AdamW, and the average of the weights that they lead to."""

    def __init__(self, choices: Choices, network: SlateNetwork, slates: int) -> None:
        least, most = BATCHES
        self._batch = min(max(least, slates // STEPS), most)
        self._rate, self.is_slower = RATE * (self._batch / least) ** 0.5, False
        self.average = copy.deepcopy(network)
        self._choices, self._network, self._steps = choices, network, 0
        every = list(network.parameters())
        groups = [
            {"params": [one for one in every if one.ndim > 1], "weight_decay": DECAY},
            {"params": [one for one in every if one.ndim < 2], "weight_decay": 0.0},
        ]
        self._adam = torch.optim.AdamW(groups, lr=self._rate, fused=True)

    def slow_down(self, network: SlateNetwork) -> None:
        """Go on from other weights, in smaller steps."""
        self._rate, self.is_slower = LOWER * self._rate, True
        self._network.load_state_dict(network.state_dict())

    def epoch(self, rows: Tensor) -> None:
        """Run one pass over slates [R], in their order."""
        for part in torch.split(rows, self._batch):
            for group in self._adam.param_groups:
                group["lr"] = self._rate * min(1.0, (self._steps + 1) / WARM)
            loss = -self._choices.log_likelihood(self._network, part).mean()
            self._adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), 1.0, foreach=True)
            self._adam.step()
            self._steps += 1
            kept = min(AVERAGED, self._steps / (self._steps + 10))
            with torch.no_grad():
                average: list[Tensor] = list(self.average.parameters())
                latest: list[Tensor] = list(self._network.parameters())
                torch._foreach_lerp_(average, latest, 1 - kept)
