"""Item-based nearest neighbours for logs of clicks alone: what was clicked near the last clicks.

Two clicks of one user are together if at most `WINDOW` lie from one to the other; items are alike
by how often they were. The score of an item is its likeness to each of the last clicks, summed with
weights that fall with their age; popularity tells equals apart. Nothing is learned by gradient, and
of the settings in `TRIALS` the validation part chooses.

Shapes: N interactions, I items, L last clicks, C targets.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import torch
from scipy import sparse
from torch import Tensor

from slatewise import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.evaluation.parts import Part, part_bounds, scored_interactions
from slatewise.evaluation.recommender import target_ranks, top_items

WINDOW: Final = 10
K: Final = 20
Ints = npt.NDArray[np.int64]


class Settings(NamedTuple):
    """How many last clicks count, how fast their weight falls, and how far frequency is undone."""

    last: int
    decay: float
    power: float


TRIALS: Final = (
    Settings(5, 1.0, 0.0),
    Settings(5, 0.8, 0.5),
    Settings(10, 0.8, 0.5),
    Settings(10, 0.8, 0.25),
    Settings(20, 0.9, 0.5),
    Settings(20, 0.9, 0.25),
    Settings(5, 0.5, 0.25),
    Settings(50, 1.0, 0.5),
)
"""In the order in which they are tried."""


class Neighbours:
    """A `Ranker`."""

    def __init__(self, together: Any, clicks: npt.NDArray[np.float64], settings: Settings) -> None:
        """Take how often items were clicked together [I, I], and how often at all [I]."""
        scale = sparse.diags(np.maximum(clicks, 1) ** -settings.power)
        self.likeness = (scale @ together @ scale).tocsr().astype(np.float32)
        self.popularity = (1e-6 * clicks / clicks.max()).astype(np.float32)
        self.settings = settings

    @classmethod
    def fit(cls, dataset: SlateDataset, *, trials: int = 1) -> Self:
        """Count the training part, and choose the settings by recall of validation clicks."""
        training, judged = _part(dataset, "training"), _part(dataset, "validation")
        items = training.clicked_items.numpy().astype(np.int64)
        clicks = np.bincount(items, minlength=dataset.num_items).astype(np.float64)
        together: Any = sparse.csr_matrix((len(clicks), len(clicks)))
        for before in _last(training, WINDOW).T:
            rows, columns = items[before >= 0], before[before >= 0]
            there = (np.ones(len(rows)), (rows, columns))
            found = sparse.coo_matrix(there, shape=together.shape)
            together = together + found + found.T
        scored = scored_interactions(judged, "validation")
        fitted = [cls(together, clicks, one) for one in TRIALS[:trials]]
        recalls = [float((m.target_ranks(judged, scored) <= K).float().mean()) for m in fitted]
        return fitted[int(np.argmax(recalls))]

    def rank(
        self,
        interactions: Interactions,
        k: int,
        *,
        exclude: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Return the k best items after everything given: [B, k]; see `Ranker`."""
        ends = interactions.user_offsets[1:].numpy() - 1
        own = interactions.clicked_items.numpy().astype(np.int64)[ends, None]
        after = np.column_stack([own, _last(interactions, self.settings.last)[ends, :-1]])
        after[interactions.user_offsets.diff().numpy() == 0] = -1
        return top_items(self._scores(after)(slice(None)), k, exclude)

    def target_ranks(self, interactions: Interactions, scored: Tensor) -> Tensor:
        """Return the rank of each next click among all items; see `Ranker`."""
        before = _last(interactions, self.settings.last)[scored.numpy()]
        targets = interactions.clicked_items[scored].long()
        return target_ranks(self._scores(before), targets, len(self.popularity))

    def _scores(self, before: Ints) -> Callable[[slice], Tensor]:
        """Return what scores all items after the last clicks [C, L] of some rows."""
        weights = np.broadcast_to(self.settings.decay ** np.arange(before.shape[1]), before.shape)

        def score(rows: slice) -> Tensor:
            own, weight = before[rows], weights[rows]
            at, age = np.nonzero(own >= 0)
            shape = (len(own), len(self.popularity))
            recent = sparse.csr_matrix((weight[at, age], (at, own[at, age])), shape=shape)
            return torch.from_numpy((recent @ self.likeness).toarray() + self.popularity)

        return score


def _part(dataset: SlateDataset, part: Part) -> Interactions:
    """Return the users of a part, up to its end."""
    first, end = part_bounds(dataset, part)
    users = torch.from_numpy(np.flatnonzero((end > first).numpy()))
    return dataset.interactions().of_users(users, end[users])


def _last(interactions: Interactions, count: int) -> Ints:
    """Return the last items that were clicked before each interaction: [N, L], −1 for none."""
    items = interactions.clicked_items.numpy().astype(np.int64)
    lengths = interactions.user_offsets.diff().numpy()
    step = np.arange(len(items)) - np.repeat(interactions.user_offsets[:-1].numpy(), lengths)
    ages = np.arange(1, count + 1)
    index = np.maximum(np.arange(len(items))[:, None] - ages, 0)
    return np.where(step[:, None] >= ages, items[index], -1)
