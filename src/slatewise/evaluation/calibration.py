"""Calibration after training: one temperature and one no-click offset per source.

With the log-probabilities l of a recommender, the calibrated ones are a softmax of l_i / T over the
items of the slate and l_0 / T + b for no click, with T and b of the slate's source. The order of
items within a slate stays as it was.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.evaluation.predictions import Predictions
from slatewise.features.linear_choice import LinearChoice

HOTTEST: Final = 20.0
"""The greatest temperature: there a recommender that knows nothing is as good as flat."""

PRIOR_SD: Final = (0.5, 1.0)
"""Of 1/T around 1 and of b around 0: moves little once a source has a few dozen clicks."""


@dataclass(frozen=True)
class Calibration:
    """Temperatures and no-click offsets by source name; an unknown source is left as it is."""

    temperatures: dict[str, float]
    """T > 0; above 1 the recommender was too sure of itself."""
    offsets: dict[str, float]
    """b; above 0 the recommender expected too many clicks."""

    @classmethod
    def fit(cls, predictions: Predictions, source_names: Sequence[str]) -> Self:
        """Find the greatest likelihood on predictions of held-out interactions (validation).

        A source without data gets T = 1 and b = 0. A further click on a slate, given that there was
        one, tells of T alone.
        """
        temperatures, offsets = {}, {}
        for number, name in enumerate(source_names):
            rows = np.flatnonzero(predictions.sources == number)
            temperatures[name], offsets[name] = 1.0, 0.0
            if len(rows):
                slates, cells = predictions.take(rows)
                items = predictions.log_probabilities[cells]
                no_click = predictions.no_click_log_probabilities[rows]
                scale, offset = LinearChoice.with_no_click(
                    slates.offsets,
                    slates.clicks,
                    np.stack([items, np.zeros_like(items)], axis=1),
                    np.stack([no_click, np.ones_like(no_click)], axis=1),
                    mean=np.array([1.0, 0.0]),
                    sd=np.array(PRIOR_SD),
                    can_pass=slates.first_choices,
                ).fit(least=1 / HOTTEST)
                temperatures[name], offsets[name] = float(1 / scale), float(offset)
        return cls(temperatures, offsets)

    def apply(self, predictions: Predictions, source_names: Sequence[str]) -> Predictions:
        """Return calibrated predictions; `predictions.sources` point into `source_names`."""
        scale = np.array([1 / self.temperatures.get(name, 1.0) for name in source_names])
        offset = np.array([self.offsets.get(name, 0.0) for name in source_names])
        by_row = scale[predictions.sources]
        return Predictions.from_utilities(
            predictions,
            predictions.log_probabilities * np.repeat(by_row, predictions.scroll_lengths),
            predictions.no_click_log_probabilities * by_row
            + np.where(predictions.first_choices, offset[predictions.sources], 0.0),
        )

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary: for each source its temperature and no-click offset."""
        return {
            name: {"temperature": temperature, "no_click_offset": self.offsets[name]}
            for name, temperature in self.temperatures.items()
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Self:
        """Read what `to_json` wrote, or raise an error that says what is wrong."""
        try:
            temperatures = {name: float(row["temperature"]) for name, row in values.items()}
            offsets = {name: float(row["no_click_offset"]) for name, row in values.items()}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise SlatewiseError(
                "this is not a calibration: it needs 'temperature' and 'no_click_offset' of each "
                "source.",
                "Calibrate again.",
            ) from error
        if not all(np.isfinite(t) and t > 0 for t in temperatures.values()) or not all(
            np.isfinite(b) for b in offsets.values()
        ):
            raise SlatewiseError(
                "the calibration has a temperature or an offset out of range.", "Calibrate again."
            )
        return cls(temperatures, offsets)
