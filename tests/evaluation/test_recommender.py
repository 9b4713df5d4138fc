"""Ranks from scores: against a full sort, whatever the size of the pieces."""

import numpy as np
import pytest
import torch
from hypothesis import given

from slatewise.errors import SlatewiseError
from slatewise.evaluation import target_ranks, top_items
from tests.evaluation.drawing import seeds


@given(seed=seeds)
def test_ranks_and_best_items_agree_with_a_full_sort(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, items = int(rng.integers(1, 8)), int(rng.integers(1, 30))
    scores = torch.tensor(rng.integers(0, 6, (rows, items)), dtype=torch.float32)
    targets = torch.tensor(rng.integers(0, items, rows))
    order = scores.sort(dim=1, descending=True, stable=True).indices
    positions = 1 + (order == targets[:, None]).int().argmax(dim=1)
    for cells in (1, 2 * items, 10_000):
        ranks = target_ranks(lambda part: scores[part], targets, items, cells=cells)
        assert ranks.tolist() == positions.tolist()
    k = int(rng.integers(1, items + 1))
    assert top_items(scores, k).tolist() == order[:, :k].tolist()


@given(seed=seeds)
def test_excluded_items_leave_the_rest_in_order(seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = torch.tensor(rng.integers(0, 4, (3, 12)), dtype=torch.float32)
    exclude = torch.tensor(rng.random(12) < 0.4)
    left = int((~exclude).sum())
    if left:
        order = top_items(scores, 12)
        expected = [[item for item in row if not exclude[item]] for row in order.tolist()]
        assert top_items(scores, left, exclude).tolist() == expected
    with pytest.raises(SlatewiseError, match="available"):
        top_items(scores, left + 1, exclude)


def test_no_more_scores_are_asked_for_than_fit() -> None:
    asked = []

    def score(rows: slice) -> torch.Tensor:
        block = torch.rand(len(range(*rows.indices(50))), 40)
        asked.append(block.numel())
        return block

    target_ranks(score, torch.zeros(50, dtype=torch.int64), 40, cells=100)
    assert max(asked) <= 100
    assert sum(asked) == 50 * 40
