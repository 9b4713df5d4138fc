"""The probability that a strategy shows an item at a position, for off-policy evaluation."""

from dataclasses import dataclass

import numpy as np

from slatewise.slates.slate import Doubles, Slate
from slatewise.slates.strategies import Ranker, Strategy
from slatewise.slates.users import Ints, Users

_AT_ONCE = 256


@dataclass(frozen=True)
class Propensities:
    """Monte Carlo estimates of the probability of each item at each position."""

    numbers: Ints
    """[R] every item that came up, ascending"""
    probability: Doubles
    """[R, k]"""
    standard_error: Doubles
    """[R, k] of the probability, from how many slates were drawn; never zero"""
    draws: int

    def of(self, slate: Slate) -> tuple[Doubles, Doubles]:
        """Return the probability of each item where the slate has it, and its standard error: [k].

        An item that never came up at that position has probability 0 and still an error.
        """
        rows = np.searchsorted(self.numbers, slate.numbers)
        rows = np.minimum(rows, len(self.numbers) - 1)
        positions = np.arange(len(slate))
        found = self.numbers[rows] == slate.numbers
        never = standard_error(np.zeros(1), self.draws)
        return (
            np.where(found, self.probability[rows, positions], 0.0),
            np.where(found, self.standard_error[rows, positions], never),
        )


def propensities(
    ranker: Ranker, strategy: Strategy, slate: Slate, draws: int, seed: int
) -> Propensities:
    """Make the slate `draws` times with fresh seeds and count the items at each position."""
    k = len(slate)
    shown = []
    for start in range(0, draws, _AT_ONCE):
        count = min(_AT_ONCE, draws - start)
        words = np.random.SeedSequence([seed, start]).generate_state(count, np.uint64)
        seeds = [int(word >> np.uint64(16)) for word in words]
        same = [slate.history] * count, [slate.filter] * count, seeds
        users = Users(*same, slate.source, slate.time)
        shown.append(strategy.slates(ranker, users, k))
    slates = np.concatenate(shown)  # [draws, k]
    numbers, rows = np.unique(slates, return_inverse=True)
    counts = np.zeros((len(numbers), k))
    np.add.at(counts, (rows.reshape(slates.shape), np.arange(k)), 1)
    real = numbers >= 0
    probability = counts[real] / draws
    return Propensities(numbers[real], probability, standard_error(probability, draws), draws)


def standard_error(probability: Doubles, draws: int) -> Doubles:
    """Return the standard error of a share, as if half a hit and half a miss more were seen.

    Without that, what never happened would be certain never to happen.
    """
    shrunk = (probability * draws + 0.5) / (draws + 1)
    return np.sqrt(shrunk * (1 - shrunk) / draws)
