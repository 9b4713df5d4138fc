"""Effects: each moves the odds by exactly what it says, and by nothing when it is off."""

from collections.abc import Callable

import numpy as np
import pytest

from slatewise.simulation import Marketplace, named_policy
from slatewise.simulation.effects import times_seen

from .conftest import TRUTHS, Fixed

Make = Callable[..., Marketplace]
SLATES = np.tile(np.arange(25), (30, 1))
SCROLL = np.full(30, 25)


def odds(world: Marketplace, plain: Marketplace, rng: np.random.Generator) -> np.ndarray:
    """Odds of every item against no click, over those without effects, for the same users."""
    users = world.new_users(30, rng)
    ratio = []
    for market in (world, plain):
        choice = market.choice_probabilities(users, SLATES, SCROLL)
        ratio.append(choice.items / choice.no_click[:, None])
    return np.asarray(ratio[0] / ratio[1])


@pytest.mark.parametrize("truth", TRUTHS)
def test_quality_moves_the_odds_alike_for_everybody(
    market: Make, rng: np.random.Generator, truth: str
) -> None:
    world, plain = market(truth=truth, effects={"quality_sd": 0.7}), market(truth=truth)
    found = odds(world, plain, rng)
    expected = np.exp(world.effects.quality[:25])
    np.testing.assert_allclose(found, np.tile(expected, (30, 1)), rtol=1e-3)
    assert world.quality is not None
    base = 0 if plain.quality is None else plain.quality
    np.testing.assert_allclose(world.quality, world.effects.quality + base)


def test_quality_has_the_stated_variance_of_which_groups_share_some(market: Make) -> None:
    catalogue = {"items": 20_000, "groups": 400, "group_skew": 0.0}
    effects = {"quality_sd": 0.8, "quality_shared": 0.25}
    world = market(catalogue=catalogue, effects=effects)
    quality, group = world.effects.quality, world.catalogue.group
    assert quality.std() == pytest.approx(0.8, rel=0.05)
    means = np.bincount(group, quality) / np.bincount(group)
    # 50 items a group: a fiftieth of the own variance remains in the means.
    assert means.var() == pytest.approx(0.64 * (0.25 + 0.75 / 50), rel=0.2)


def test_propensity_moves_all_items_of_a_user_against_no_click(
    market: Make, rng: np.random.Generator
) -> None:
    world = market(effects={"propensity_sd": 1.2})
    users = world.new_users(4_000, rng)
    assert users.propensity.std() == pytest.approx(1.2, rel=0.05)
    few, slates = np.arange(30), SLATES
    ready = world.choice_probabilities(users, slates, SCROLL, few)
    plain = market().choice_probabilities(users, slates, SCROLL, few)
    np.testing.assert_allclose(
        (ready.items / ready.no_click[:, None]) / (plain.items / plain.no_click[:, None]),
        np.tile(np.exp(users.propensity[:30, None]), (1, 25)),
        rtol=1e-3,
    )


def test_position_lowers_the_odds_by_a_power(market: Make, rng: np.random.Generator) -> None:
    found = odds(market(effects={"position_bias": 0.5}), market(), rng)
    expected = np.arange(1, 26) ** -0.5
    np.testing.assert_allclose(found, np.tile(expected, (30, 1)), rtol=1e-3)


def test_fatigue_counts_what_was_seen_of_late(market: Make, rng: np.random.Generator) -> None:
    still = {"persistence": 1.0, "switch": 0.0, "click_pull": 0.0, "satiation": 0.0}
    fatigue = {"fatigue": 1.5, "fatigue_memory": 2}
    world = market(effects=fatigue, intent=still, search_share=0.0)
    users = world.new_users(30, rng)
    fresh = world.choice_probabilities(users, SLATES, SCROLL)
    for shown in (SLATES, SLATES + 5, SLATES + 10):  # the first is forgotten after the third
        met = world.interact(users, Fixed(shown), rng)
        if shown[0, 0] == 5:
            second = met.scroll
    now = world.choice_probabilities(users, SLATES, SCROLL)
    item = np.arange(25)
    times = ((item >= 5) & (item < 5 + second[:, None])).astype(int)
    times += (item >= 10) & (item < 10 + met.scroll[:, None])
    ratio = (now.items / now.no_click[:, None]) / (fresh.items / fresh.no_click[:, None])
    np.testing.assert_allclose(ratio, (1.0 + times) ** -1.5, rtol=1e-3)
    assert set(np.unique(times)) == {0, 1, 2}


def test_without_effects_users_remember_nothing(market: Make, rng: np.random.Generator) -> None:
    world = market()
    users = world.new_users(20, rng)
    world.interact(users, named_policy("random", world.catalogue), rng)
    assert users.seen.size == 0
    assert not users.propensity.any()
    assert world.quality is None


def test_times_seen() -> None:
    seen = np.array([[3, 4, 3, -1], [7, -1, -1, -1]])
    assert times_seen(seen, np.array([[3, 4, 5], [3, 7, 5]])).tolist() == [[2, 1, 0], [0, 1, 0]]
