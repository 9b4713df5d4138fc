"""Whether a model is worth using: its paired difference to the best baseline, and one sentence."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.evaluation.bootstrap import Estimate
from slatewise.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class BaselineVerdict:
    """How a model compares with the best baseline."""

    model: str
    baseline: str
    """The baseline with the greatest value of the metric."""
    metric: str
    difference: Estimate
    """Model minus baseline, paired by user, with its 95 % interval over users."""

    @property
    def sentence(self) -> str:
        """The verdict as a sentence: better, worse or no clear difference, by the interval."""
        if self.difference.low > 0:
            return f"{self.model} is better than {self.baseline}."
        if self.difference.high < 0:
            return f"{self.model} is worse than {self.baseline}: do not use it."
        return f"{self.model} and {self.baseline} show no clear difference."

    def to_json(self) -> dict[str, Any]:
        """Return the names, the metric, the difference and the sentence."""
        names = {"model": self.model, "baseline": self.baseline, "metric": self.metric}
        return names | {"difference": self.difference.to_json(), "sentence": self.sentence}


def judge(
    model: str,
    evaluation: Evaluation,
    baselines: Mapping[str, Evaluation],
    metric: str = "log_likelihood",
) -> BaselineVerdict:
    """Compare a model with the baseline that has the greatest value of a metric.

    The model is judged after calibration where that changes the metric and was made; baselines are
    fitted by likelihood and judged as they are. The best of several is picked on the same users, so
    that it looks a little better than it is: the comparison is rather too hard on the model.
    """
    having = {name: one[metric] for name, one in baselines.items() if metric in one.estimates}
    if not having:
        raise SlatewiseError(
            f"no baseline has the metric '{metric}' to compare with.",
            "Compare with another metric, or with other baselines.",
        )
    # Without a click in the part, a recall is not a number.
    best = max(having, key=lambda name: np.nan_to_num(having[name].value, nan=-np.inf))
    after = evaluation.calibrated
    own = after if after is not None and metric in after.estimates else evaluation
    return BaselineVerdict(model, best, metric, own[metric] - having[best])
