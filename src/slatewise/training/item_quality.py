"""How much items differ in quality, by a log alone: where item biases and their prior start.

Of a few days of log, training hardly learns this spread. Biases that start at 0 pull it down before
they have moved, and it holds them there. So several spreads s are tried on choices within slates,
with nothing but a quality b_i for each item,

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
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.features.showings import showing_starts
from slatewise.model.config import ModelConfig
from slatewise.model.posterior import Posterior
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


@dataclass(frozen=True)
class ItemQualities:
    """What a log says of the qualities of items."""

    spread: float
    """s, within groups"""
    items: Ints
    """[I] numbers of the items that were seen"""
    means: Doubles
    """[I]"""
    scales: Doubles
    """[I]"""
    groups: Ints
    """[G] numbers of their groups"""
    centres: Doubles
    """[G] μ_g"""

    def start(self, posterior: Posterior) -> None:
        """Start item biases, and the means of their groups, where the log has them."""
        column, items = posterior.config.dimensions, posterior.items
        rows = torch.from_numpy(self.items).to(items.mean.device)
        with torch.no_grad():
            scale = torch.from_numpy(self.scales).to(items.mean)
            items.mean[rows, column] = torch.from_numpy(self.means).to(items.mean)
            items.raw[rows, column] = items.raw_of(scale, most=0.9)
            if "group_means" in posterior.shared:
                means = posterior.shared["group_means"].mean
                groups = torch.from_numpy(self.groups).to(means.device)
                means[groups, column] = torch.from_numpy(self.centres).to(means)


def qualities_of(model: ModelConfig, dataset: SlateDataset) -> ItemQualities | None:
    """Return what a log says of item biases; None where a model has none, or theirs is given.

    Where the likelihood is the choice among all items, biases say how popular these are, of which
    choices within slates say nothing.
    """
    setting = _setting(model)
    if setting is None or model.is_given(setting):
        return None
    return item_qualities(dataset)


def with_spread(
    model: ModelConfig, found: ItemQualities | None, start: ModelConfig | None = None
) -> ModelConfig:
    """Return a model with the prior scale of its biases that was found, if none was given.

    A model that starts from another has that of the other.
    """
    setting = _setting(model)
    if setting is None or model.is_given(setting):
        return model
    if start is not None:
        return model.changed(**{setting: getattr(start, setting)})
    return model if found is None else model.changed(**{setting: found.spread})


def _setting(model: ModelConfig) -> str | None:
    """Return the setting of the prior scale of item biases; None if choices do not tell of it."""
    if "bias" not in model.terms or model.likelihood == "all-item":
        return None
    return {"hierarchical": "kappa_bias", "flat": "sigma_bias"}.get(model.prior)


def item_qualities(dataset: SlateDataset) -> ItemQualities | None:
    """Return the qualities of items by choices in a log; None where slates are of no choice."""
    choices = _Choices.of(training_sample(dataset), dataset)
    if choices is None:
        return None
    fit, logs = _Fit(choices), np.log(SCALES)
    evidence = np.array([fit.evidence(scale) for scale in SCALES])
    evidence -= 0.5 * np.square((logs - np.log(_USUAL[0])) / _USUAL[1])
    chances = np.exp(evidence - evidence.max())
    spread = float(np.exp(chances @ logs / chances.sum()))
    means, scales, centres = fit.qualities(spread)
    return ItemQualities(spread, choices.numbers, means, scales, choices.group_numbers, centres)


@dataclass(frozen=True)
class _Choices:
    """First choices of some showings; items and levels that they have are numbered from 0."""

    numbers: Ints
    """[I] of the items"""
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
    group_numbers: Ints
    """[G]"""

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
        of_items = np.asarray(dataset.item_groups, np.int64)[seen]
        group_numbers, groups = np.unique(of_items, return_inverse=True)
        return cls(
            numbers=seen.astype(np.int64),
            items=items,
            choice_of=choice_of,
            clicked=items[(first + clicks)[clicks >= 0]],
            levels=levels,
            declined=np.bincount(levels[clicks < 0], minlength=len(found)),
            lengths=(found % (lengths.max() + 1)).astype(np.float64),
            groups=groups,
            group_numbers=group_numbers,
        )


class _Fit:
    """The most probable qualities and levels under one spread after the other."""

    def __init__(self, choices: _Choices) -> None:
        self._of = choices
        self._clicks = np.bincount(choices.clicked, minlength=len(choices.groups))  # [I]
        self._qualities = np.zeros(len(choices.groups))
        self._none = np.log(choices.lengths)  # [L]: without clicks, one in two does nothing
        self._total = 0.0

    def _climb(self, scale: float) -> None:
        """Move to the most probable qualities and levels under a spread."""
        for _ in range(_PASSES):
            expected, _, none = self._probabilities()
            slope = self._clicks - expected - self._from_centres(scale) / scale**2
            # p_i, not p_i (1 − p_i): all qualities move at once.
            self._qualities += slope / (expected + 1 / scale**2)
            held = _LEVEL_PRECISION * (self._none - np.log(self._of.lengths))
            self._none += (self._of.declined - none - held) / (none + _LEVEL_PRECISION)

    def qualities(self, scale: float) -> tuple[Doubles, Doubles, Doubles]:
        """Return means and scales of items [I] under a spread, and the means of groups [G]."""
        self._climb(scale)
        _, known, _ = self._probabilities()
        return self._qualities.copy(), 1 / np.sqrt(known + 1 / scale**2), self._centres(scale)

    def evidence(self, scale: float) -> float:
        """Return the log evidence of a spread, but for what all spreads share."""
        self._climb(scale)
        _, known, _ = self._probabilities()
        centres = self._centres(scale)
        held = self._none - np.log(self._of.lengths)
        chosen = self._qualities[self._of.clicked].sum() + self._of.declined @ self._none
        of_groups = self._by_group(known / (1 + scale**2 * known)) + 1
        return float(
            chosen
            - self._total
            - 0.5 * np.square(self._from_centres(scale)).sum() / scale**2
            - 0.5 * np.log1p(scale**2 * known).sum()
            - 0.5 * (np.square(centres).sum() + np.log(of_groups).sum())
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
        """Return the most probable mean of each group, given all qualities: [G]."""
        counts = self._by_group(np.ones(len(self._qualities))) / scale**2
        return np.asarray(self._by_group(self._qualities) / scale**2 / (1 + counts))

    def _from_centres(self, scale: float) -> Doubles:
        """Return how far items are from the mean of their group: [I]."""
        return np.asarray(self._qualities - self._centres(scale)[self._of.groups])

    def _by_group(self, values: Doubles) -> Doubles:
        return _summed(self._of.groups, values, 0)


def _summed(index: Ints, values: Doubles, count: int) -> Doubles:
    """Add up values by index: [count], or more where there are higher indices."""
    return np.asarray(np.bincount(index, values, minlength=count), np.float64)
