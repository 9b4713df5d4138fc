"""Policies that fill recommendation slates; they see click histories and never the truth."""

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.simulation.arrays import Doubles, Ints
from slatewise.simulation.catalogue import Catalogue
from slatewise.simulation.life import Life


@runtime_checkable
class Policy(Protocol):
    """Anything that turns click histories into slates."""

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return slates [B, k] of distinct items for users with the given histories.

        `history` [B, T] holds the item clicked in each interaction, oldest first, and −1 where
        there was no click; T may be 0, and rows of users with fewer interactions end in −1.
        """


@runtime_checkable
class TimedPolicy(Protocol):
    """A policy of a world where items come and go: it gets the time as well."""

    def recommend_at(self, history: Ints, k: int, hours: Doubles, rng: np.random.Generator) -> Ints:
        """Return slates [B, k] of items that are alive at `hours` [B], otherwise as `Policy`."""


class RandomPolicy:
    """Items from the whole catalogue, by exposure."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return exposure-weighted random slates, [B, k]."""
        return self._catalogue.complete(self._catalogue.draw((len(history), k), rng), k, rng)


class PromotedPolicy:
    """The most exposed items of the catalogue, the same for every user."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._order = np.argsort(-catalogue.exposure, kind="stable")

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return the same slate for every user, [B, k]."""
        return np.tile(self._order[:k], (len(history), 1))


class MoreLikeThisPolicy:
    """Items of the group of the last click, by exposure; random before the first click."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        """Return slates of one group each, filled up from the catalogue if it is small, [B, k]."""
        last = last_clicks(history)  # [B]
        # More draws than positions: the popular items of a group come up again and again.
        any_group = self._catalogue.draw_groups((len(history), 3 * k), rng)  # [B, 3k]
        groups = np.where(last[:, None] >= 0, self._catalogue.group[last][:, None], any_group)
        return self._catalogue.complete(self._catalogue.draw_in(groups, rng), k, rng)


class FrontPagePolicy:
    """Items that are alive, drawn with more weight on the newest."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def recommend_at(self, history: Ints, k: int, hours: Doubles, rng: np.random.Generator) -> Ints:
        """Return a page of its own for every user, [B, k]."""
        return self._life.draw(hours, k, rng)


class PromotedPagePolicy:
    """The newest items that are alive, the same for everybody who comes at the same time."""

    def __init__(self, life: Life) -> None:
        self._life = life

    def recommend_at(self, history: Ints, k: int, hours: Doubles, rng: np.random.Generator) -> Ints:
        """Return the same page for every user of an hour, [B, k]."""
        _, end = self._life.span(hours, k)
        return np.asarray(self._life.order[end[:, None] - 1 - np.arange(k)])


def last_clicks(history: Ints) -> Ints:
    """Return the last clicked item of each history [B, T], −1 if there is none: [B]."""
    users, steps = history.shape
    if steps == 0:
        return np.full(users, -1, dtype=np.int64)
    newest = steps - 1 - np.argmax(history[:, ::-1] >= 0, axis=1)
    return np.asarray(history[np.arange(users), newest])


_NAMED: Final[dict[str, Callable[[Catalogue], Policy]]] = {
    "random": RandomPolicy,
    "promoted": PromotedPolicy,
    "more-like-this": MoreLikeThisPolicy,
}


def named_policy(name: str, catalogue: Catalogue) -> Policy:
    """Return the policy that goes by `name`, for this catalogue."""
    if name not in _NAMED:
        raise SlatewiseError(f"There is no policy '{name}'.", f"Choose one of {', '.join(_NAMED)}.")
    return _NAMED[name](catalogue)
