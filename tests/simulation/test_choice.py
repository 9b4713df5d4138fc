from collections.abc import Callable
from math import exp, log

import numpy as np
import pytest

from slatewise.simulation import Marketplace, Users
from slatewise.simulation.choice import ChoiceProbabilities, draw_positions

from .conftest import TRUTHS

Make = Callable[..., Marketplace]


def transcribed(
    market: Marketplace, users: Users, user: int, slate: list[int], scroll: int
) -> tuple[list[float], float]:
    """The choice of one user, written out from the definitions one item at a time."""
    config, relevance = market.config, []
    for position, item in enumerate(slate[:scroll], start=1):
        z, v = users.state[user].tolist(), market.space.vectors[item].tolist()
        if config.truth == "paper":
            utility = -(sum((a - b) ** 2 for a, b in zip(z, v, strict=True)) ** 0.5)
        else:
            assert market.truth.quality is not None
            dot = sum(a * b for a, b in zip(z, v, strict=True))
            utility = config.outside.sharpness * dot + float(market.truth.quality[item])
            utility -= config.outside.position_bias * log(position)
        if item in users.recent[user]:
            utility -= config.intent.satiation
        relevance.append(exp(utility))
    if config.truth == "paper":
        nothing = exp(config.paper.no_click) * scroll**config.paper.no_click_growth
    else:
        nothing = exp(config.outside.no_click)
    total = sum(relevance) + nothing
    return [r / total for r in relevance], nothing / total


def lived(market: Marketplace, rng: np.random.Generator) -> tuple[Users, np.ndarray]:
    """Users with recent clicks, and slates that contain some of them."""
    users = market.new_users(12, rng)
    users.recent[:, :2] = rng.permuted(np.tile(np.arange(200), (12, 1)), axis=1)[:, :2]
    slates = rng.permuted(np.tile(np.arange(200), (12, 1)), axis=1)[:, : market.config.max_slate]
    for user in range(12):
        if users.recent[user, 0] not in slates[user]:
            slates[user, user % 5] = users.recent[user, 0]
    return users, slates


@pytest.mark.parametrize("truth", TRUTHS)
def test_choice_probabilities_match_a_transcription(
    market: Make, rng: np.random.Generator, truth: str
) -> None:
    world = market(truth=truth)
    users, slates = lived(world, rng)
    scroll = np.array([1, 25, 2, 24, 11, 11, 5, 9, 13, 17, 3, 20])
    choice = world.choice_probabilities(users, slates, scroll)
    np.testing.assert_allclose(choice.items.sum(axis=1) + choice.no_click, 1)
    for user in range(12):
        items, nothing = transcribed(world, users, user, slates[user].tolist(), scroll[user])
        np.testing.assert_allclose(choice.items[user, : scroll[user]], items, rtol=1e-4)
        assert (choice.items[user, scroll[user] :] == 0).all()
        assert choice.no_click[user] == pytest.approx(nothing, rel=1e-4)


@pytest.mark.parametrize("truth", TRUTHS)
def test_click_probability_matches_enumeration_over_scroll_lengths(
    market: Make, rng: np.random.Generator, truth: str
) -> None:
    world = market(truth=truth)
    users, slates = lived(world, rng)
    exact = world.click_probability(users, slates)
    for user in range(12):
        clicked = [
            1 - transcribed(world, users, user, slates[user].tolist(), s)[1] for s in range(1, 26)
        ]
        expected = sum(p * c for p, c in zip(world.scroll.pmf, clicked, strict=True))
        assert exact[user] == pytest.approx(expected, rel=1e-4)


def test_nothing_becomes_more_attractive_with_scrolling_in_the_paper(market: Make) -> None:
    assert (np.diff(market(truth="paper").truth.no_click) > 0).all()
    assert (np.diff(market(truth="outside").truth.no_click) == 0).all()


def test_position_matters_only_outside(market: Make, rng: np.random.Generator) -> None:
    for truth, same in (("paper", True), ("outside", False)):
        world = market(truth=truth)
        users, slates = lived(world, rng)
        scroll = np.full(12, 25)
        forward = world.choice_probabilities(users, slates, scroll).items
        backward = world.choice_probabilities(users, slates[:, ::-1], scroll).items[:, ::-1]
        assert np.allclose(forward, backward, rtol=1e-4) == same


def test_draws_follow_the_choice(rng: np.random.Generator) -> None:
    n = 100_000
    p = np.array([0.2, 0.0, 0.45, 0.05, 0.0])
    drawn = draw_positions(ChoiceProbabilities(np.tile(p, (n, 1)), np.full(n, 0.3)), rng)
    share = np.bincount(drawn + 1, minlength=6) / n
    # 4 standard deviations of a share near one half.
    np.testing.assert_allclose(share, [0.3, *p], atol=4 * 0.5 / n**0.5)
    assert share[2] == share[5] == 0
