"""What slates without a click say of the user who saw them; the paper's model has none of it.

Such a slate, once it is past, moves the state a fraction ρ of the way that a click on the mean of
its items would show, and every source of slates has a ρ of its own. What people searched for tells
of their intent, clicked or not: ρ > 0. A recommendation that nobody wanted may speak against its
items: ρ < 0, and then only as far as these were close.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from slatewise.errors import SlatewiseError


class Evidence(NamedTuple):
    """Which sources move users without a click, and how far."""

    place: Tensor
    """[number of sources] place of each source among the fractions, −1 for one that does not"""
    fractions: Tensor
    """[E] ρ between −1 and 1; [J, E] for J draws"""


def places_of(evidence: Sequence[str], sources: Sequence[str]) -> Tensor:
    """Return the place of each source of a log in `evidence`, −1 for none: [number of sources]."""
    missing = [name for name in evidence if name not in sources]
    if missing:
        raise SlatewiseError(
            f"evidence names the source '{missing[0]}', from which no slate comes.",
            f"Name some of {', '.join(sources)}." if sources else "Leave evidence empty.",
        )
    place = {name: number for number, name in enumerate(evidence)}
    return torch.tensor([place.get(name, -1) for name in sources], dtype=torch.int64)


def slate_share(fraction: Tensor, gap: Tensor) -> Tensor:
    """Return the share of the way `gap` [..., d_h] from a state to a slate that it is moved.

    That is ρ `fraction` [..., 1]; below 0, ρ times the relevance exp(−‖gap‖). Pushed by as much
    however far away, a user with many unclicked slates would be gone for good.
    """
    relevance = torch.exp(-torch.linalg.vector_norm(gap, dim=-1, keepdim=True))
    return torch.where(fraction > 0, fraction, fraction * relevance)
