"""How readily the user has clicked so far, on the no-click option."""

from typing import TYPE_CHECKING, ClassVar, Final, Literal

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.features.propensity import Propensity
from slatewise.features.user_history import UserHistory
from slatewise.model.terms.term import (
    Describe,
    FeatureTerm,
    Floats,
    Ranks,
)
from slatewise.model.terms.typical_sizes import training_sample, typical_sizes

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


class PropensityTerm(FeatureTerm):
    """w x(user) with the feature of `slatewise.features.propensity`; w is negative as a rule."""

    name: ClassVar[str] = "propensity"
    acts_on: ClassVar[Literal["items", "no click"]] = "no click"
    ranks: ClassVar[Ranks] = "never"

    propensity: Propensity
    """What the feature is computed with."""
    size: float
    """By which it is divided."""

    @classmethod
    def columns(cls, config: "ModelConfig") -> tuple[str, ...]:
        """Name the feature."""
        return ("click_propensity",)

    @classmethod
    def obstacle(cls, dataset: SlateDataset) -> str | None:
        """Return why a log cannot teach it: all users click every slate."""
        return None if (np.asarray(dataset.clicks) < 0).any() else "every slate has a click"

    @classmethod
    def fit(cls, config: "ModelConfig", dataset: SlateDataset) -> "PropensityTerm":
        """Count click rates, and find how many slates the prior of a user is worth."""
        propensity = Propensity.fit(dataset)
        features = propensity.features(training_sample(dataset))
        return cls(propensity=propensity, size=typical_sizes(features[:, None])[0])

    def describe_in(self, log: SlateDataset | None) -> Describe:
        """Of the log nothing is needed: what a user clicked is in her own interactions."""
        return lambda interactions: self.propensity.features(interactions)[:, None] / self.size

    def before_slate(self, history: UserHistory) -> Floats:
        """Return the feature of the next slate of a user with a history: [1]."""
        return np.array([self.propensity.after(history) / self.size], np.float32)

    def words(self, column: str) -> str:
        """Return the meaning of the feature."""
        return "how readily the user clicked so far"


PART: Final = PropensityTerm
