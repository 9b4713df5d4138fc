"""Small worlds, and drawing and sorting everything in them, many draws at once."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.ranking import Additions, Filter, ItemTable, Ranking
from slatewise.ranking.additions import NO_ADDITIONS

Array = npt.NDArray[Any]


def distances(profiles: Array, vectors: Array) -> Array:
    """Return −‖z − v‖ of profiles [..., 1, D] and vectors [..., I, D], or of [J, D] and [I, D]."""
    gaps = (profiles[:, None] if profiles.ndim == 2 else profiles) - vectors
    result: Array = -np.sqrt(np.square(gaps).sum(-1))
    return result


def dots(profiles: Array, vectors: Array) -> Array:
    """Return z · v of the same."""
    result: Array = ((profiles[:, None] if profiles.ndim == 2 else profiles) * vectors).sum(-1)
    return result


def with_spread(profiles: Array, means: Array, variances: Array) -> tuple[Array, Array]:
    """Return profiles [J, D + 1] and means [n, D + 1] whose distance knows the spread."""
    return np.pad(profiles, [(0, 0), (0, 1)]), np.column_stack([means, np.sqrt(variances)])


SPREADS = {"distance": with_spread, "dot": None}
RELEVANCES = {"distance": distances, "dot": dots}


class World(NamedTuple):
    """A small catalogue and the table made of it."""

    means: Array
    scales: Array
    biases: Array
    groups: Array
    table: ItemTable
    bias_scales: Any = 0.0


def make_world(
    num_items: int = 300,
    dimensions: int = 5,
    scale: float = 0.2,
    bias: float = 0.0,
    num_groups: int = 4,
    seed: int = 0,
) -> World:
    """Make items around the origin, with scales that differ by item and dimension."""
    rng = np.random.default_rng(seed)
    means = rng.normal(size=(num_items, dimensions)).astype(np.float32)
    wide = np.exp(0.4 * rng.normal(size=(num_items, dimensions)))
    scales = (scale * wide).astype(np.float32)
    biases = (bias * rng.normal(size=num_items)).astype(np.float32)
    groups = rng.integers(0, num_groups, num_items)
    table = ItemTable.create(means, scales, biases, groups)
    return World(means, scales, biases, groups, table)


def top(scores: Array, groups: Array, k: int, filter: Filter, available: Array) -> Ranking:
    """Take the best of scores [n, I] one after the other, within filter and caps: [n, k]."""
    left = np.where(available, scores, -np.inf)
    left[:, np.asarray(filter.exclude, int)] = -np.inf
    if filter.allow is not None:
        left[:, np.setdiff1d(np.arange(left.shape[1]), filter.allow)] = -np.inf
    draws, every = np.arange(len(left)), np.asarray(filter.caps if filter.caps is not None else [])
    room = np.tile(np.where(every < 0, k, every), (len(left), 1))
    items, best = np.full((len(left), k), -1), np.full((len(left), k), -np.inf)
    for rank in range(k):
        allowed = room[:, groups] > 0 if len(every) else True
        open_ = np.where(allowed, left, -np.inf)
        chosen = open_.argmax(1)
        found = open_[draws, chosen] > -np.inf
        items[found, rank] = chosen[found]
        best[found, rank] = open_[draws, chosen][found]
        left[draws, chosen] = -np.inf
        if len(every):
            room[draws, groups[chosen]] -= 1
    return Ranking(items, best)


def with_bias_scales(world: World, bias_scales: Any) -> World:
    """Return the same items, but unsure of their biases."""
    scales = np.broadcast_to(np.float32(bias_scales), len(world.means))
    table = ItemTable.create(*world[:4], bias_scales=scales)
    return world._replace(table=table, bias_scales=scales)


def added_scores(world: World, additions: Additions, count: int) -> Array:
    """Return what a request adds to every score: [count, I]."""
    total = np.zeros((count, len(world.means)))
    if additions.weights is not None:
        features = world.table.features_of(np.arange(len(world.means))).astype(float)
        total += np.asarray(additions.weights) @ features.T
    if additions.offsets is not None:
        total[:, np.asarray(additions.items, int)] += additions.offsets
    return total


def draw_scores(
    world: World,
    profiles: Array,
    rng: np.random.Generator,
    known: Any = (),
    vectors: Any = None,
    additions: Additions = NO_ADDITIONS,
    relevance: str = "distance",
) -> Array:
    """Return the scores [J, I] of fresh draws of all items, one for each profile."""
    drawn = rng.normal(size=(len(profiles), *world.means.shape)) * world.scales + world.means
    if len(known):
        drawn[:, np.asarray(known)] = vectors
    biases = world.biases + world.bias_scales * rng.normal(size=drawn.shape[:2])
    result: Array = biases + RELEVANCES[relevance](profiles[:, None], drawn)
    return result + added_scores(world, additions, len(profiles))
