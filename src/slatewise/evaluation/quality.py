"""How much items differ in quality, by the evidence of a log.

A fit of a few days says little of how far apart items may be: its group spread hardly leaves where
training started. So several spreads are tried. Under each, item biases start at N(μ_g, s²) and are
filtered through the log in time order, one choice after the other
(`slatewise.model.assumed_density`); the sum of what was predicted of each choice before it was seen
is the log evidence of that spread. All else stays as the model has it, but for the utility of no
click: it was fitted with the model's own spread, and one number is added to it for each other.

Shapes: I items, k items of a slate, M draws.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.features.showings import showing_starts
from slatewise.features.user_history import Histories
from slatewise.model.assumed_density import choice_slopes, filtered
from slatewise.model.fitted import SlateModel
from slatewise.slates.learning import ItemLearner
from slatewise.slates.recommender import Recommender
from slatewise.slates.tables import table_of

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SCALES: Final = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
"""Spreads that are tried."""
_MOST_SLATES: Final = 2_000
"""Slates that are read, the last ones: some 5 s of CPU for all spreads."""
_DRAWS: Final = 32
_MOST_PASSES: Final = 6
"""Passes over the log for each spread; after each, Newton's step for the utility of no click."""
_NEAR: Final = 0.05
"""The length of a step that is not worth another pass."""


@dataclass(frozen=True)
class QualityScale:
    """What a log says of items if their qualities have this spread."""

    scale: float
    """s, the standard deviation of biases within a group"""
    evidence: float
    """log probability of the choices in the log"""
    no_click: float
    """what is added to the utility of no click"""
    means: Doubles
    """[I] of biases after the log"""
    scales: Doubles
    """[I]"""


@dataclass(frozen=True)
class QualityEvidence:
    """The spreads that were tried."""

    tried: list[QualityScale]

    @property
    def probabilities(self) -> Doubles:
        """Of each spread, given the log; all are as likely before it."""
        evidence = np.array([one.evidence for one in self.tried])
        chances = np.exp(evidence - evidence.max())
        return np.asarray(chances / chances.sum())

    @property
    def scale(self) -> float:
        """The mean spread, given the log."""
        return float(self.probabilities @ np.array([one.scale for one in self.tried]))

    def draw(self, rng: np.random.Generator) -> QualityScale:
        """Draw a spread by its probability."""
        return self.tried[int(rng.choice(len(self.tried), p=self.probabilities))]


class _Choice(NamedTuple):
    """A choice in the log, and the utilities without biases."""

    items: Ints
    """[k]"""
    utilities: Doubles
    """[k]"""
    no_click: float
    clicked: int | None


class _Pass(NamedTuple):
    """What came out of filtering a log under one spread."""

    evidence: float
    slope: float
    """of the evidence by the utility of no click"""
    curve: float
    means: Doubles
    variances: Doubles


def quality_evidence(model: SlateModel, dataset: SlateDataset) -> QualityEvidence | None:
    """Try spreads of item quality on a log; None for a model without item biases."""
    if "bias" not in model.config.terms:
        return None
    posterior = model.posterior
    with torch.no_grad():
        centres = posterior.prior.predictive(posterior.item_groups, posterior.item_features)[0][
            :, -1
        ]
    log = _FilteredLog(
        list(_choices(model, dataset)),
        centres.cpu().numpy().astype(np.float64),
        1.0 if posterior.pool is None else float(posterior.pool.sharpness),
    )
    tried, no_click = [], 0.0
    for scale in SCALES:
        found = log.best(scale, no_click)
        no_click = found.no_click
        tried.append(found)
    return QualityEvidence(tried)


