"""Exact ranking of posterior draws of all items (Section 4 of the paper)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.ranking import plain
from slatewise.ranking.additions import NO_ADDITIONS, AdditionArrays, Additions, arrays_of
from slatewise.ranking.columns import Floats32
from slatewise.ranking.filters import NO_FILTER, Filter, narrowed, rules
from slatewise.ranking.loops import drawing, heap
from slatewise.ranking.loops.pieces import Distance, Dot
from slatewise.ranking.request import (
    Floats,
    Function,
    Ranking,
    checked_known,
    checked_profiles,
    checked_seed,
    loops_of,
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
    additions: Additions = NO_ADDITIONS,
    *,
    relevance: str | Function = "distance",
) -> Ranking:
    """Rank the items for each profile [J, D] in a posterior draw of its own: [J, k].

    In draw j item i has the vector v_i ~ N(mean_i, diag scale_i²), the bias b_i ~ N(bias_i,
    bias_scale_i²) and the score b_i + w_j · x_i + o_ji + r(z_j, v_i), with weights w [J, P] and
    offsets o [J, m] of a few items, if there are any, and the relevance r: −‖z − v‖ ("distance"),
    z · v ("dot"), or any function, for which every item is drawn. Items whose vectors are known,
    since the profiles were computed from them, take these: items [C], vectors [J, C, D]. The same
    seed gives the same rankings. How few items are drawn, and why the law is that of drawing all,
    is in docs/thompson-proofs.md.
    """
    if not isinstance(relevance, str):
        known = filter, known_items, known_vectors, additions
        return plain.rank_draws(table, profiles, k, seed, *known, relevance=relevance)
    zs = checked_profiles(table, profiles, k, 2)
    items, vectors = checked_known(table, len(zs), known_items, known_vectors)
    added = arrays_of(table, additions, len(zs))
    part, filter, numbers = narrowed(table, filter)
    if numbers is not None:
        inside = np.isin(items, numbers)
        items = np.searchsorted(numbers, items[inside])
        vectors = np.ascontiguousarray(vectors[:, inside])
        added = added.within(numbers)
    drawn = _KnownVectors(items, vectors, added.offsets_of(items))
    added = added.without(items)
    loops = loops_of(relevance)
    heaps = _rank(loops, part, zs, k, checked_seed(seed), filter, drawn, added)
    return whole_ranking(heaps.scores, heaps.items, k, numbers)


class _KnownVectors(NamedTuple):
    """Items that have been drawn already."""

    items: Ints  # [C]
    vectors: Floats  # [J, C, D]
    offsets: Floats  # [J, C]


class _Heaps(NamedTuple):
    """The best so far in every draw, as the loops keep them."""

    held: Ints  # [J, G] or [J, 0]: items of each group
    sizes: Ints  # [J]
    scores: Floats  # [J, n]
    items: Ints  # [J, n]


def _rank(
    loops: Distance | Dot,
    table: ItemTable,
    zs: Floats32,
    k: int,
    seed: int,
    filter: Filter,
    known: _KnownVectors,
    added: AdditionArrays,
) -> _Heaps:
    num_items, columns = table.snapshot()
    rule = rules(table, filter)
    size, count = heap.room(columns, num_items, rule, k), len(zs)
    items, scores = no_ranking(count, size)
    held = np.zeros((count, len(rule.caps)), np.int64)
    heaps = _Heaps(held, np.zeros(count, np.int64), scores, items)
    if size and count:
        added = added.only(rule.passing(added.items))
        rest = rule.without(np.concatenate([known.items, added.items]))
        words = np.random.SeedSequence(seed).generate_state(5, np.uint64)
        random = words[:4], words[4:].view(np.int32)
        featured = added.weights.shape[1] > 0
        with table.scratch(columns.capacity * (1 + featured)) as room:
            nears, more = room[: columns.capacity], room[columns.capacity :]
            given = zs, known, added, nears, more if featured else columns.offers
            drawing.draw(loops, columns, num_items, rule, rest, *given, *random, heaps)
    return heaps
