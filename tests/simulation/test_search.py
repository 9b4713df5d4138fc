from collections.abc import Callable

import numpy as np

from slatewise.simulation import Marketplace, named_policy

from .conftest import distinct

Make = Callable[..., Marketplace]


def away(world: Marketplace, state: np.ndarray, slates: np.ndarray) -> np.ndarray:
    return np.asarray(np.linalg.norm(world.space.vectors[slates] - state[:, None], axis=2))


def test_search_finds_distinct_items_near_the_intent(
    market: Make, rng: np.random.Generator
) -> None:
    world = market()
    users, who = world.new_users(500, rng), np.arange(500)
    found = world.search.slates(users, who, 25, rng)
    anything = named_policy("random", world.catalogue).recommend(users.observed(who), 25, rng)
    assert distinct(found)
    assert found.min() >= 0
    assert found.max() < 200
    near, far = away(world, users.state, found), away(world, users.state, anything)
    assert near[:, :10].mean() < far.mean() - 1
    assert near[:, 0].mean() < near[:, 9].mean() < near[:, 24].mean()


def test_without_noise_the_ranking_is_by_distance(market: Make, rng: np.random.Generator) -> None:
    quiet = {"query_noise": 0.0, "rank_noise": 0.0, "candidates": 200, "own_share": 0.0}
    world = market(
        search=quiet | {"neighbour_share": 0.0},
        catalogue={"items": 200, "groups": 10, "dimensions": 5, "exposure_skew": 0.0},
    )
    users, who = world.new_users(50, rng), np.arange(50)
    distance = away(world, users.state, world.search.slates(users, who, 25, rng))
    assert (np.diff(distance, axis=1) >= 0).all()


def test_search_drops_what_was_just_clicked(market: Make, rng: np.random.Generator) -> None:
    world = market()
    users, who = world.new_users(500, rng), np.arange(500)
    first = world.search.slates(users, who, 25, rng)[:, 0]

    def shown_again() -> float:
        slates = world.search.slates(users, who, 25, rng)[:, :11]
        return float((slates == first[:, None]).any(axis=1).mean())

    assert shown_again() > 0.5
    users.recent[:, 0] = first
    assert shown_again() < 0.05


def test_fewer_candidates_than_places_are_filled_up(market: Make, rng: np.random.Generator) -> None:
    world = market(search={"candidates": 3})
    users = world.new_users(40, rng)
    slates = world.search.slates(users, np.arange(40), 25, rng)
    assert slates.shape == (40, 25)
    assert distinct(slates)


def test_a_single_group_is_its_own_neighbour(market: Make, rng: np.random.Generator) -> None:
    world = market(catalogue={"items": 25, "groups": 1, "dimensions": 2})
    users = world.new_users(10, rng)
    slates = world.search.slates(users, np.arange(10), 25, rng)
    assert (np.sort(slates, axis=1) == np.arange(25)).all()
