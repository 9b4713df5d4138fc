"""Exact ranking of posterior draws of all items (Section 4 of the paper)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking.columns import Floats32
from slatewise.ranking.filters import NO_FILTER, Filter, narrowed, rules
from slatewise.ranking.loops import drawing, heap
from slatewise.ranking.request import (
    Floats,
    Ranking,
    checked_profiles,
    no_ranking,
    whole_ranking,
)
from slatewise.ranking.table import Ints, ItemTable


def rank_draws(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    seed: int,
    filter: Filter = NO_FILTER,
    known_items: npt.ArrayLike = (),
    known_vectors: npt.ArrayLike | None = None,
) -> Ranking:
    """Rank the items for each profile [J, D] in a posterior draw of its own: [J, k].

    In draw j item i has the vector v_i ~ N(mean_i, diag scale_i²) and the score
    bias_i − ‖z_j − v_i‖. Items whose vectors are known, since the profiles were computed from
    them, take these: items [C], vectors [J, C, D]. The same seed gives the same rankings. How
    few items are drawn, and why the law is that of drawing all, is in docs/thompson.md.
    """
    zs = checked_profiles(table, profiles, k, 2)
    if seed < 0:
        raise SlatewiseError(f"The seed {seed} is negative.", "Give a seed from 0 on.")
    known, vectors = _checked_known(table, zs, known_items, known_vectors)
    part, filter, numbers = narrowed(table, filter)
    if numbers is not None:
        inside = np.isin(known, numbers)
        known, vectors = np.searchsorted(numbers, known[inside]), vectors[:, inside]
    heaps = _rank(part, zs, k, seed, filter, known, vectors)
    return whole_ranking(heaps.scores, heaps.items, k, numbers)


class _Heaps(NamedTuple):
    """The best so far in every draw, as the loops keep them."""

    held: Ints  # [J, G] or [J, 0]: items of each group
    sizes: Ints  # [J]
    scores: Floats  # [J, n]
    items: Ints  # [J, n]


def _rank(
    table: ItemTable,
    zs: Floats32,
    k: int,
    seed: int,
    filter: Filter,
    known: Ints,
    vectors: Floats,
) -> _Heaps:
    num_items, columns = table.snapshot()
    rule = rules(table, filter)
    size, count = heap.room(columns, num_items, rule, k), len(zs)
    items, scores = no_ranking(count, size)
    held = np.zeros((count, len(rule.caps)), np.int64)
    heaps = _Heaps(held, np.zeros(count, np.int64), scores, items)
    if size and count:
        unknown = rule._replace(excluded=np.union1d(rule.excluded, known))
        words = np.random.SeedSequence(seed).generate_state(5, np.uint64)
        random = words[:4], words[4:].view(np.int32)
        with table.scratch(columns.capacity) as nears:
            given = zs, known, vectors, nears
            drawing.draw(columns, num_items, rule, unknown, *given, *random, heaps)
    return heaps


def _checked_known(
    table: ItemTable, zs: Floats32, items: npt.ArrayLike, vectors: npt.ArrayLike | None
) -> tuple[Ints, Floats]:
    known = table.checked(items)
    wanted = (len(zs), len(known), table.dimensions)
    values = np.zeros(wanted) if vectors is None else np.ascontiguousarray(vectors, np.float64)
    if values.shape != wanted or (vectors is None and len(known)):
        raise SlatewiseError(
            f"The vectors of {len(known)} known items in {len(zs)} draws are missing or have "
            f"another shape: {list(values.shape)}.",
            "Give known_vectors [J, C, D].",
        )
    if len(np.unique(known)) < len(known) or not np.isfinite(values).all():
        raise SlatewiseError(
            "A known item is named twice, or its vector is not finite.", "Give each once."
        )
    return known, values
