"""Slates of several strategies side by side, explained, for an invented user.

Made by the same core as every slate, explained by it, and kept nowhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from slatewise.features.user_history import UserHistory
from slatewise.service.insight.projection import Floats, Projection, projection_of
from slatewise.service.serving.live import Live
from slatewise.service.serving.request import Request
from slatewise.service.serving.users import UserLookup
from slatewise.slates.explanation import Reason, explain
from slatewise.slates.slate import Slate
from slatewise.slates.strategies import Strategy
from slatewise.slates.users import NO_FILTER, KnownUser, Users

DRAWS: Final = 50
"""Posterior draws behind the ranks of an explanation."""
STEPS: Final = 40
"""Newest slates of a user along which her path is drawn."""


@dataclass(frozen=True)
class TriedSlate:
    """What one strategy makes of a user."""

    strategy: str
    slate: Slate
    reasons: list[Reason]
    """[k]"""
    points: Floats
    """[k, 2] where its items are"""


@dataclass(frozen=True)
class Trial:
    """A user, where clicks took her, and what strategies would show."""

    version: str
    path: Floats
    """[V + 1, 2] where the posterior mean had her, from the beginning or from some slates ago"""
    spread: Floats
    """[2] standard deviations of where she is now"""
    clicked: list[tuple[str, str]]
    """id and group of what she clicked, oldest first"""
    unknown: list[str]
    slates: list[TriedSlate]


def try_strategies(
    live: Live,
    lookup: UserLookup,
    request: Request,
    strategies: Sequence[Strategy],
    seed: int,
    time: int,
) -> Trial:
    """Make and explain the slates of strategies for a user at a time, from one state of items."""
    return live.consistently(lambda: _try(live, lookup, request, strategies, seed, time))


def _try(
    live: Live,
    lookup: UserLookup,
    request: Request,
    strategies: Sequence[Strategy],
    seed: int,
    time: int,
) -> Trial:
    projection, user = projection_of(live), live.known(lookup)
    tried = [_slate(live, projection, user, request, one, seed, time) for one in strategies]
    history, catalogue = user.history, live.catalogue
    drawn = projection.of(live.maker.relevance.profiles(history))
    ids = map(str, catalogue.ids_of(history.clicked))
    return Trial(
        version=live.version,
        path=_path(live, projection, history),
        spread=drawn.std(axis=0),
        clicked=list(zip(ids, catalogue.groups_of(history.clicked), strict=True)),
        unknown=[str(item) for item in user.unknown],
        slates=tried,
    )


def _slate(
    live: Live,
    projection: Projection,
    user: KnownUser,
    request: Request,
    strategy: Strategy,
    seed: int,
    time: int,
) -> TriedSlate:
    slate = live.slate(replace(user), request, strategy, seed, time)
    reasons = explain(live.ranker, live.catalogue, slate, DRAWS) if len(slate) else []
    points = projection.of(live.table.means_of(slate.numbers))
    return TriedSlate(strategy.name, slate, reasons, points)


def _path(live: Live, projection: Projection, history: UserHistory) -> Floats:
    """Return where she was after each of her newest slates, and is now."""
    first = max(0, len(history) - STEPS)
    past = [history.until(slate) for slate in range(first, len(history))]
    steps = [*past, history]
    users = Users(steps, [NO_FILTER] * len(steps), [0] * len(steps))
    return projection.of(np.asarray(live.ranker.mean_profiles(users)))
