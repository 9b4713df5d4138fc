"""Features tell as much of the truth as they say, and listed groups are wrong as often."""

import numpy as np
import pytest

from slatewise.simulation import FeaturesConfig, Marketplace, load_config
from slatewise.simulation.features import item_features, listed_groups

WORLD = Marketplace(
    load_config(
        "tiny",
        catalogue={"items": 5_000, "groups": 10, "dimensions": 5},
        effects={"quality_sd": 0.7},
    )
)


def explained(target: np.ndarray, features: np.ndarray) -> float:
    """R² of a least-squares fit of `target` [I] by `features` [I, F]."""
    design = np.column_stack([np.ones(len(features)), features])
    fitted = design @ np.linalg.lstsq(design, target, rcond=None)[0]
    return float(1 - (target - fitted).var() / target.var())


def make(**fields: object) -> np.ndarray:
    config = FeaturesConfig.model_validate(fields)
    rng = np.random.default_rng(3)
    return item_features(config, WORLD.catalogue, WORLD.space, WORLD.quality, rng)


@pytest.mark.parametrize("informative", [0.0, 0.5, 0.9])
def test_a_feature_of_the_vector_tells_what_it_says(informative: float) -> None:
    features = make(of_vector=3, informative=informative)
    assert features.shape == (5_000, 3)
    group = WORLD.catalogue.group
    way = WORLD.space.vectors - WORLD.space.means[group]
    way = way / WORLD.space.spread[group, None]
    for column in features.T:
        assert column.var() == pytest.approx(1, rel=0.1)
        assert explained(column, way) == pytest.approx(informative, abs=0.03)
        # Nothing that the group would tell already.
        means = np.bincount(group, column) / np.bincount(group)
        assert np.abs(means).max() < 5 / np.sqrt(np.bincount(group).min())


def test_features_tell_of_vectors_beyond_the_group() -> None:
    group = WORLD.catalogue.group
    way = WORLD.space.vectors - WORLD.space.means[group]
    features = make(of_vector=4, informative=0.8) * WORLD.space.spread[group, None]
    shares = [explained(coordinate, features) for coordinate in way.T]
    # Four directions of five, each with a fifth of noise.
    assert 0.4 < np.mean(shares) < 0.8


def test_a_feature_of_quality_is_a_reading_of_it() -> None:
    assert WORLD.quality is not None
    reading = make(of_quality=1, informative=0.8)
    assert explained(WORLD.quality, reading) == pytest.approx(0.8, abs=0.03)


def test_without_quality_its_feature_is_noise() -> None:
    plain = Marketplace(load_config("tiny"))
    config = FeaturesConfig(of_quality=2)
    rng = np.random.default_rng(4)
    noise = item_features(config, plain.catalogue, plain.space, plain.quality, rng)
    assert noise.shape == (200, 2)
    assert noise.std() == pytest.approx(np.sqrt(0.2), rel=0.15)


@pytest.mark.parametrize("share", [0.0, 0.4, 1.0])
def test_the_stated_share_of_groups_is_listed_at_random(share: float) -> None:
    listed = listed_groups(WORLD.catalogue, share, np.random.default_rng(5))
    wrong = (listed != WORLD.catalogue.group).mean()
    # A random group is the right one with one chance in ten.
    assert wrong == pytest.approx(0.9 * share, abs=0.03)
