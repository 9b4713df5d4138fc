from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pytest

from slatewise.features.linear_choice import LinearChoice


def clicked(count: int, cells: Sequence[int] | npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
    shares = np.zeros(count)
    shares[cells] = 1
    return shares


def test_with_one_flag_the_weight_is_the_log_odds_of_its_share() -> None:
    flags = np.tile([[1.0], [0.0]], (100, 1))
    chosen = np.arange(0, 200, 2) + (np.arange(100) >= 80)  # the flagged item 80 times of 100
    choice = LinearChoice(flags, np.arange(0, 201, 2), clicked(200, chosen))
    weights = choice.fit()
    assert weights[0] == pytest.approx(np.log(4), abs=0.002)  # the prior pulls by less
    assert choice.log_likelihood(weights) == pytest.approx(
        80 * np.log(0.8) + 20 * np.log(0.2), abs=1e-3
    )


def test_the_weights_that_clicks_were_drawn_with_are_found() -> None:
    rng, true = np.random.default_rng(0), np.array([1.0, -0.5])
    lengths = rng.integers(2, 8, 5_000)
    offsets = np.concatenate([[0], lengths.cumsum()])
    features = rng.normal(size=(offsets[-1], 2))
    noisy = features @ true + rng.gumbel(size=offsets[-1])
    chosen = np.array([a + noisy[a:b].argmax() for a, b in pairwise(offsets)])
    choice = LinearChoice(features, offsets, clicked(len(features), chosen))
    weights = choice.fit()
    np.testing.assert_allclose(weights, true, atol=0.08)  # four standard errors
    assert choice.log_likelihood(weights) > choice.log_likelihood(true)


def test_a_constant_feature_gets_no_weight() -> None:
    choice = LinearChoice(np.ones((4, 1)), np.array([0, 2, 4]), clicked(4, [0, 3]))
    weights = choice.fit()
    assert weights[0] == 0
    assert choice.log_likelihood(weights) == pytest.approx(-2 * np.log(2))


def test_shares_of_a_choice_are_met_by_the_weights() -> None:
    shares = np.array([0.2, 0.3, 0.5])
    found = LinearChoice(np.eye(3), np.array([0, 3]), shares, sd=1e4).fit()
    np.testing.assert_allclose(np.exp(found) / np.exp(found).sum(), shares, atol=1e-6)


def test_no_click_is_an_option_of_every_slate_and_the_only_one_of_an_empty_one() -> None:
    items, no_click = np.array([[1.0], [2.0], [3.0]]), np.array([[0.5], [0.25], [0.0]])
    clicks, offsets = np.array([1, -1, -1]), np.array([0, 2, 2, 3])
    choice = LinearChoice.with_no_click(offsets, clicks, items, no_click)
    assert choice.features[:, 0].tolist() == [1.0, 2.0, 0.5, 0.25, 3.0, 0.0]
    assert choice.offsets.tolist() == [0, 3, 4, 6]
    assert choice.shares.tolist() == [0, 1, 0, 1, 0, 1]


def test_a_slate_may_be_without_the_option_of_no_click() -> None:
    choice = LinearChoice.with_no_click(
        np.array([0, 2, 4]),
        np.array([-1, 1]),
        np.array([[0.0], [0.0], [0.0], [1.0]]),
        np.array([[1.0], [9.0]]),
        can_pass=np.array([True, False]),
    )
    assert choice.offsets.tolist() == [0, 3, 5]
    assert choice.shares.tolist() == [0, 0, 1, 0, 1]
    assert choice.features[:, 0].tolist() == [0, 0, 1, 0, 1]


def test_the_first_weight_stays_at_its_bound_and_the_others_do_their_best() -> None:
    rng = np.random.default_rng(1)
    features, offsets = rng.normal(size=(600, 2)), np.arange(0, 601, 3)
    noisy = (features @ [-1.0, 1.0] + rng.gumbel(size=600)).reshape(-1, 3)
    choice = LinearChoice(features, offsets, clicked(600, offsets[:-1] + noisy.argmax(axis=1)))
    assert choice.fit()[0] < -0.5
    bound = choice.fit(least=0.0)
    alone = LinearChoice(features[:, 1:], offsets, choice.shares).fit()
    assert bound[0] == 0
    assert bound[1] == pytest.approx(alone[0], abs=1e-4)
