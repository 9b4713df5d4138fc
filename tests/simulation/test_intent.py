from collections.abc import Callable

import numpy as np
import pytest

from slatewise.simulation import Marketplace
from slatewise.simulation.intent import satiated

Make = Callable[..., Marketplace]


def test_new_users_are_spread_around_the_means_of_their_groups(
    market: Make, rng: np.random.Generator
) -> None:
    world = market()
    users = world.new_users(20_000, rng)
    away = np.linalg.norm(users.state - world.space.means[users.group], axis=1)
    rms = np.sqrt(np.bincount(users.group, away**2) / np.bincount(users.group))
    np.testing.assert_allclose(rms, world.space.spread, rtol=0.1)
    assert users.observed(np.arange(3)).shape == (3, 0)


def test_drift_moves_everybody_and_keeps_the_spread(market: Make, rng: np.random.Generator) -> None:
    world = market(intent={"persistence": 0.9})
    users = world.new_users(5_000, rng)
    who, nobody = np.arange(5_000), np.full(5_000, -1)
    before = users.state - world.space.means[users.group]
    world.intent.advance(users, who, nobody, rng)
    after = users.state - world.space.means[users.group]
    kept = (before * after).sum() / (before**2).sum()
    assert kept == pytest.approx(0.9, abs=0.02)
    for _ in range(20):
        world.intent.advance(users, who, nobody, rng)
    after = users.state - world.space.means[users.group]
    assert (after**2).sum() == pytest.approx((before**2).sum(), rel=0.05)


def test_without_clicks_and_drift_nothing_changes(market: Make, rng: np.random.Generator) -> None:
    world = market(intent={"persistence": 1.0, "switch": 1.0})
    users = world.new_users(50, rng)
    before = users.state.copy(), users.group.copy(), users.recent.copy()
    world.intent.advance(users, np.arange(50), np.full(50, -1), rng)
    np.testing.assert_allclose(users.state, before[0], atol=1e-6)
    np.testing.assert_array_equal(users.group, before[1])
    np.testing.assert_array_equal(users.recent, before[2])


def test_a_click_pulls_intent_towards_the_item(market: Make, rng: np.random.Generator) -> None:
    world = market(intent={"persistence": 1.0, "switch": 0.0, "click_pull": 0.25})
    users = world.new_users(50, rng)
    before, clicks = users.state.copy(), rng.integers(200, size=50)
    world.intent.advance(users, np.arange(50), clicks, rng)
    expected = before + 0.25 * (world.space.vectors[clicks] - before)
    np.testing.assert_allclose(users.state, expected, atol=1e-5)


def test_a_switch_goes_to_the_companion_of_the_clicked_group(
    market: Make, rng: np.random.Generator
) -> None:
    world = market(intent={"switch": 1.0, "companion": 1.0})
    users = world.new_users(400, rng)
    before = users.group.copy()
    clicks = np.where(np.arange(400) % 2, rng.integers(200, size=400), -1)
    world.intent.advance(users, np.arange(400), clicks, rng)
    clicked = clicks >= 0
    target = world.space.companion[world.catalogue.group[clicks[clicked]]]
    np.testing.assert_array_equal(users.group[clicked], target)
    np.testing.assert_array_equal(users.group[~clicked], before[~clicked])
    away = np.linalg.norm(users.state - world.space.means[users.group], axis=1)
    assert away.mean() < 2
    assert (world.space.companion != np.arange(10)).all()


def test_switches_have_the_stated_frequencies(market: Make, rng: np.random.Generator) -> None:
    n = 20_000
    world = market(intent={"switch": 0.5, "companion": 0.8})
    users = world.new_users(n, rng)
    clicks = world.catalogue.draw((n,), rng)
    users.group[:] = clicked = world.catalogue.group[clicks]
    world.intent.advance(users, np.arange(n), clicks, rng)
    at_companion = (users.group == world.space.companion[clicked]).mean()
    # Half switch; four in five of those to the companion, the others anywhere, also there.
    weight = np.bincount(world.catalogue.group) / 200
    by_chance = weight[world.space.companion[clicked]].mean()
    assert at_companion == pytest.approx(0.5 * (0.8 + 0.2 * by_chance), abs=4 * 0.5 / n**0.5)


def test_recent_clicks_are_the_last_ones_newest_first(
    market: Make, rng: np.random.Generator
) -> None:
    world = market(intent={"satiation_memory": 2})
    users = world.new_users(1, rng)
    for click in (4, 9, -1, 7):
        world.intent.advance(users, np.array([0]), np.array([click]), rng)
    assert users.recent.tolist() == [[7, 9]]
    assert users.observed(np.array([0])).tolist() == [[4, 9, -1, 7]]
    assert satiated(users.recent, np.array([[9, 4, 7]])).tolist() == [[True, False, True]]


def test_histories_grow_and_only_for_those_who_interact(
    market: Make, rng: np.random.Generator
) -> None:
    world = market(max_interactions=2, min_interactions=1)
    users = world.new_users(3, rng)
    for step in range(9):
        world.intent.advance(users, np.array([0, 2]), np.array([step, -1]), rng)
    world.intent.advance(users, np.array([1]), np.array([5]), rng)
    assert users.steps.tolist() == [9, 1, 9]
    assert users.observed(np.array([1])).tolist() == [[5]]
    assert users.observed(np.array([1, 0])).tolist() == [[5] + [-1] * 8, list(range(9))]


def test_satiation_lowers_the_odds_of_a_clicked_item_exactly(
    market: Make, rng: np.random.Generator
) -> None:
    still = {"persistence": 1.0, "switch": 0.0, "click_pull": 0.0, "satiation": 2.0}
    world = market(intent=still)
    users = world.new_users(30, rng)
    slates = np.tile(np.arange(25), (30, 1))
    scroll = np.full(30, 25)
    before = world.choice_probabilities(users, slates, scroll)
    world.intent.advance(users, np.arange(30), slates[:, 3], rng)
    after = world.choice_probabilities(users, slates, scroll)
    odds = (after.items / after.no_click[:, None]) / (before.items / before.no_click[:, None])
    expected = np.where(np.arange(25) == 3, np.exp(-2), 1)
    np.testing.assert_allclose(odds, np.tile(expected, (30, 1)), rtol=1e-4)
