"""Every metric against a slow, direct transcription of its definition."""

from itertools import permutations
from statistics import fmean

import numpy as np
import pytest
from hypothesis import assume, given

from slatewise.evaluation import (
    MRR,
    ClickRate,
    ExpectedCalibrationError,
    HitRate,
    InSlateAUC,
    InSlateHit,
    InSlateMRR,
    LogLikelihood,
    LogLikelihoodSum,
    PredictedClickRate,
    Predictions,
    Recall,
    RecommendedLists,
    TargetRanks,
    reliability,
)
from slatewise.evaluation.reliability import BINS
from tests.evaluation.drawing import random_predictions, rows_of, seeds


def clicked_slates(predictions: Predictions) -> list[tuple[list[float], int]]:
    rows = rows_of(predictions, predictions.log_probabilities)
    both = zip(rows, predictions.clicks.tolist(), strict=True)
    return [(row, click) for row, click in both if click >= 0 and len(row) >= 2]


def ranks_under_every_order(row: list[float], click: int) -> list[int]:
    """Ranks of the click over all ways to break ties."""
    ranks = []
    for order in permutations(range(len(row))):
        ranked = sorted(range(len(row)), key=lambda i: (-row[i], order[i]))
        ranks.append(1 + ranked.index(click))
    return ranks


@given(seed=seeds)
def test_in_slate_metrics_are_expectations_over_tie_breaks(seed: int) -> None:
    predictions = random_predictions(np.random.default_rng(seed), users=3)
    slates = clicked_slates(predictions)
    assume(slates)
    ranks = [ranks_under_every_order(row, click) for row, click in slates]
    assert InSlateMRR()(predictions) == pytest.approx(fmean(fmean(1 / r for r in x) for x in ranks))
    hits = [fmean(float(r == 1) for r in x) for x in ranks]
    assert InSlateHit()(predictions) == pytest.approx(fmean(hits))
    shares = [
        fmean(
            1.0 if row[click] > other else 0.5 if row[click] == other else 0.0
            for position, other in enumerate(row)
            if position != click
        )
        for row, click in slates
    ]
    assert InSlateAUC()(predictions) == pytest.approx(fmean(shares))


@given(seed=seeds)
def test_likelihood_and_rates(seed: int) -> None:
    predictions = random_predictions(np.random.default_rng(seed))
    assume(len(predictions))
    rows = rows_of(predictions, predictions.log_probabilities)
    direct = [
        row[click] if click >= 0 else none
        for row, click, none in zip(
            rows,
            predictions.clicks.tolist(),
            predictions.no_click_log_probabilities.tolist(),
            strict=True,
        )
    ]
    assert LogLikelihood()(predictions) == pytest.approx(fmean(direct))
    assert LogLikelihoodSum()(predictions) == pytest.approx(sum(direct))
    assert ClickRate()(predictions) == pytest.approx((predictions.clicks >= 0).mean())
    mass = [sum(np.exp(row)) for row in rows]
    assert PredictedClickRate()(predictions) == pytest.approx(fmean(mass))


@given(seed=seeds)
def test_calibration_error_and_curve(seed: int) -> None:
    predictions = random_predictions(np.random.default_rng(seed))
    assume(len(predictions))
    chance = 1 - np.exp(predictions.no_click_log_probabilities)
    clicked = predictions.clicks >= 0
    error, curve = 0.0, []
    for number in range(BINS):
        inside = (chance >= number / BINS) & (chance < (number + 1) / BINS)
        if inside.any():
            error += inside.mean() * abs(chance[inside].mean() - clicked[inside].mean())
            curve.append((inside.sum(), chance[inside].mean(), clicked[inside].mean()))
    assert ExpectedCalibrationError()(predictions) == pytest.approx(error)
    drawn = [(row["count"], row["predicted"], row["observed"]) for row in reliability(predictions)]
    assert np.allclose(drawn, curve)


@given(seed=seeds)
def test_users_add_up_to_everybody(seed: int) -> None:
    predictions = random_predictions(np.random.default_rng(seed))
    assume(len(predictions))
    for metric in (LogLikelihood(), InSlateAUC(), ExpectedCalibrationError()):
        users, sums = metric.per_user(predictions)
        assert users.tolist() == sorted(set(predictions.users.tolist()))
        whole = metric.value(sums.sum(axis=0))
        assert float(whole) == pytest.approx(metric(predictions), nan_ok=True)


@given(seed=seeds)
def test_next_click_metrics(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ranks = rng.integers(1, 40, 30)
    observed = TargetRanks(np.arange(30), np.zeros(30, dtype=np.uint8), ranks)
    for k in (1, 20):
        assert Recall(k)(observed) == pytest.approx(fmean(float(r <= k) for r in ranks))
        assert MRR(k)(observed) == pytest.approx(fmean(1 / r if r <= k else 0.0 for r in ranks))
        assert (Recall(k).name, MRR(k).name) == (f"recall@{k}", f"mrr@{k}")


@given(seed=seeds)
def test_hitrate_counts_the_intersection_of_sets(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users = int(rng.integers(1, 7))
    items = np.array([rng.choice(12, 5, replace=False) for _ in range(users)])
    clicked = [rng.integers(0, 15, rng.integers(0, 9)) for _ in range(users)]
    observed = RecommendedLists(
        np.arange(users),
        items,
        np.concatenate(clicked),
        np.cumsum([0, *(len(clicks) for clicks in clicked)]),
    )
    both = zip(items.tolist(), clicked, strict=True)
    direct = [len(set(best) & set(later.tolist())) for best, later in both]
    assert HitRate(5)(observed) == pytest.approx(fmean(direct))
