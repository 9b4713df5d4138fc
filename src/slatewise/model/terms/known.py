"""What terms know of items beside their weights: from events, from a slate, from features."""

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array
from slatewise.features.popularity_state import CountedEvents

Floats = npt.NDArray[np.float32]
Facts = Mapping[str, npt.NDArray[Any]]
"""What a term reads of the features of items [R], by names of its own: [R, …] each."""
NO_FACTS: Final[Facts] = {}
NOBODY: Final = np.empty(0, np.int64)


class ItemState(Protocol):
    """What a term that ranks all items knows of them now; serving keeps it up to date."""

    def count(self, events: CountedEvents) -> None:
        """Take events into account one after the other, as they are given."""

    def grow(self, num_items: int) -> None:
        """Make room for `num_items` items; new ones have had no events."""

    def features(self, time: int) -> Floats:
        """Return the numbers of all items at a time that `FeatureTerm.of_rows` takes: [I, S].

        For most terms these are the features themselves.
        """

    @property
    def newest(self) -> int:
        """The time of the last event, before which the state cannot be asked."""

    @property
    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """The arrays of the state, [I, ...] by name; writing to them changes the state."""


class ListMoment(NamedTuple):
    """The moment of a list, and what a term that acts in lists knows of items then."""

    time: int
    """microseconds since 1970"""
    features: Callable[[Int64Array], Floats]
    """Returns what its state said of items [K] last, 0 for items without events: [K, P]."""

    def at(self, time: int | None) -> "ListMoment":
        """Return another moment, at which the same is known of items; itself for None."""
        return self if time is None else self._replace(time=time)


class ListFeatures(Protocol):
    """Features that a term that acts in lists gives K candidates for a slate to a user.

    What a position would add is left out.
    """

    def mean(self, shown: Int64Array) -> Floats:
        """Return their features where the candidates at `shown` [k] are the slate: [K, P].

        Any other is seen in the slate in place of the last of them.
        """

    def draws(self, shown: Int64Array, count: int, rng: np.random.Generator) -> Floats:
        """Return the same in J draws of what the term is uncertain of: [J, K, P]."""


class ItemColumn(NamedTuple):
    """A number that a term adds to every item, with its prior scales."""

    sigma: float
    """of the flat prior"""
    kappa: float
    """of group means and group scales in the hierarchical prior"""
