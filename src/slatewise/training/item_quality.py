"""How much items differ in quality, by a log alone: where the prior of item biases starts.

Of a few days of log, training hardly learns this spread: biases are held near their group by the
spread they started with, and then confirm it. So several spreads s are tried on choices within
slates, with nothing but a quality b_i for each item,

    log P(i | slate) = b_i − log(e^c + Σ_j e^{b_j}),    b_i ~ N(μ_g, s²),    μ_g ~ N(0, 1),

and a level c of clicking nothing for each source and slate length. The evidence of s is that of
Laplace, with items taken for independent given their groups: h_i = Σ p_i (1 − p_i) over the slates
of an item, so that by its clicks b_i is known with precision h_i.

Shapes: I items, G groups, N choices, F items seen in them, L levels.
"""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.features.showings import showing_starts
from slatewise.model.config import ModelConfig
from slatewise.model.terms.typical_sizes import training_sample

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

SCALES: Final = (0.25, 0.35, 0.5, 0.7, 1.0, 1.4, 2.0)
"""Spreads that are tried."""
_USUAL: Final = 0.5, 0.7
"""What is believed of s before a log: about .5, and twice or half of it is usual."""
_MOST_CELLS: Final = 200_000
"""Items seen that are read: more say little that these do not."""
_PASSES: Final = 40
"""Steps for each spread, which starts where the one before ended."""
_LEVEL_PRECISION: Final = 0.1


def with_quality_spread(
    model: ModelConfig, dataset: SlateDataset, start: ModelConfig | None = None
) -> ModelConfig:
    """Return a model with the prior scale of its item biases that a log says, if none was given.

    A model that starts from another has that of the other. Where the likelihood is the choice among
    all items, biases say how popular these are, of which choices within slates say nothing.
    """
    setting = {"hierarchical": "kappa_bias", "flat": "sigma_bias"}.get(model.prior)
    if "bias" not in model.terms or model.likelihood == "all-item" or setting is None:
        return model
    if model.is_given(setting):
        return model
    spread = quality_spread(dataset) if start is None else getattr(start, setting)
    return model if spread is None else model.changed(**{setting: spread})


def quality_spread(dataset: SlateDataset) -> float | None:
    """Return the spread of item qualities within groups; None where slates are of no choice."""
    choices = _Choices.of(training_sample(dataset), dataset)
    if choices is None:
        return None
    fit = _Fit(choices)
    evidence = np.array([fit.evidence(scale) for scale in SCALES])
    logs = np.log(SCALES)
    evidence -= 0.5 * np.square((logs - np.log(_USUAL[0])) / _USUAL[1])
    chances = np.exp(evidence - evidence.max())
    return float(np.exp(chances @ logs / chances.sum()))


@dataclass(frozen=True)
class _Choices:
    """First choices of some showings; items and levels that they have are numbered from 0."""

    items: Ints
    """[F]"""
    choice_of: Ints
    """[F] which choice each item seen belongs to"""
    clicked: Ints
    """[C] items clicked"""
    levels: Ints
    """[N]"""
    declined: Ints
    """[L] choices of nothing"""
    lengths: Doubles
    """[L]"""
    groups: Ints
    """[I]"""

    @classmethod
    def of(cls, log: Interactions, dataset: SlateDataset) -> "_Choices | None":
        """Take the choices of a sample of users, as many as are read."""
        offsets = log.slate_offsets.numpy()
        lengths, clicks = np.diff(offsets), log.clicks.numpy().astype(np.int64)
        kept = showing_starts(log).numpy() & (lengths > 0)
        kept &= np.cumsum(np.where(kept, lengths, 0)) <= _MOST_CELLS
        rows = np.flatnonzero(kept)
        if not ((clicks[rows] < 0) | (lengths[rows] > 1)).any() or not (clicks[rows] >= 0).any():
            return None
        lengths, clicks = lengths[rows], clicks[rows]
        choice_of = np.repeat(np.arange(len(rows)), lengths)
        first = np.cumsum(lengths) - lengths
        cells = np.arange(len(choice_of)) + (offsets[rows] - first)[choice_of]
        seen, items = np.unique(log.slate_items.numpy()[cells], return_inverse=True)
        kinds = log.sources.numpy()[rows].astype(np.int64) * (lengths.max() + 1) + lengths
        found, levels = np.unique(kinds, return_inverse=True)
        return cls(
            items=items,
            choice_of=choice_of,
            clicked=items[(first + clicks)[clicks >= 0]],
            levels=levels,
            declined=np.bincount(levels[clicks < 0], minlength=len(found)),
            lengths=(found % (lengths.max() + 1)).astype(np.float64),
            groups=np.unique(np.asarray(dataset.item_groups)[seen], return_inverse=True)[1],
        )


