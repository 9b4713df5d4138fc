from itertools import pairwise

import numpy as np
import pytest

from slatewise.features.conditional_logit import ConditionalLogit


def test_with_one_flag_the_weight_is_the_log_odds_of_its_share() -> None:
    flags = np.tile([[1.0], [0.0]], (100, 1))
    chosen = np.arange(0, 200, 2) + (np.arange(100) >= 80)  # the flagged item 80 times of 100
    weights, value = ConditionalLogit(flags, np.arange(0, 201, 2), chosen).fit()
    assert weights[0] == pytest.approx(np.log(4), abs=0.002)  # the prior pulls by less
    assert value == pytest.approx(80 * np.log(0.8) + 20 * np.log(0.2), abs=1e-3)


def test_the_weights_that_clicks_were_drawn_with_are_found() -> None:
    rng, true = np.random.default_rng(0), np.array([1.0, -0.5])
    lengths = rng.integers(2, 8, 5_000)
    offsets = np.concatenate([[0], lengths.cumsum()])
    features = rng.normal(size=(offsets[-1], 2))
    noisy = features @ true + rng.gumbel(size=offsets[-1])
    chosen = np.array([a + noisy[a:b].argmax() for a, b in pairwise(offsets)])
    weights, value = ConditionalLogit(features, offsets, chosen).fit()
    np.testing.assert_allclose(weights, true, atol=0.08)  # four standard errors
    assert value > ConditionalLogit(features, offsets, chosen).log_likelihood(true)


def test_a_constant_feature_gets_no_weight() -> None:
    problem = ConditionalLogit(np.ones((4, 1)), np.array([0, 2, 4]), np.array([0, 3]))
    weights, value = problem.fit()
    assert weights[0] == 0
    assert value == pytest.approx(-2 * np.log(2))
