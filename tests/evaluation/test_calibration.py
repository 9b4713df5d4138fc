"""Calibration: known distortions are found and undone, and little data changes little."""

from dataclasses import replace

import numpy as np
import pytest

from slatewise.errors import SlatewiseError
from slatewise.evaluation import (
    Calibration,
    ExpectedCalibrationError,
    InSlateAUC,
    LogLikelihood,
    Predictions,
    Slates,
)
from slatewise.evaluation.calibration import HOTTEST
from slatewise.evaluation.rows import max_rows

SOURCES = ["search", "recommendation"]


def simulated(count: int, seed: int = 0, sources: int = 2) -> Predictions:
    """True probabilities, with clicks drawn from them."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, count)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    slates = Slates(
        users=np.arange(count) // 5,
        sources=rng.integers(0, sources, count).astype(np.uint8),
        clicks=np.full(count, -1, dtype=np.int32),
        offsets=offsets,
        items=np.zeros(offsets[-1], dtype=np.int32),
    )
    truth = Predictions.from_utilities(
        slates, rng.normal(0, 1.5, offsets[-1]), rng.normal(1, 1, count)
    )
    chance = truth.log_probabilities + rng.gumbel(size=offsets[-1])
    none = truth.no_click_log_probabilities + rng.gumbel(size=count)
    best = max_rows(chance, offsets)
    positions = np.flatnonzero(chance == np.repeat(best, lengths)) - offsets[:-1]
    return replace(truth, clicks=np.where(best > none, positions, -1).astype(np.int32))


def test_known_temperatures_and_offsets_are_recovered() -> None:
    """Within 4 % and 0.05 from 30,000 interactions; likelihood and rates are then right."""
    truth = simulated(30_000)
    wrong = Calibration(
        {"search": 0.5, "recommendation": 1.6}, {"search": -1.0, "recommendation": 0.7}
    )
    distorted = wrong.apply(truth, SOURCES)
    found = Calibration.fit(distorted, SOURCES)
    for name in SOURCES:
        scale = 1 / wrong.temperatures[name]
        assert found.temperatures[name] == pytest.approx(scale, rel=0.04)
        assert found.offsets[name] == pytest.approx(-wrong.offsets[name] / scale, abs=0.05)
    repaired = found.apply(distorted, SOURCES)
    assert LogLikelihood()(repaired) == pytest.approx(LogLikelihood()(truth), abs=0.001)
    assert ExpectedCalibrationError()(distorted) > 0.05
    assert ExpectedCalibrationError()(repaired) < 0.02


def test_further_clicks_tell_of_the_temperature_alone() -> None:
    """Those of a log are clicks all, and say nothing of how often there is one."""
    truth = simulated(20_000)
    kept, _ = truth.take(np.flatnonzero(truth.clicks >= 0))
    rows = np.flatnonzero(truth.clicks >= 0)
    chosen = Predictions.from_utilities(
        replace(kept, further=np.ones(len(rows), np.int32)),
        truth.log_probabilities[truth.take(rows)[1]],
        truth.no_click_log_probabilities[rows],
    )
    wrong = Calibration(dict.fromkeys(SOURCES, 0.5), dict.fromkeys(SOURCES, 0.0))
    found = Calibration.fit(wrong.apply(chosen, SOURCES), SOURCES)
    for name in SOURCES:
        assert found.temperatures[name] == pytest.approx(2, rel=0.05)
        assert found.offsets[name] == pytest.approx(0, abs=1e-9)


def test_what_is_right_stays() -> None:
    found = Calibration.fit(simulated(30_000, seed=1), SOURCES)
    assert all(value == pytest.approx(1, abs=0.04) for value in found.temperatures.values())
    assert all(value == pytest.approx(0, abs=0.05) for value in found.offsets.values())


def test_the_order_within_a_slate_stays() -> None:
    truth = simulated(500)
    hot = Calibration({"search": 3.0}, {"search": 2.0}).apply(truth, SOURCES)
    assert InSlateAUC()(hot) == InSlateAUC()(truth)


def test_little_data_changes_little() -> None:
    truth = simulated(1, sources=1)
    found = Calibration.fit(truth, SOURCES)
    assert abs(1 / found.temperatures["search"] - 1) < 0.6
    assert abs(found.offsets["search"]) < 1
    assert (found.temperatures["recommendation"], found.offsets["recommendation"]) == (1, 0)
    same = Calibration({}, {}).apply(truth, SOURCES)
    assert np.allclose(same.log_probabilities, truth.log_probabilities)


def test_a_recommender_that_is_wrong_throughout_becomes_flat_not_inverted() -> None:
    truth = simulated(3_000, sources=1)
    inverted = Predictions.from_utilities(
        truth, -truth.log_probabilities, truth.no_click_log_probabilities
    )
    assert Calibration.fit(inverted, SOURCES).temperatures["search"] == pytest.approx(HOTTEST)


def test_sure_predictions_that_always_come_true_stay_finite() -> None:
    slates = Slates(
        users=np.arange(50),
        sources=np.zeros(50, dtype=np.uint8),
        clicks=np.zeros(50, dtype=np.int32),
        offsets=np.arange(0, 101, 2),
        items=np.zeros(100, dtype=np.int32),
    )
    sure = Predictions.from_utilities(slates, np.tile([40.0, -40.0], 50), np.full(50, -40.0))
    found = Calibration.fit(sure, SOURCES)
    assert np.isfinite([found.temperatures["search"], found.offsets["search"]]).all()


def test_json_and_back() -> None:
    found = Calibration.fit(simulated(300), SOURCES)
    assert Calibration.from_json(found.to_json()) == found
    row = {"temperature": 1.0, "no_click_offset": 0.0}
    for broken in ([], {"search": {}}, {"search": row | {"temperature": "warm"}}):
        with pytest.raises(SlatewiseError, match="not a calibration"):
            Calibration.from_json(broken)  # type: ignore[arg-type]
    for change in ({"temperature": 0.0}, {"temperature": np.inf}, {"no_click_offset": np.nan}):
        with pytest.raises(SlatewiseError, match="out of range"):
            Calibration.from_json({"search": row | change})
