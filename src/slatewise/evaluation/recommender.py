"""What evaluation asks of a recommender, and exact ranks from scores in bounded memory."""

from collections.abc import Callable
from typing import Final, Protocol, runtime_checkable

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.evaluation.predictions import Predictions
from slatewise.words import counted

CELLS: Final = 1 << 24
"""Scores held at once by `target_ranks`: 64 MiB in float32."""


@runtime_checkable
class Predictor(Protocol):
    """Predicts the probability of each option of a slate before the user chooses."""

    def predict(self, interactions: Interactions, scored: Tensor) -> Predictions:
        """Predict the interactions that `scored` [N] bool marks, in their order.

        `interactions` are those of B users up to the end of the part that is scored; of them, only
        what the same user did strictly earlier may inform a prediction. Users are numbered 0..B-1.
        """
        ...


@runtime_checkable
class Ranker(Protocol):
    """Orders the whole catalogue for a user."""

    def rank(
        self,
        interactions: Interactions,
        k: int,
        *,
        exclude: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Return the k best items for each user, best first, after everything given: [B, k].

        Items that `exclude` [I] bool marks are left out, for everybody. `times` [B] are when they
        ask, in microseconds, for whoever ranks by what is popular then; None for right after.
        """
        ...

    def target_ranks(self, interactions: Interactions, scored: Tensor) -> Tensor:
        """Return where each next click stood among all I items just before it, 1 the best: [M].

        One rank for each interaction that `scored` [N] bool marks *and* that has a click.
        """
        ...


@runtime_checkable
class SlateRanker(Protocol):
    """A ranker that ranks the best items again, as the slate that they would be."""

    def for_slates_of(self, k: int) -> Ranker:
        """Return the same, where next clicks are ranked for slates of k items."""
        ...


class OnlyPredicts:
    """A recommender as a predictor, where its ranking is known from elsewhere."""

    def __init__(self, recommender: Predictor) -> None:
        self.predict = recommender.predict


def top_items(scores: Tensor, k: int, exclude: Tensor | None = None) -> Tensor:
    """Return the k items of greatest score, best first: scores [B, I] -> [B, k].

    Of equal scores the lower item number comes first, as in `target_ranks`.
    """
    require_items(k, scores.shape[1] - (int(exclude.sum()) if exclude is not None else 0))
    if exclude is not None:
        scores = scores.masked_fill(exclude, -torch.inf)
    best = scores.topk(min(k + 1, scores.shape[1]), dim=1)
    if bool((best.values.diff(dim=1) < 0).all()):
        return best.indices[:, :k]
    # topk alone would leave the order of equal scores to chance.
    least = scores.topk(k, dim=1).values[:, -1:]
    above, equal = scores > least, scores == least
    missing = k - above.sum(dim=1, keepdim=True)
    chosen = above | (equal & (equal.cumsum(dim=1) <= missing))
    items = chosen.nonzero()[:, 1].view(-1, k)
    order = scores.gather(1, items).sort(dim=1, descending=True, stable=True).indices
    return items.gather(1, order)


def require_items(k: int, available: int) -> None:
    """Refuse to rank more items than there are."""
    if k > available:
        raise SlatewiseError(
            f"{counted(k, 'item')} asked for, {available:,} available.", "Ask for fewer."
        )


def target_ranks(
    score: Callable[[slice], Tensor],
    targets: Tensor,
    num_items: int,
    *,
    cells: int = CELLS,
    again: Callable[[slice, Tensor, Tensor], Tensor] | None = None,
) -> Tensor:
    """Rank each target [M] among all items, 1 the best, holding about `cells` scores at once.

    `score(rows)` returns the scores [C, I] of those rows. Of equal scores the lower item number
    comes first. `again(rows, scores, ranks)` returns the ranks [C] that a second ranking makes of
    these.
    """
    ranks = torch.empty(len(targets), dtype=torch.int64, device=targets.device)
    step = max(1, cells // num_items)
    numbers = torch.arange(num_items, device=targets.device)
    for start in range(0, len(targets), step):
        rows = slice(start, start + step)
        scores, here = score(rows).to(targets.device), targets[rows, None].long()
        own = scores.gather(1, here)
        ranks[rows] = 1 + (scores > own).sum(dim=1)
        equal = scores == own
        if int(equal.sum()) > len(scores):  # more than the targets themselves
            ranks[rows] += (equal & (numbers < here)).sum(dim=1)
        if again is not None:
            ranks[rows] = again(rows, scores, ranks[rows])
    return ranks
