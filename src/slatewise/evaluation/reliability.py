"""Whether predicted click probabilities come true."""

from typing import Any, Final

import numpy as np

from slatewise.data.ragged import Int64Array
from slatewise.evaluation.metrics import Metric
from slatewise.evaluation.predictions import Predictions
from slatewise.evaluation.rows import Floats

BINS: Final = 15


class ExpectedCalibrationError(Metric[Predictions]):
    """Mean distance between predicted and observed click rate, over bins of the prediction.

    Bins are equally wide. Noise alone makes it positive, the more so the fewer the data: compare
    recommenders on the same interactions only.
    """

    name = "ece"
    higher_is_better = False
    noise_raises = True

    def sums(self, observed: Predictions, groups: Int64Array, num_groups: int) -> Floats:
        """Return interactions, predicted and observed clicks of each bin: [G, 3 * bins]."""
        first = observed.first_choices  # what comes behind a click is another question
        groups, predicted = groups[first], observed.click_probabilities()[first]
        bins = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
        cells, size = groups * BINS + bins, num_groups * BINS
        columns = [
            np.bincount(cells, minlength=size),
            np.bincount(cells, predicted, size),
            np.bincount(cells, observed.clicks[first] >= 0, size),
        ]
        stacked = np.stack([column.reshape(num_groups, BINS) for column in columns], axis=1)
        return stacked.reshape(num_groups, 3 * BINS).astype(np.float64)

    def value(self, sums: Floats) -> Floats:
        """Return Σ |predicted − observed| / interactions."""
        count, predicted, clicked = np.moveaxis(sums.reshape(*sums.shape[:-1], 3, BINS), -2, 0)
        with np.errstate(invalid="ignore"):
            out: Floats = np.abs(predicted - clicked).sum(axis=-1) / count.sum(axis=-1)
        return out

    def count(self, sums: Floats) -> Floats:
        """Return the number of interactions."""
        out: Floats = sums[..., :BINS].sum(axis=-1)
        return out


def reliability_curve(sums: Floats) -> list[dict[str, Any]]:
    """Spell out the sums [3 * bins] of an expected calibration error: one row per bin in use."""
    count, predicted, clicked = sums.reshape(3, BINS)
    return [
        {
            "from": number / BINS,
            "to": (number + 1) / BINS,
            "count": int(count[number]),
            "predicted": float(predicted[number] / count[number]),
            "observed": float(clicked[number] / count[number]),
        }
        for number in np.flatnonzero(count)
    ]


def reliability(predictions: Predictions) -> list[dict[str, Any]]:
    """Return the reliability curve of P(click): predicted and observed rate per bin."""
    groups = np.zeros(len(predictions), dtype=np.int64)
    return reliability_curve(ExpectedCalibrationError().sums(predictions, groups, 1)[0])
