"""Why an item is in a slate."""

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from slatewise.model.fitted import ItemId
from slatewise.slates.catalogue import Catalogue
from slatewise.slates.exact import ExactRanker
from slatewise.slates.slate import Slate
from slatewise.slates.strategies import STRATEGIES
from slatewise.slates.users import Ints

DEPTH = 200
"""Depth to which ranks are computed; an item below it is out of reach in any case."""
_FRESH = 1 << 60


@dataclass(frozen=True)
class Reason:
    """Why an item is in a slate."""

    item: ItemId
    group: str
    relevance: float
    """expected relevance"""
    uncertainty: float
    """posterior standard deviation of the relevance"""
    greedy_rank: int | None
    """rank by the closed form among all that could be shown; None below the first 200"""
    ranks: tuple[int | None, int | None, int | None]
    """10 %, 50 % and 90 % of the posterior of its rank; None below the first 200"""
    nearest_click: ItemId | None
    """the item of the user's history to which it is most relevant: the closest, by distance"""
    views: int
    """how often it was seen in training"""
    adds: dict[str, float]
    """what each term adds to its utility in closed form, by name; `distance` takes away"""
    shown_as: Literal["good", "chance", "uncertain"]
    """good if being greedy would have shown it too; chance if an ε-mix drew it; else it is here
    because it might be better than its mean"""


def explain(ranker: ExactRanker, catalogue: Catalogue, slate: Slate, draws: int) -> list[Reason]:
    """Explain each item of a slate: its ranks, their uncertainty, and why it is shown."""
    depth = max(DEPTH, len(slate))
    by_mean = ranker.by_mean(slate.user, depth, len(slate))[0]
    # New draws: those that made the slate are biased towards what they chose.
    fresh = replace(slate.user, seeds=[slate.seed + _FRESH])
    drawn = ranker.by_draws(fresh, depth, draws, len(slate))[0]  # [J, depth]
    quantiles = rank_quantiles(drawn, slate.numbers)
    nearest = nearest_clicks(ranker, slate.history.clicked, slate.numbers)
    parts = ranker.slate_parts(slate.user, slate.numbers)
    views = catalogue.views_of(slate.numbers)
    drawn_by_chance = _by_chance(ranker, slate)
    reasons = []
    for position, number in enumerate(slate.numbers):
        found = np.flatnonzero(by_mean == number)
        greedy_rank = int(found[0]) + 1 if len(found) else None
        click = nearest[position]
        reasons.append(
            Reason(
                item=slate.items[position],
                group=slate.groups[position],
                relevance=float(slate.relevance[position]),
                uncertainty=float(slate.uncertainty[position]),
                greedy_rank=greedy_rank,
                ranks=quantiles[position],
                nearest_click=None if click is None else catalogue.ids_of(np.array([click]))[0],
                views=int(views[position]),
                adds={name: float(values[position]) for name, values in parts.items()},
                shown_as=_shown_as(greedy_rank, len(slate), chance=number in drawn_by_chance),
            )
        )
    return reasons


def _shown_as(
    greedy_rank: int | None, k: int, *, chance: bool
) -> Literal["good", "chance", "uncertain"]:
    if greedy_rank and greedy_rank <= k:
        return "good"
    return "chance" if chance else "uncertain"


def _by_chance(ranker: ExactRanker, slate: Slate) -> set[int]:
    """Return the items that chance had for an ε-mix, which depend on its seed alone."""
    if not getattr(STRATEGIES.get(slate.strategy), "fills_at_random", False):
        return set()
    return set(ranker.at_random(slate.user, len(slate))[0].tolist())


def rank_quantiles(rankings: Ints, items: Ints) -> list[tuple[int | None, int | None, int | None]]:
    """Return the 10 %, 50 % and 90 % quantile of the ranks of items [k] in rankings [J, L].

    An item that is not in a ranking is below it.
    """
    below = rankings.shape[1] + 1
    hits = rankings[:, :, None] == items  # [J, L, k]
    ranks = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1, below)  # [J, k]
    marks = np.quantile(ranks, [0.1, 0.5, 0.9], axis=0, method="lower").astype(int)  # [3, k]
    bounded = [[None if rank == below else rank for rank in row] for row in marks.tolist()]
    return list(zip(*bounded, strict=True))


def nearest_clicks(ranker: ExactRanker, clicks: Ints, items: Ints) -> list[int | None]:
    """Return the click of which each item [k] is most relevant to a user there, by means."""
    if not len(clicks):
        return [None] * len(items)
    vectors, past = ranker.table.means_of(items), ranker.table.means_of(clicks)
    near = ranker.relevance.of_arrays(past, vectors[:, None])  # [k, C]
    return [int(clicks[index]) for index in near.argmax(axis=1)]
