"""Items that come and go: an even pace, spans of life, fading, and pages of what is alive."""

from dataclasses import replace

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.simulation import Catalogue, Life, Marketplace, load_config

from .conftest import distinct


@pytest.fixture
def life() -> Life:
    config = load_config("news")
    catalogue = Catalogue.generate(config.catalogue, np.random.default_rng(2))
    return Life.generate(config, catalogue, np.random.default_rng(1))


def test_items_appear_at_an_even_pace_and_in_any_order(life: Life) -> None:
    times = life.published[life.order]
    assert (np.diff(times) > 0).all()
    assert times[0] >= -36
    assert times[-1] <= 7 * 24
    for hour in range(0, 7 * 24 + 1, 7):
        alive = life.alive(np.arange(400)[None], np.array([float(hour)])).sum()
        # 400 items in 204 hours, each alive for 36.
        assert alive == pytest.approx(400 * 36 / 204, abs=2)
    assert abs(np.corrcoef(np.arange(400), life.published)[0, 1]) < 0.2


def test_an_item_lives_from_its_publication_for_as_long_as_said(life: Life) -> None:
    item, born = np.array([[17]]), life.published[17]
    moments = born + np.array([-0.01, 0.0, 35.99, 36.0])
    alive = [bool(life.alive(item, np.array([hour]))[0, 0]) for hour in moments]
    assert alive == [False, True, True, False]


def test_relevance_halves_with_every_half_life(life: Life) -> None:
    slate, born = np.array([[17]]), life.published[17]
    calm = replace(life, config=life.config.model_copy(update={"burst": 0.0}))
    left = [float(calm.utility(slate, np.array([born + age]))[0, 0]) for age in (0, 10, 30)]
    np.testing.assert_allclose(np.exp(left), [1, 1 / 2, 1 / 8], rtol=1e-4)


def test_half_of_the_items_burst_once_in_the_first_half_of_their_lives(life: Life) -> None:
    bursting = np.isfinite(life.bursts)
    assert 0.4 < bursting.mean() < 0.6
    after = (life.bursts - life.published)[bursting]
    assert after.min() >= 0
    assert after.max() < 18
    calm = replace(life, config=life.config.model_copy(update={"burst": 0.0}))
    slate = np.flatnonzero(bursting)[None, :1]
    hours = life.bursts[slate[0, 0]] + np.array([-0.01, 0.0, 2.0, 6.0])
    gained = [
        float((life.utility(slate, h) - calm.utility(slate, h))[0, 0]) for h in hours[:, None]
    ]
    np.testing.assert_allclose(gained, [0, 2.5, 2.5 / 2, 2.5 / 8], atol=1e-5)


def test_pages_hold_distinct_items_that_are_alive(life: Life, rng: np.random.Generator) -> None:
    hours = np.concatenate([[0.0, 168.0], rng.uniform(0, 168, 500)])
    for k in (1, 10, 60):
        pages = life.draw(hours, k, rng)
        assert pages.shape == (502, k)
        assert distinct(pages)
        assert life.alive(pages, hours).all()


def test_newer_items_come_first_by_the_stated_law(life: Life, rng: np.random.Generator) -> None:
    hours = np.full(40_000, 100.0)
    alive = np.flatnonzero(life.alive(np.arange(400)[None], hours[:1])[0])
    newest = alive[np.argsort(-life.published[alive])]
    share = np.bincount(life.draw(hours, 1, rng)[:, 0], minlength=400)[newest] / 40_000
    ends = np.sqrt(1.0 + np.arange(len(alive) + 1))  # the integral of (1 + x)^−½
    expected = np.diff(ends) / (ends[-1] - ends[0])
    assert np.abs(share - expected).max() < 4.5 * np.sqrt(expected.max() / 40_000)


@pytest.mark.parametrize("hour", [-35.0, 500.0])
def test_a_time_outside_of_the_world_is_refused(
    life: Life, rng: np.random.Generator, hour: float
) -> None:
    with pytest.raises(SlatewiseError, match="alive at hour"):
        life.draw(np.array([50.0, hour]), 10, rng)


def test_a_search_finds_what_is_alive_in_the_group_that_is_asked_for(life: Life) -> None:
    rng = np.random.default_rng(0)
    hours, groups = rng.uniform(0, 168, 300), rng.integers(20, size=(300, 8))
    found = life.at(hours).draw_in(groups, rng)
    everything = np.arange(400)
    for hour, row, items in zip(hours, groups, found, strict=True):
        alive = life.alive(everything[None], np.array([hour]))[0]
        for group, item in zip(row, items, strict=True):
            there = alive & (life.catalogue.group == group)
            assert there[item] if item >= 0 else not there.any()


def test_searches_where_items_come_and_go_are_near_the_intent() -> None:
    market = Marketplace(load_config("news", search_share=0.5))
    rng = np.random.default_rng(0)
    users = market.new_users(300, rng)
    who = np.arange(300)
    found = market.find(users, who, rng, 60.0)
    assert distinct(found)
    assert market.life is not None
    assert market.life.alive(found, np.full(300, 60.0)).all()
    anything = market.life.draw(np.full(300, 60.0), 10, rng)
    chances = [
        market.click_probability(users, slates, who, 60.0).mean() for slates in (found, anything)
    ]
    assert chances[0] > 1.3 * chances[1]