class _Fit:
    """The most probable qualities and levels under one spread after the other."""

    def __init__(self, choices: _Choices) -> None:
        self._of = choices
        self._clicks = np.bincount(choices.clicked, minlength=len(choices.groups))  # [I]
        self._qualities = np.zeros(len(choices.groups))
        self._none = np.log(choices.lengths)  # [L]: without clicks, one in two does nothing
        self._total = 0.0

    def evidence(self, scale: float) -> float:
        """Return the log evidence of a spread, but for what all spreads share."""
        for _ in range(_PASSES):
            expected, _, none = self._probabilities()
            slope = self._clicks - expected - (self._qualities - self._centres(scale)) / scale**2
            # p_i, not p_i (1 − p_i): all qualities move at once.
            self._qualities += slope / (expected + 1 / scale**2)
            held = _LEVEL_PRECISION * (self._none - np.log(self._of.lengths))
            self._none += (self._of.declined - none - held) / (none + _LEVEL_PRECISION)
        _, known, _ = self._probabilities()
        centres = self._centres(scale)
        held = self._none - np.log(self._of.lengths)
        chosen = self._qualities[self._of.clicked].sum() + self._of.declined @ self._none
        of_groups = self._by_group(known / (1 + scale**2 * known)) + 1
        means = np.zeros(len(of_groups))
        means[self._of.groups] = centres
        return float(
            chosen
            - self._total
            - 0.5 * np.square(self._qualities - centres).sum() / scale**2
            - 0.5 * np.log1p(scale**2 * known).sum()
            - 0.5 * (np.square(means).sum() + np.log(of_groups).sum())
            - 0.5 * _LEVEL_PRECISION * np.square(held).sum()
        )

    def _probabilities(self) -> tuple[Doubles, Doubles, Doubles]:
        """Return Σ p and Σ p (1 − p) of items [I], and Σ p of clicking nothing [L]."""
        of = self._of
        weights, none = np.exp(self._qualities)[of.items], np.exp(self._none)[of.levels]
        totals = _summed(of.choice_of, weights, len(none)) + none
        self._total = float(np.log(totals).sum())
        shares = weights / totals[of.choice_of]
        count = len(self._clicks)
        expected = _summed(of.items, shares, count)
        known = _summed(of.items, shares * (1 - shares), count)
        return expected, known, _summed(of.levels, none / totals, len(self._none))

    def _centres(self, scale: float) -> Doubles:
        """Return the most probable mean of each item's group, given all qualities: [I]."""
        sums = self._by_group(self._qualities) / scale**2
        counts = self._by_group(np.ones(len(self._qualities))) / scale**2
        return np.asarray((sums / (1 + counts))[self._of.groups])

    def _by_group(self, values: Doubles) -> Doubles:
        return _summed(self._of.groups, values, 0)


def _summed(index: Ints, values: Doubles, count: int) -> Doubles:
    """Add up values by index: [count], or more where there are higher indices."""
    return np.asarray(np.bincount(index, values, minlength=count), np.float64)
