"""Judgement of a new model against the one that serves, on the newest day, one step ahead.

Both predict the same interactions, of which neither learned anything, each from what its user did
before. Both are then calibrated by source on one half of the users and judged on the other, and the
other way round. Slates do not depend on calibration; a click rate that changed overnight, or a
model that expects too many clicks because it knows little, would else be mistaken for what is known
of items and users.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.evaluation import (
    Calibration,
    Estimate,
    InSlateMRR,
    LogLikelihood,
    ModelRecommender,
    Predictions,
    bootstrap,
    predict_part,
    reliability,
)
from slatewise.model.fitted import SlateModel

UNCHANGED = (
    "training found nothing better on held-out users: the model continues, and knows the newest day"
)
"""Why a model takes over that predicts as the one before it did."""

Rule = Literal["not-worse", "better", "always"]
"""When a new model takes over from the one that serves."""


@dataclass(frozen=True)
class Score:
    """What a model reached on the newest day, with intervals over users."""

    log_likelihood: Estimate
    """nats per interaction, after calibration; what is decided by"""
    in_slate_mrr: Estimate
    """mean reciprocal rank of the clicked item in its slate, for people"""
    reliability: tuple[dict[str, Any], ...] = ()
    """predicted and observed click rate by bins of the prediction, after calibration"""

    def __sub__(self, other: "Score") -> "Score":
        """Return the paired differences."""
        return Score(
            self.log_likelihood - other.log_likelihood, self.in_slate_mrr - other.in_slate_mrr
        )

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        found: dict[str, Any] = {
            "log_likelihood": self.log_likelihood.to_json(),
            "in_slate_mrr": self.in_slate_mrr.to_json(),
        }
        return found | ({"reliability": list(self.reliability)} if self.reliability else {})


def score(model: SlateModel, dataset: SlateDataset, seed: int) -> Score:
    """Judge a model of the dataset's items on its test part."""
    predictions = predict_part(ModelRecommender(model, log=dataset), dataset, "test")
    calibrated = cross_calibrated(predictions, dataset.source_names)
    return Score(
        bootstrap(LogLikelihood(), calibrated, seed=seed),
        bootstrap(InSlateMRR(), calibrated, seed=seed),
        tuple(reliability(calibrated)),
    )


def cross_calibrated(predictions: Predictions, sources: list[str]) -> Predictions:
    """Calibrate the predictions of either half of the users by the other half."""
    odd = predictions.users % 2 == 1  # the numbers of users mean nothing
    halves = [_of_rows(predictions, np.flatnonzero(rows)) for rows in (odd, ~odd)]
    fitted = [Calibration.fit(half, sources) for half in halves]
    return Predictions.concatenate(
        [fitted[1].apply(halves[0], sources), fitted[0].apply(halves[1], sources)]
    )


def _of_rows(predictions: Predictions, rows: Int64Array) -> Predictions:
    slates, cells = predictions.take(rows)
    return Predictions.from_utilities(
        slates, predictions.log_probabilities[cells], predictions.no_click_log_probabilities[rows]
    )


@dataclass(frozen=True)
class Decision:
    """What becomes of a new model."""

    promote: bool
    why: str


def decide(gain: Estimate | None, rule: Rule, tolerance: float) -> Decision:
    """Decide by the gain in nats per interaction over the model that serves.

    It is None where there is no such model, or too little to judge by.
    """
    if rule == "always":
        return Decision(
            True, f"every new model is promoted{'' if gain is None else in_words(gain)}"
        )
    if gain is None:
        return Decision(True, "there was no model before it")
    if rule == "better":
        better = gain.low > 0
        return Decision(better, f"it is {'' if better else 'not '}surely better{in_words(gain)}")
    if gain.high < 0:  # however little it is: such losses would add up
        return Decision(False, f"it is surely worse{in_words(gain)}")
    if gain.value >= 0 or gain.low > -tolerance:
        same = gain.value == gain.low == gain.high == 0
        return Decision(True, UNCHANGED if same else f"it is not worse{in_words(gain)}")
    return Decision(False, f"it may be worse{in_words(gain)}")


def decide_drift(gain: Estimate, best: str, tolerance: float) -> Decision:
    """Decide by the gain over the best version of the last weeks.

    Each night may lose a little that is not sure; this bounds what many of them lose.
    """
    decision = decide(gain, "not-worse", tolerance)
    if decision.promote:
        return decision
    return Decision(
        False, f"version {best} was best of the last weeks, and beside that {decision.why}"
    )


def is_surely_worse(gain: Estimate, tolerance: float) -> bool:
    """Return whether a model has lost more than the tolerance, beyond chance."""
    return gain.value < -tolerance and gain.high < 0


def in_words(gain: Estimate) -> str:
    """Return a gain in words, to follow others."""
    value, low, high = map(_signed, (gain.value, gain.low, gain.high))
    return f": {value} [{low}, {high}] nats per interaction"


def _signed(value: float) -> str:
    return f"{value:+.4f}".replace("-", "−")
