"""What causes are worth: exact where it can be worked out, nothing where a cause is missing."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.experiments.worth import _calibrated, _choices, _log_of, _scored, worth_of_causes
from slatewise.simulation import Marketplace, SimulationConfig, load_config, write_log
from slatewise.simulation.choice import ChoiceProbabilities

BY_TIME = SplitConfig(method="time", valid_share=0.1, test_share=0.3)


def prepared(folder: Path, config: SimulationConfig) -> SlateDataset:
    write_log(config, folder / "log")
    return prepare(folder / "log", folder / "log", folder / "set", division=BY_TIME)


def worths(folder: Path, preset: str, **changes: Any) -> dict[str, float]:
    config = load_config(preset, users=150, **changes)
    return worth_of_causes(config, prepared(folder, config))


def test_a_world_has_the_causes_that_its_configuration_gives_it(tmp_path: Path) -> None:
    found = worths(tmp_path, "tiny", truth="outside", intent={"satiation": 0.0})
    assert found["position"] > 0.01
    assert found["bias"] > 0.01
    assert found["evidence"] > 0.005
    for term in ("history", "popularity", "propensity"):
        assert found[term] == pytest.approx(0, abs=1e-9)
    assert "features" not in found


def test_news_that_nobody_saw_are_what_features_tell_of_and_a_bias_does_not(tmp_path: Path) -> None:
    found = worths(tmp_path, "news")
    assert found["features"] > 10 * found["bias"] > 0
    assert min(found[term] for term in ("history", "popularity", "propensity", "position")) > 0.005
    assert found["evidence"] == 0  # nobody searches


def test_the_log_is_followed_to_the_very_probabilities_it_was_drawn_from(tmp_path: Path) -> None:
    config = load_config("video", users=60)
    market = Marketplace(config)
    log = _log_of(market)
    scored = _scored(prepared(tmp_path, config), log)
    assert 0.2 < scored.mean() < 0.4
    assert log.time[scored].min() >= log.time[~scored].max()
    found = _choices(market, {"propensity": market}, log, scored)
    rows = np.concatenate(found["rows"])
    assert sorted(rows) == np.flatnonzero(scored).tolist()
    items = np.concatenate([choice.items for choice in found["truth"]])
    np.testing.assert_allclose(items, log.probability[rows], rtol=1e-4)


def test_calibration_takes_away_what_it_can_and_no_more() -> None:
    rng = np.random.default_rng(0)
    utility = rng.standard_normal((500, 4))

    def choice(utility: np.ndarray) -> ChoiceProbabilities:
        total = 1 + np.exp(utility).sum(axis=1)
        return ChoiceProbabilities(np.exp(utility) / total[:, None], 1 / total)

    true = choice(utility)
    assert _calibrated(true, choice(3 * utility - 2)) == pytest.approx(0, abs=1e-8)
    blind = choice(utility * [1, 1, 1, 0])
    lost = _calibrated(true, blind)
    grid = [
        (np.log(true.items / other.items) * true.items).sum(axis=1).mean()
        + (np.log(true.no_click / other.no_click) * true.no_click).mean()
        for temperature in np.linspace(0.5, 1.2, 36)
        for level in np.linspace(-0.5, 0.5, 21)
        for other in [choice(temperature * utility * [1, 1, 1, 0] + level)]
    ]
    assert lost == pytest.approx(min(grid), abs=2e-4)
    assert lost <= min(grid)
