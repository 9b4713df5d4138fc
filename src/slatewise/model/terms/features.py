"""Features of all terms together, for some users or for a whole log.

Shapes: N interactions, F items seen, P features of an item seen, Q of an interaction.
"""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.features.threads import in_threads, thread_limit
from slatewise.model.terms.term import Describe

_USERS: Final = 1 << 14
"""Users described at once, by all threads together."""
_IN_MEMORY: Final = 1 << 30
"""Bytes of features beyond which they are kept in a file."""


@dataclass(frozen=True)
class Describer:
    """Computes the features of interactions of one log."""

    of_items: Sequence[Describe]
    """terms that act on the items seen, in the order of their columns"""
    of_no_click: Sequence[Describe]
    """terms that act on clicking nothing"""

    def describe(self, interactions: Interactions) -> Interactions:
        """Return the interactions of some users with their features.

        They must begin where their users began: features are about all that came before.
        """
        return replace(
            interactions,
            cell_features=_side_by_side(self.of_items, interactions),
            step_features=_side_by_side(self.of_no_click, interactions),
        )

    def describe_all(self, dataset: SlateDataset) -> Interactions:
        """Return a whole dataset with its features: threads compute them for some users each."""
        everything = dataset.interactions()
        if not (self.of_items or self.of_no_click):
            return everything
        cells = steps = None

        def write(users: Tensor) -> None:
            nonlocal cells, steps
            part = self.describe(everything.of_users(users))
            first = int(everything.user_offsets[users[0]])
            if part.cell_features is not None:
                shape = len(everything.slate_items), part.cell_features.shape[1]
                cells = _room(*shape) if cells is None else cells
                start = int(everything.slate_offsets[first])
                cells[start : start + len(part.cell_features)] = part.cell_features
            if part.step_features is not None:
                shape = len(everything.clicks), part.step_features.shape[1]
                steps = _room(*shape) if steps is None else steps
                steps[first : first + len(part.step_features)] = part.step_features

        some = max(1, _USERS // thread_limit())
        pieces = torch.split(torch.arange(everything.num_users), some)
        write(pieces[0])  # how many columns there are
        in_threads(write, pieces[1:])
        return replace(everything, cell_features=cells, step_features=steps)


def _side_by_side(functions: Sequence[Describe], interactions: Interactions) -> Tensor | None:
    if not functions:
        return None
    return torch.cat([function(interactions) for function in functions], dim=1)


def _room(rows: int, columns: int) -> Tensor:
    """Return an empty matrix, in a file without a name if it is large."""
    if 4 * rows * columns <= _IN_MEMORY:
        return torch.empty(rows, columns)
    with tempfile.TemporaryFile() as file:
        return torch.from_numpy(np.memmap(file, np.float32, "w+", shape=(rows, columns)))
