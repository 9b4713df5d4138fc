"""What a request asks with, and what it gets."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking.columns import Floats32
from slatewise.ranking.loops.pieces import Distance, Dot
from slatewise.ranking.table import Ints, ItemTable

Floats = npt.NDArray[np.float64]
Function = Callable[[Floats, Floats], npt.ArrayLike]
"""The relevance [J, n] of item vectors [n, D] for profiles [J, D]."""
Spread = Callable[[Floats, Floats, Floats], tuple[Floats, Floats]]
"""Profiles [J, D'] and vectors [n, D'] whose relevance is that of uncertain items, of profiles
[J, D], means [n, D] and variances [n], summed over dimensions."""
T = TypeVar("T")

_LOOPS: dict[str, Distance | Dot] = {"distance": Distance(), "dot": Dot()}


def loops_of(relevance: str) -> Distance | Dot:
    """Return which compiled loops rank by a relevance: −‖z − v‖ or z · v."""
    try:
        return _LOOPS[relevance]
    except KeyError as error:
        raise SlatewiseError(
            f"No compiled loops rank by the relevance '{relevance}'.",
            f"Give {' or '.join(_LOOPS)}, or a function of profiles [J, D] and vectors [n, D].",
        ) from error


class Ranking(NamedTuple):
    """The best items, best first; of equal scores the lower item number comes first."""

    items: Ints
    """Item numbers [..., k]; -1 where there are fewer items than k."""
    scores: Floats
    """Their scores [..., k]; -inf where there is no item."""


def no_ranking(*shape: int) -> Ranking:
    """Return an empty ranking."""
    return Ranking(np.full(shape, -1), np.full(shape, -np.inf))


def whole_ranking(scores: Floats, items: Ints, k: int, numbers: Ints | None) -> Ranking:
    """Fill the best [..., n] up to k; item i is numbers[i] of the whole table (None: i)."""
    if numbers is not None:
        items = numbers[items]
    found = items.shape[-1]
    if found == k:
        return Ranking(items, scores)
    shape = (*items.shape[:-1], k)
    ranking = no_ranking(*shape)
    ranking.items[..., :found] = items
    ranking.scores[..., :found] = scores
    return ranking


def checked_profiles(table: ItemTable, profiles: npt.ArrayLike, k: int, axes: int) -> Floats32:
    """Check profiles [..., D] with this many axes, and the number k; return them as floats."""
    if k < 1:
        raise SlatewiseError(f"A ranking of {k} items was asked for.", "Ask for one or more.")
    rows: npt.NDArray[Any] = np.ascontiguousarray(profiles, np.float32)
    if rows.ndim != axes or rows.shape[-1] != table.dimensions:
        raise SlatewiseError(
            f"Profiles have the shape {list(rows.shape)}.",
            f"Give {'[n, D]' if axes == 2 else '[D]'} with D = {table.dimensions}.",
        )
    if not np.isfinite(rows).all():
        raise SlatewiseError("A profile is not finite.", "Look where it was computed.")
    return rows


def one_per_profile(given: Sequence[T] | T, profiles: Floats32 | Floats, name: str) -> list[T]:
    """Return a list with one entry a profile, repeating a single one for all."""
    if not isinstance(given, Sequence):
        return [given] * len(profiles)
    if len(given) != len(profiles):
        raise SlatewiseError(
            f"There are {len(given)} {name} for {len(profiles)} profiles.", "Give one for each."
        )
    return list(given)


def checked_seed(seed: int) -> int:
    """Return a seed, refusing a negative one."""
    if seed < 0:
        raise SlatewiseError(f"The seed {seed} is negative.", "Give a seed from 0 on.")
    return seed


def checked_known(
    table: ItemTable, draws: int, items: npt.ArrayLike, vectors: npt.ArrayLike | None
) -> tuple[Ints, Floats]:
    """Check items [C] whose vectors [J, C, D] in J draws are known; return both."""
    known = table.checked(items)
    wanted = (draws, len(known), table.dimensions)
    values = np.zeros(wanted) if vectors is None else np.ascontiguousarray(vectors, np.float64)
    if values.shape != wanted or (vectors is None and len(known)):
        raise SlatewiseError(
            f"The vectors of {len(known)} known items in {draws} draws are missing or have "
            f"another shape: {list(values.shape)}.",
            "Give known_vectors [J, C, D].",
        )
    in_order = (known[1:] > known[:-1]).all()  # then each is there once
    if not (in_order or len(np.unique(known)) == len(known)) or not np.isfinite(values).all():
        raise SlatewiseError(
            "A known item is named twice, or its vector is not finite.", "Give each once."
        )
    return known, values
