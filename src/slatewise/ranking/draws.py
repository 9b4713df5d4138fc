"""Exact ranking of posterior draws of all items (Section 4 of the paper)."""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError
from slatewise.ranking import _numba as loops
from slatewise.ranking.columns import LANES, Columns, Floats32
from slatewise.ranking.filters import Filter, Rules, narrowed, rules
from slatewise.ranking.request import Floats, Ranking, checked_profiles, sorted_ranking
from slatewise.ranking.table import Ints, ItemTable

_NO_FILTER = Filter()
_PILOT_TIMES, _PILOT_LEAST = 4, 64
"""The pilot is this many times a ranking, and at least so many items."""


def rank_draws(
    table: ItemTable,
    profiles: npt.ArrayLike,
    k: int,
    seed: int,
    filter: Filter = _NO_FILTER,
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
    known, vectors = _checked_known(table, zs, known_items, known_vectors)
    part, filter, numbers = narrowed(table, filter)
    if numbers is not None:
        inside = np.isin(known, numbers)
        known, vectors = np.searchsorted(numbers, known[inside]), vectors[:, inside]
    return _rank(part, zs, k, seed, filter, known, vectors).renumbered(numbers)


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
) -> Ranking:
    num_items, columns = table.snapshot()
    rule = rules(table, filter)
    size = loops.room(columns.offers, columns.groups, num_items, *rule, k)
    count = len(zs)
    heaps = _Heaps(
        held=np.zeros((count, len(rule.caps)), np.int64),
        sizes=np.zeros(count, np.int64),
        scores=np.empty((count, size)),
        items=np.empty((count, size), np.int64),
    )
    if size and count:
        given = num_items, zs, known, vectors
        loops.keep_known(columns.offers, columns.groups, *given, *rule, *heaps)
        unknown = rule._replace(excluded=np.union1d(rule.excluded, known))
        _draw(num_items, columns, zs, seed, unknown, heaps)
    return sorted_ranking(heaps.scores, heaps.items, k)


def _draw(
    num_items: int, columns: Columns, zs: Floats32, seed: int, rule: Rules, heaps: _Heaps
) -> None:
    """Survey all items from the middle of the profiles, then draw those that matter."""
    centre = zs.mean(0, dtype=np.float64).astype(np.float32)
    gaps = np.linalg.norm(zs.astype(np.float64) - centre, axis=1)
    wander = np.float32(4 * np.square(gaps).mean() / zs.shape[1])
    nears = np.empty(columns.capacity, np.float32)
    pilot = _pilot(num_items, columns, centre, wander, rule, heaps.scores.shape[1], nears)
    rest = rule._replace(excluded=np.union1d(rule.excluded, pilot))
    tables = columns.means, columns.scales, columns.spreads, columns.offers, columns.groups
    spread = np.float32(gaps.max() * (1 + 1e-5))
    around = zs, _blocks(zs), spread, nears, pilot
    words = np.random.SeedSequence(seed).generate_state(5, np.uint64)
    keys = words[4:].view(np.int32)
    loops.thin(*tables, num_items, *around, *rest, words[:4], keys, *heaps)


def _pilot(
    num_items: int,
    columns: Columns,
    centre: Floats32,
    wander: np.float32,
    rule: Rules,
    size: int,
    nears: Floats32,
) -> Ints:
    """Fill the squared distances [C]; return items that fill every heap, most hopeful first.

    With all caps as many times larger as there are more places than in a heap, the pilot fills a
    heap within its caps.
    """
    times = max(_PILOT_TIMES, -(-_PILOT_LEAST // size))
    caps = np.where(rule.caps < 0, -1, rule.caps * times)
    scores, items = np.empty(size * times), np.empty(size * times, np.int64)
    tables = columns.means, columns.offers, columns.spreads, columns.groups
    filter = rule.excluded, rule.allowed, caps
    found = loops.survey(*tables, num_items, centre[None], wander, *filter, nears, scores, items)
    hopeful: Ints = sorted_ranking(scores[:found], items[:found], found).items
    return hopeful


def _blocks(rows: Floats32) -> Floats32:
    """Lay profiles [J, D] out as the means of items are: [ceil(J / 16), D, 16]."""
    blocks = np.zeros((-(-len(rows) // LANES), LANES, rows.shape[1]), np.float32)
    blocks.reshape(-1, rows.shape[1])[: len(rows)] = rows
    return np.ascontiguousarray(blocks.transpose(0, 2, 1))


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
