"""Fitting a network to choices: AdamW, averaged weights, early stopping on validation.

The members of an ensemble start from different weights and see slates in different orders. Each is
fitted by its own likelihood; all stop together, where their mean predicts best.

Shapes: N slates, F items of all of them, R slates of a part, M members.
"""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

import torch
from torch import Tensor, nn

from slatewise.data.interactions import SeveralClicks
from slatewise.model.adam import Adam
from slatewise.model.network.architecture import SlateInputs, SlateNetwork, slate_log_likelihood

RATE: Final = 2e-3
"""Of steps with the smallest batch; it grows with the root of the batch."""
DECAY: Final = 0.02
"""Weight decay, of all but biases."""
COLUMN_DECAY: Final = 1.5
"""Further decay of the weights of item columns. Those that say nothing tell items apart, which are
then known by heart: on 2,100 articles 22 of them cost .029 nats, and .006 with this decay. Where
five columns said much, .002 of the .03 nats that they brought were lost."""
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
"""Epochs without a better validation likelihood after which it ends. A lower rate after them gained
nothing in nine fits of five logs: averaged weights are where it would lead."""
MEMBERS: Final = ((10_000, 4), (60_000, 3))
"""Members of a network by the training slates, below each of these numbers; above them one."""

N = TypeVar("N", bound=nn.Module)


def usual_members(slates: int) -> int:
    """Return how many members a network has by default, by the number of training slates."""
    return next((members for most, members in MEMBERS if slates < most), 1)


class Likelihood(Protocol):
    """What a network is fitted to."""

    def log_likelihood(self, network: Any, rows: Tensor) -> Tensor:
        """Return the log-probability of some choices: [R]."""


def mean_log_likelihood(choices: Likelihood, network: nn.Module, rows: Tensor) -> float:
    """Return the mean log-probability of choices [R], without gradient."""
    with torch.no_grad():
        parts = [choices.log_likelihood(network, part).sum() for part in torch.split(rows, 2_048)]
    return float(sum(parts)) / max(len(rows), 1)


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

        An item clicked before on the same slate is no option. For a further click, clicking nothing
        is no option either.
        """
        if self.several is None:
            return utilities, none
        taken, further = self.several.taken[cells], self.several.further[rows] > 0
        return utilities.masked_fill(taken, -torch.inf), none.masked_fill(further, -torch.inf)

    def to(self, device: torch.device | str) -> "Choices":
        """Return the same on a device."""
        several = None if self.several is None else self.several.to(device)
        return Choices(self.inputs.to(device), self.clicks.to(device), self.can_pass, several)


@dataclass(frozen=True)
class FittedNetwork(Generic[N]):
    """The network that predicts held-out choices best, and how well."""

    network: N
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
) -> FittedNetwork[SlateNetwork]:
    """Fit the network to the slates `training` [R]; keep what predicts `validation` [R'] best.

    On the device that the choices are on. The same seed gives the same network, bit for bit, on the
    CPU; a GPU adds in no fixed order.
    """
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        networks = [_begun(choices.inputs, groups, hidden) for _ in range(members)]
    networks = [network.to(choices.clicks.device) for network in networks]
    least, most = BATCHES
    batch = min(max(least, len(training) // STEPS), most)
    return fit_members(
        *(choices, networks, training, validation),
        merged=SlateNetwork.merged,
        batch=batch,
        epochs=EPOCHS,
        seed=seed,
        columns=choices.inputs.num_features - choices.inputs.items.shape[1],
    )


def fit_members(
    choices: Likelihood,
    networks: Sequence[N],
    training: Tensor,
    validation: Tensor,
    *,
    merged: Callable[[Sequence[N]], N],
    batch: int,
    epochs: int,
    seed: int,
    columns: int = 0,
) -> FittedNetwork[N]:
    """Fit networks to choices `training` [R], which are on their device, in steps of a batch.

    Keeps what `merged` makes of them where that predicts `validation` [R'] best. The last `columns`
    inputs of `of_item` are columns of items, whose weights decay faster.
    """
    climbs = [_Climb(choices, network, batch, columns) for network in networks]
    generator = torch.Generator().manual_seed(seed)
    best, waited = [copy.deepcopy(climb.average) for climb in climbs], 0
    values = [mean_log_likelihood(choices, merged(best), validation)]
    for _ in range(epochs):
        for climb in climbs:
            order = torch.randperm(len(training), generator=generator)
            climb.epoch(training[order.to(training.device)])
        averages = [climb.average for climb in climbs]
        values.append(mean_log_likelihood(choices, merged(averages), validation))
        if values[-1] >= max(values):
            waited, best = 0, copy.deepcopy(averages)
            continue
        waited += 1
        if waited == PATIENCE:
            break
    return FittedNetwork(merged(best), values)


def _begun(inputs: SlateInputs, groups: int, hidden: int) -> SlateNetwork:
    """Return a network to be fitted."""
    network = SlateNetwork(inputs.num_features, inputs.slates.shape[1], groups, hidden)
    with torch.no_grad():
        # As with groups: a column of items counts once it is learned, and adds no noise before.
        network.of_item.weight[:, inputs.items.shape[1] :] = 0
    return network


class _Climb(Generic[N]):
    """Steps of AdamW, and the average of the weights that they lead to."""

    def __init__(self, choices: Likelihood, network: N, batch: int, columns: int) -> None:
        self._batch = batch
        self._rate = RATE * max(1.0, batch / BATCHES[0]) ** 0.5
        self.average = copy.deepcopy(network)
        self._choices, self._network, self._steps = choices, network, 0
        of_item = network.get_parameter("of_item.weight")
        self._of_columns = of_item[:, of_item.shape[1] - columns :]  # a view: what moves is seen
        every = list(network.parameters())
        self._adams = [
            Adam([one for one in every if one.ndim > 1], decay=DECAY, fused=True),
            Adam([one for one in every if one.ndim < 2], fused=True),
        ]

    def epoch(self, rows: Tensor) -> None:
        """Run one pass over slates [R], in their order."""
        for part in torch.split(rows, self._batch):
            loss = -self._choices.log_likelihood(self._network, part).mean()
            for adam in self._adams:
                adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(self._network.parameters(), 1.0, foreach=True)
            rate = self._rate * min(1.0, (self._steps + 1) / WARM)
            for adam in self._adams:
                adam.step(rate)
            self._steps += 1
            # A constant share would keep the random start for hundreds of steps: early averages
            # forget faster, by 1/11, 2/12, … up to the final share.
            kept = min(AVERAGED, self._steps / (self._steps + 10))
            with torch.no_grad():
                self._of_columns.mul_(1 - COLUMN_DECAY * rate)
                average: list[Tensor] = list(self.average.parameters())
                latest: list[Tensor] = list(self._network.parameters())
                torch._foreach_lerp_(average, latest, 1 - kept)
