"""Metrics: small objects whose value is a function of sums over users.

That is all the bootstrap needs: it reweights users. Where items of a slate have equal
probabilities, an in-slate metric is its expectation under a random order of them.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from slatewise.data.ragged import Int64Array
from slatewise.evaluation.predictions import Predictions
from slatewise.evaluation.rows import Floats, row_numbers, sum_rows


class Observations(Protocol):
    """Anything with one row per thing observed, each belonging to a user."""

    @property
    def users(self) -> Int64Array:
        """[N]"""
        ...


T_contra = TypeVar("T_contra", bound=Observations, contravariant=True)


class Metric(ABC, Generic[T_contra]):
    """A number that says how good predictions, ranks or recommendations are."""

    name: str
    higher_is_better: ClassVar[bool | None] = True
    """None for what merely describes."""
    noise_raises: ClassVar[bool] = False
    """Resampling adds noise and with it value; the interval is then shifted back."""

    @abstractmethod
    def sums(self, observed: T_contra, groups: Int64Array, num_groups: int) -> Floats:
        """Add up what the value needs, over the rows of each group: groups [N] -> [G, P]."""

    @abstractmethod
    def value(self, sums: Floats) -> Floats:
        """Turn sums [..., P] into values [...]; nan where nothing was observed."""

    @abstractmethod
    def count(self, sums: Floats) -> Floats:
        """Return how many rows the values rest on: sums [..., P] -> [...]."""

    def per_user(self, observed: T_contra) -> tuple[Int64Array, Floats]:
        """Return the users [U], ascending, and the sums of each: [U, P]."""
        users, groups = np.unique(observed.users, return_inverse=True)
        return users, self.sums(observed, groups, len(users))

    def __call__(self, observed: T_contra) -> float:
        """Return the value over everything observed."""
        groups = np.zeros(len(observed.users), dtype=np.int64)
        return float(self.value(self.sums(observed, groups, 1))[0])


class Mean(Metric[T_contra]):
    """The mean over the rows where a value is defined."""

    @abstractmethod
    def per_interaction(self, observed: T_contra) -> Floats:
        """Return one value per row, nan where there is none: [N]."""

    def sums(self, observed: T_contra, groups: Int64Array, num_groups: int) -> Floats:
        """Return the sum of the values and their number: [G, 2]."""
        values = self.per_interaction(observed)
        defined = ~np.isnan(values)
        total = np.bincount(groups[defined], values[defined], num_groups)
        return np.stack([total, np.bincount(groups[defined], minlength=num_groups)], axis=1)

    def value(self, sums: Floats) -> Floats:
        """Divide."""
        with np.errstate(invalid="ignore", divide="ignore"):
            out: Floats = sums[..., 0] / sums[..., 1]
        return out

    def count(self, sums: Floats) -> Floats:
        """Return the number of values."""
        return sums[..., 1]


class LogLikelihood(Mean[Predictions]):
    """Mean log-probability of what happened, click or none, per interaction (nats).

    A further click on a slate is an interaction: which of the items left it was.
    """

    name = "log_likelihood"

    def per_interaction(self, observed: Predictions) -> Floats:
        """Return the log-likelihood of each interaction."""
        return observed.log_likelihood()


class LogLikelihoodSum(LogLikelihood):
    """The same, summed."""

    name = "log_likelihood_sum"

    def value(self, sums: Floats) -> Floats:
        """Return the sum, nan where nothing was observed."""
        return np.where(sums[..., 1] > 0, sums[..., 0], np.nan)


class LogLikelihoodPerSlate(LogLikelihood):
    """The same for a slate with all its clicks, given how many they were (nats)."""

    name = "log_likelihood_per_slate"

    def sums(self, observed: Predictions, groups: Int64Array, num_groups: int) -> Floats:
        """Return the sum over all clicks, and the number of slates: [G, 2]."""
        total = np.bincount(groups, observed.log_likelihood(), num_groups)
        slates = np.bincount(groups[observed.first_choices], minlength=num_groups)
        return np.stack([total, slates], axis=1)


class ClickRate(Mean[Predictions]):
    """Share of the slates that were clicked: a fact about the data, for reference."""

    name = "click_rate"
    higher_is_better = None

    def per_interaction(self, observed: Predictions) -> Floats:
        """Return 1 for a click; further clicks on a slate do not count."""
        return np.where(observed.first_choices, observed.clicks >= 0, np.nan)


class PredictedClickRate(Mean[Predictions]):
    """Mean predicted probability of a click; should equal the click rate."""

    name = "predicted_click_rate"
    higher_is_better = None

    def per_interaction(self, observed: Predictions) -> Floats:
        """Return the probability of a click."""
        return np.where(observed.first_choices, observed.click_probabilities(), np.nan)


class InSlate(Mean[Predictions]):
    """Rank of the first clicked item within its slate; slates of two items or more."""

    def per_interaction(self, observed: Predictions) -> Floats:
        """Compare each clicked item with the others of its slate."""
        rows, clicked = observed.clicked_cells
        own = np.full(len(observed), np.nan)
        own[rows] = observed.log_probabilities[clicked]
        own = own[row_numbers(observed.offsets)]
        above = sum_rows((observed.log_probabilities > own).astype(np.float64), observed.offsets)
        equal = sum_rows((observed.log_probabilities == own).astype(np.float64), observed.offsets)
        lengths = observed.scroll_lengths
        compared = (observed.clicks >= 0) & (lengths >= 2) & observed.first_choices
        out = np.full(len(observed), np.nan)
        out[compared] = self.standing(above[compared], equal[compared] - 1, lengths[compared])
        return out

    @abstractmethod
    def standing(self, above: Floats, ties: Floats, length: Int64Array) -> Floats:
        """Score a click with `above` items before it and `ties` equal to it, of `length`: [M]."""


class InSlateMRR(InSlate):
    """Mean reciprocal rank of the clicked item in its slate."""

    name = "in_slate_mrr"

    def standing(self, above: Floats, ties: Floats, length: Int64Array) -> Floats:
        """Return the mean of 1/rank over the ranks that the ties leave open."""
        harmonic = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, length.max(initial=0) + 1))])
        first, last = above.astype(np.int64), (above + ties + 1).astype(np.int64)
        out: Floats = (harmonic[last] - harmonic[first]) / (ties + 1)
        return out


class InSlateHit(InSlate):
    """Share of the clicks on the item with the greatest probability of its slate."""

    name = "in_slate_hit@1"

    def standing(self, above: Floats, ties: Floats, length: Int64Array) -> Floats:
        """Return the chance to come first."""
        return np.where(above == 0, 1 / (ties + 1), 0.0)


class InSlateAUC(InSlate):
    """Chance that the clicked item has a greater probability than another one of its slate."""

    name = "in_slate_auc"

    def standing(self, above: Floats, ties: Floats, length: Int64Array) -> Floats:
        """Return the share of the others that are below, ties half."""
        others = length - 1
        out: Floats = (others - above - ties / 2) / others
        return out


class AtK(Mean[T_contra]):
    """A metric that looks at the k best items of the catalogue."""

    label: ClassVar[str]

    def __init__(self, k: int = 20) -> None:
        self.k = k
        self.name = f"{self.label}@{k}"


@dataclass(frozen=True)
class TargetRanks:
    """Where each of M next clicks stood among all items just before it."""

    users: Int64Array
    """[M]"""
    sources: npt.NDArray[np.uint8]
    """[M]"""
    ranks: Int64Array
    """[M] from 1, the best"""


class Recall(AtK[TargetRanks]):
    """Share of the next clicks among the k best of all items."""

    label = "recall"

    def per_interaction(self, observed: TargetRanks) -> Floats:
        """Return 1 for a target among the k best."""
        return (observed.ranks <= self.k).astype(np.float64)


class MRR(AtK[TargetRanks]):
    """Mean reciprocal rank of the next click among all items, 0 beyond k."""

    label = "mrr"

    def per_interaction(self, observed: TargetRanks) -> Floats:
        """Return 1/rank, 0 beyond k."""
        return np.where(observed.ranks <= self.k, 1 / observed.ranks, 0.0)


@dataclass(frozen=True)
class RecommendedLists:
    """One recommendation to each of U users, made before the held-out interactions."""

    users: Int64Array
    """[U]"""
    items: Int64Array
    """[U, K] distinct within a row"""
    clicked: Int64Array
    """[C] items clicked in the held-out interactions, user after user"""
    offsets: Int64Array
    """[U + 1] the clicks of each user"""


class HitRate(AtK[RecommendedLists]):
    """Mean number of recommended items that were clicked later (equation hitrate of the paper).

    Favours what the platform will show anyway; for comparison with the paper, not for decisions.
    """

    label = "hitrate"

    def per_interaction(self, observed: RecommendedLists) -> Floats:
        """Return |recommended ∩ clicked later| of each user; repeated clicks count once."""
        span = 1 + max(observed.items.max(initial=0), observed.clicked.max(initial=0))
        rows = row_numbers(observed.offsets)
        pairs = np.unique(rows * span + observed.clicked)
        shown = np.arange(len(observed.users))[:, None] * span + observed.items[:, : self.k]
        hits: Floats = np.isin(shown, pairs).sum(axis=1).astype(np.float64)
        return hits


def slate_metrics(*, several_clicks: bool = False) -> list[Metric[Predictions]]:
    """Return the metrics of predictions that are means; one more for slates with several clicks."""
    per_slate: list[Metric[Predictions]] = [LogLikelihoodPerSlate()] if several_clicks else []
    return [
        LogLikelihood(),
        LogLikelihoodSum(),
        *per_slate,
        InSlateMRR(),
        InSlateHit(),
        InSlateAUC(),
        ClickRate(),
        PredictedClickRate(),
    ]