def _choices(model: SlateModel, dataset: SlateDataset) -> "list[_Choice]":
    """Return the last choices of a log in time order, each with what was known before it."""
    interactions = dataset.interactions()
    lengths = np.diff(dataset.slate_offsets)
    # A further click on a slate is among what is left of it: the first says enough.
    rows = np.flatnonzero(showing_starts(interactions).numpy() & (lengths > 0))
    order = np.argsort(np.asarray(dataset.times)[rows], kind="stable")
    rows = rows[order][-_MOST_SLATES:]
    table = table_of(model)
    every = np.arange(table.num_items)
    none = np.zeros(len(every), np.float32)
    table.put(every, table.means_of(every), table.scales_of(every), none, none)
    recommender, learner = Recommender(model, table), ItemLearner(model, table)
    states = {name: term.state_after(dataset) for name, term in model.terms.with_state.items()}
    if states:
        recommender.refresh(states, int(np.asarray(dataset.times).max()) + 1)
    histories = Histories(interactions).before(torch.from_numpy(rows))
    choices = []
    for row, history in zip(rows.tolist(), histories, strict=True):
        start, end = dataset.slate_offsets[row : row + 2]
        items = np.asarray(dataset.slate_items[start:end], dtype=np.int64)
        shown = recommender.view.of(history, items, int(dataset.sources[row]))
        utilities, no_click = learner.utilities(shown, len(items))
        click = int(dataset.clicks[row])
        choices.append(_Choice(items, utilities, no_click, click if click >= 0 else None))
    return choices


class _FilteredLog:
    """Filters the choices of a log under a spread."""

    def __init__(self, choices: list[_Choice], centres: Doubles, sharpness: float) -> None:
        self._choices, self._centres, self._sharpness = choices, centres, sharpness
        longest = max(len(one.items) for one in choices)
        # The same draws for all spreads, so that differences between them are not noise.
        half = np.random.default_rng(0).standard_normal((_DRAWS // 2, longest))
        self._noise = np.concatenate([half, -half])  # [M, k]

    def best(self, scale: float, no_click: float) -> QualityScale:
        """Return the fit of a spread with the utility of no click that fits it best."""
        found = self._filter(scale, no_click)
        for _ in range(_MOST_PASSES - 1):
            step = found.slope / found.curve
            if abs(step) < _NEAR:
                break
            no_click += step
            found = self._filter(scale, no_click)
        # What one more step of Newton would add.
        evidence = found.evidence + 0.5 * found.slope**2 / found.curve
        return QualityScale(scale, evidence, no_click, found.means, np.sqrt(found.variances))

    def _filter(self, scale: float, added: float) -> _Pass:
        means = self._centres.copy()
        variances = np.full(len(means), scale**2)
        evidence = slope = 0.0
        curve = 1e-9
        sharpness = self._sharpness
        for items, utilities, none, clicked in self._choices:
            own, gradients = variances[items], np.full((len(items), 1), sharpness)
            centre, spread = utilities + sharpness * means[items], sharpness**2 * own
            no_click = none + added
            predicted = self._predicted(centre, np.sqrt(spread), no_click, clicked)
            evidence += predicted[0]
            slope += predicted[1]
            curve += predicted[2]
            found = choice_slopes(centre, spread, no_click, clicked)
            moved, left = filtered(means[items][:, None], own[:, None], gradients, found)
            means[items], variances[items] = moved[:, 0], left[:, 0]
        return _Pass(evidence, slope, curve, means, variances)

    def _predicted(
        self, means: Doubles, scales: Doubles, no_click: float, clicked: int | None
    ) -> tuple[float, float, float]:
        """Return the log probability of a choice, its slope by no click, and the curvature."""
        drawn = means + scales * self._noise[:, : len(means)]  # [M, k]
        top = np.maximum(drawn.max(axis=1), no_click)
        weights = np.exp(drawn - top[:, None])
        none = np.exp(no_click - top)
        total = weights.sum(axis=1) + none
        none /= total  # [M]
        chosen = none if clicked is None else weights[:, clicked] / total
        chance = max(float(chosen.sum()), 1e-300)
        slope = float(clicked is None) - float(chosen @ none) / chance
        mean = float(none.mean())
        return float(np.log(chance / len(none))), slope, mean * (1 - mean)
