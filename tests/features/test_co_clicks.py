"""Neighbours of items, against plain counts."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from slatewise.data.interactions import Interactions
from slatewise.features import CoClicks, UserHistory
from slatewise.features import co_clicks as module
from tests.features.logs import past_of_user, random_log, slate

ITEMS, MANY = 8, 1_000
SEEDS = st.integers(0, 10_000)


def halved(seed: int) -> Interactions:
    """Return a log of which the first half of each user is for training."""
    log = random_log(seed)
    return replace(log, train_end=log.train_end // 2)


def training_sequences(log: Interactions) -> list[list[int]]:
    starts, ends = log.user_offsets[:-1], log.user_offsets[:-1] + log.train_end
    rows = [range(*bounds) for bounds in zip(starts.tolist(), ends.tolist(), strict=True)]
    return [[int(log.clicked_items[n]) for n in mine if log.clicks[n] >= 0] for mine in rows]


def slow_counts(sequences: list[list[int]]) -> tuple[Counter[tuple[int, int]], list[float]]:
    """Return the count of each pair of items, and t of each item."""
    counts: Counter[tuple[int, int]] = Counter()
    for clicks in sequences:
        for a, one in enumerate(clicks):
            for b, other in enumerate(clicks):
                if one != other and abs(a - b) <= 10:
                    counts[one, other] += 1 / abs(a - b)  # type: ignore[assignment]
    totals = [5 + sum(n for (j, _), n in counts.items() if j == item) for item in range(ITEMS)]
    return counts, totals


def slow_features(log: Interactions, *, without_own: bool) -> np.ndarray:
    sequences, out = training_sequences(log), []
    for n in range(len(log.clicks)):
        user = int(torch.searchsorted(log.user_offsets, n, right=True)) - 1
        trained = n - int(log.user_offsets[user]) < int(log.train_end[user])
        others = sequences[:user] + sequences[user + 1 :]
        counts, totals = slow_counts(others if without_own and trained else sequences)
        past = [m for m in past_of_user(log, n) if log.clicks[m] >= 0]
        clicked = [slate(log, m)[log.clicks[m]] for m in past][::-1]
        for item in slate(log, n):
            shares = [counts[j, item] / totals[j] for j in clicked]
            likeness = [counts[j, item] / (totals[j] * totals[item]) ** 0.5 for j in clicked]
            recent = sum(0.8**ago * share for ago, share in enumerate(shares[:20]))
            alike = sum(0.95**ago * each for ago, each in enumerate(likeness[:50]))
            out.append([sum(shares[:1]), recent, alike])
    return np.log1p(np.array(out).reshape(-1, 3) / [1e-3, 1e-3, 1e-2])


@given(SEEDS, st.booleans())
def test_every_cell_has_what_a_slow_count_finds(seed: int, without_own: bool) -> None:
    log = halved(seed)
    found = CoClicks.count(log, ITEMS, MANY).features(log, without_own=without_own)
    np.testing.assert_allclose(found, slow_features(log, without_own=without_own), atol=2e-3)


@given(SEEDS)
def test_a_live_history_has_the_features_of_the_log(seed: int) -> None:
    log = halved(seed)
    table = CoClicks.count(log, ITEMS, 3)
    of_log = table.features(log).numpy()
    for n in range(0, len(log.clicks), 3):
        user = int(torch.searchsorted(log.user_offsets, n, right=True)) - 1
        history = UserHistory.of_log(log, user, n - int(log.user_offsets[user]))
        items = np.array(slate(log, n))
        cells = slice(int(log.slate_offsets[n]), int(log.slate_offsets[n + 1]))
        np.testing.assert_allclose(table.met(history, items)[1], of_log[cells], atol=1e-6)
        near, features = table.met(history)
        assert (features[:, 2] > 0).all()
        every = table.met(history, np.arange(ITEMS))[1]
        np.testing.assert_array_equal(np.flatnonzero(every[:, 2]), near)


def test_only_the_neighbours_most_alike_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    log = random_log(4, users=50)
    whole, part = (CoClicks.count(log, ITEMS, most) for most in (MANY, 2))
    monkeypatch.setattr(module, "_PAIRS", 1)  # one item at a time
    by_item = CoClicks.count(log, ITEMS, 2)
    for item in range(ITEMS):
        rows, kept = (slice(*table.starts[item : item + 2]) for table in (whole, part))
        likeness = whole.shares[rows] / np.sqrt(whole.totals[whole.neighbours[rows]])
        best = np.sort(np.argsort(-likeness, kind="stable")[:2])
        assert part.neighbours[kept].tolist() == whole.neighbours[rows][best].tolist()
        assert part.shares[kept].tolist() == whole.shares[rows][best].tolist()
    for name, array in part.arrays.items():
        np.testing.assert_array_equal(by_item.arrays[name], array)


def test_items_that_came_after_the_count_have_no_neighbours() -> None:
    table = CoClicks.count(random_log(5, users=30), ITEMS, 3)
    new, old = UserHistory.of_clicks(np.array([ITEMS + 2])), UserHistory.of_clicks(np.array([1]))
    assert not len(table.met(new)[0])
    both = UserHistory.of_clicks(np.array([1, ITEMS + 2]))
    items, features = table.met(both, np.array([0, 2, ITEMS, ITEMS + 1]))
    assert (features[:, 0] == 0).all()  # the last click is the new item
    assert (features[:2, 1] <= table.met(old, items[:2])[1][:, 1]).all()
    assert (features[2:] == 0).all()
