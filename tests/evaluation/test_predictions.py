"""Predictions: what is refused, and which interactions are scored from what."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given

from slatewise.data.ragged import offsets_of
from slatewise.errors import SlatewiseError
from slatewise.evaluation import Predictions, part_bounds, scored_interactions
from tests.evaluation.drawing import random_interactions, random_predictions, rows_of, seeds


@given(seed=seeds)
def test_softmax_over_the_slate_and_no_click(seed: int) -> None:
    rng = np.random.default_rng(seed)
    base = random_predictions(rng)
    utilities, no_click = rng.normal(size=len(base.items)) * 50, rng.normal(size=len(base)) * 50
    made = Predictions.from_utilities(base, utilities, no_click)
    for row, none, got, got_none in zip(
        rows_of(base, utilities),
        no_click.tolist(),
        rows_of(base, made.log_probabilities),
        made.no_click_log_probabilities.tolist(),
        strict=True,
    ):
        expected = torch.tensor([none, *row], dtype=torch.float64).log_softmax(0)
        assert np.allclose([got_none, *got], expected)
    assert np.all(made.click_probabilities() >= 0)


def test_what_is_not_a_probability_is_refused() -> None:
    good = random_predictions(np.random.default_rng(1))
    with pytest.raises(SlatewiseError, match="add up to 1"):
        replace(good, no_click_log_probabilities=good.no_click_log_probabilities - 1)
    with pytest.raises(SlatewiseError, match="not finite"):
        replace(good, log_probabilities=np.full_like(good.log_probabilities, -np.inf))
    with pytest.raises(SlatewiseError, match="one log-probability per item"):
        replace(good, log_probabilities=good.log_probabilities[1:])
    with pytest.raises(SlatewiseError, match="differ in length"):
        replace(good, users=good.users[1:])


def test_an_empty_slate_can_only_be_left_alone() -> None:
    slates = replace(
        random_predictions(np.random.default_rng(0)),
        users=np.zeros(2, dtype=np.int64),
        sources=np.zeros(2, dtype=np.uint8),
        clicks=np.array([-1, 0], dtype=np.int32),
        offsets=np.array([0, 0, 1]),
        items=np.zeros(1, dtype=np.int32),
        log_probabilities=np.log([0.5]),
        no_click_log_probabilities=np.log([1.0, 0.5]),
    )
    made = Predictions.from_utilities(slates, [0.0], [3.0, 0.0])
    assert np.allclose(made.log_likelihood(), np.log([1.0, 0.5]))


@given(seed=seeds)
def test_batches_put_together_are_the_whole(seed: int) -> None:
    rng = np.random.default_rng(seed)
    first, second = random_predictions(rng), random_predictions(rng)
    second = second.of_users(np.arange(10, 20))
    whole = Predictions.concatenate([first, second])
    likelihood = np.concatenate([first.log_likelihood(), second.log_likelihood()])
    assert np.array_equal(whole.log_likelihood(), likelihood)
    assert whole.users.tolist() == [*first.users, *second.users]
    assert np.array_equal(
        whole.offsets, offsets_of(np.concatenate([first.scroll_lengths, second.scroll_lengths]))
    )


@given(seed=seeds)
def test_parts_cover_every_interaction_once(seed: int) -> None:
    data = random_interactions(np.random.default_rng(seed))
    masks = [scored_interactions(data, part) for part in ("training", "validation", "test")]
    assert torch.stack(masks).sum(0).tolist() == [1] * len(data.clicks)
    for user in range(data.num_users):
        start, stop = data.user_offsets[user : user + 2].tolist()
        assert int(masks[0][start:stop].sum()) == data.train_end[user]
        assert int(masks[1][start:stop].sum()) == data.valid_end[user] - data.train_end[user]
        assert masks[0][start : start + int(data.train_end[user])].all()
        assert masks[2][start + int(data.valid_end[user]) : stop].all()


@given(seed=seeds)
def test_prefixes_are_what_came_first(seed: int) -> None:
    rng = np.random.default_rng(seed)
    data = random_interactions(rng)
    users = torch.tensor(rng.permutation(data.num_users)[:4])
    whole = data.of_users(users)
    _, end = part_bounds(whole, "validation")
    cut = data.of_users(users, end)
    for index in range(4):
        there, here = int(whole.user_offsets[index]), int(cut.user_offsets[index])
        for step in range(int(end[index])):
            assert cut.clicked_items[here + step] == whole.clicked_items[there + step]
            assert cut.times[here + step] == whole.times[there + step]
            assert cut.sources[here + step] == whole.sources[there + step]
            assert cut.scroll_lengths[here + step] == whole.scroll_lengths[there + step]
    assert len(cut.clicks) == int(end.sum())
