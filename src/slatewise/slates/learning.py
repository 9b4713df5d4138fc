"""Online learning: the posterior of a slate's items after its outcome.

Between two trainings, an answered slate moves the vectors and biases of its items in the table that
slates are ranked from, by one step of assumed-density filtering
(`slatewise.model.assumed_density`). The utility of an item is taken for linear around its mean,
with the slopes of its closed form. All else that the model knows (users, groups, weights of terms)
stays as training left it.

A new item begins with the prior's full uncertainty, and has beliefs of its own after its first
impressions. Nothing is random: the same answers in the same order give the same table, to the bit,
whatever they were read in. Where compiled loops know the relevance, they learn from all answers at
once (`slatewise.model.kernels.loops.answers`).

Shapes: k items seen, D dimensions, R items of some answers, n answers, T items seen in them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from slatewise.model.assumed_density import LEAST, QUADRATURE, choice_slopes, filtered
from slatewise.model.fitted import ItemId, SlateModel
from slatewise.model.relevance import Relevance
from slatewise.ranking import ItemTable
from slatewise.slates.shown import ShownSlate
from slatewise.slates.slate import Slate

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float32]
Doubles = npt.NDArray[np.float64]

_LEAST_SCALE: Final = 1e-4


@dataclass(frozen=True)
class SlateOutcome:
    """The outcome of a slate that a recommender made."""

    slate: Slate
    clicked: Sequence[ItemId] = ()
    """in the order of the clicks; none for a slate without a click"""
    seen: int | None = None
    """how many of its items, from the first; None for all"""
    source: str | None = None
    """where it was shown, of the sources that the model knows; without it, where it was made for"""


class Answer(NamedTuple):
    """The outcome of a slate, by positions."""

    shown: ShownSlate
    seen: int
    """how many of its items, from the first"""
    clicked: tuple[int, ...]
    """positions, in the order of the clicks"""
    before: tuple[int, ...] = ()
    """positions of an earlier answer, which no longer count"""


class MovedItems(NamedTuple):
    """Items and what is believed of them, in 32 bits as in the table, whatever the page."""

    rows: Ints
    """[R]"""
    means: Floats
    """[R, D + 1], biases last"""
    scales: Floats
    """[R, D + 1]"""


def learning_obstacle(model: SlateModel) -> str | None:
    """Return why a model cannot learn from answers as they come, None if it can."""
    if model.config.likelihood == "all-item":
        return "the all-item likelihood has no probability of a click on a slate"
    silent = [name for name, term in model.terms.by_name.items() if not term.known_before_slate]
    return f"the term {silent[0]} is not known before a slate is shown" if silent else None


class ItemLearner:
    """Moves the items of a table by answers, in the order in which they are given."""

    def __init__(self, model: SlateModel, table: ItemTable) -> None:
        posterior = model.posterior
        parameters, pool = posterior.mean(), posterior.pool
        self._table, self._relevance = table, posterior.parts.relevance
        self._no_click = parameters.no_click.detach().cpu().numpy().astype(np.float64)  # [S]
        enough = parameters.enough
        self._enough = None if enough is None else enough.detach().cpu().numpy().astype(np.float64)
        self._sharpness = 1.0 if pool is None else pool.sharpness
        self._added_no_click = 0.0 if pool is None else pool.no_click

    def observe(self, answers: Iterable[Answer]) -> None:
        """Learn from answers, one after the other."""
        self.put(self.moved(answers))

    def moved(self, answers: Iterable[Answer]) -> MovedItems:
        """Return where answers, one after the other, would move their items."""
        answers = [answer for answer in answers if answer.seen]
        seen = [answer.shown.rows[: answer.seen] for answer in answers]
        rows, local = np.unique(np.concatenate([*seen, np.empty(0, np.int64)]), return_inverse=True)
        items = MovedItems(rows, *self.beliefs(rows))
        starts = _starts([len(one) for one in seen])
        if answers and is_compiled(self._relevance):
            self._learn_compiled(items, local, starts, answers)
        else:
            for answer, index in zip(answers, np.split(local, starts[1:-1]), strict=False):
                self.learn_plainly(items, index, answer)
        return items

    def _learn_compiled(
        self, items: MovedItems, local: Ints, starts: Ints, answers: Sequence[Answer]
    ) -> None:
        """Take answers into account in one loop; `local` [T] are their items."""
        from slatewise.model.kernels.loops import answers as loop  # noqa: PLC0415 (loads numba)

        shown = [answer.shown for answer in answers]
        clicks = [(*answer.before, *answer.clicked) for answer in answers]
        enough = np.empty(0) if self._enough is None else self._enough
        least = LEAST, _LEAST_SCALE
        loop.filter_answers(
            self._relevance.name == "dot",
            (
                local,
                np.concatenate(
                    [one.shown.offsets[: one.seen] for one in answers], dtype=np.float64
                ),
                starts,
                np.array([one.profile for one in shown], np.float64),
                np.array([one.no_click for one in shown]),
                np.fromiter(chain.from_iterable(clicks), np.int64),
                _starts([len(one) for one in clicks]),
                np.array([len(answer.before) for answer in answers]),
            ),
            (self._no_click, enough, self._sharpness, self._added_no_click, *least),
            QUADRATURE,
            *items[1:],
        )

    def put(self, moved: MovedItems) -> None:
        """Move items of the table."""
        if len(moved.rows):
            vectors, biases = moved.means[:, :-1], moved.means[:, -1]
            scales, bias_scales = moved.scales[:, :-1], moved.scales[:, -1]
            self._table.put(moved.rows, vectors, scales, biases, bias_scales)

    def beliefs(self, rows: Ints) -> tuple[Floats, Floats]:
        """Return the means and scales of items [R] as they are, biases last: [R, D + 1] each."""
        table = self._table
        biases, bias_scales = table.biases_of(rows), table.bias_scales_of(rows)
        return (
            np.concatenate([table.means_of(rows), biases[:, None]], axis=1),
            np.concatenate([table.scales_of(rows), bias_scales[:, None]], axis=1),
        )

    def learn_plainly(self, items: MovedItems, index: Ints, answer: Answer) -> None:
        """Take each choice of an answer into account; `index` [k] are its items."""
        made = list(answer.before)
        for click in answer.clicked:
            self._choose(items, index, answer.shown, made, click)
            made.append(click)
        stops = answer.clicked and self._enough is not None and len(made) < len(index)
        if stops or not made:
            self._choose(items, index, answer.shown, made, None)

    def _choose(
        self,
        items: MovedItems,
        index: Ints,
        shown: ShownSlate,
        made: Sequence[int],
        click: int | None,
    ) -> None:
        """Filter one choice among the items [k] that were not clicked before."""
        left = np.arange(len(index))
        if made:
            left = np.delete(left, made)
        rows = index[left]
        means = items.means[rows].astype(np.float64)  # [k, D + 1]
        variances = np.square(items.scales[rows], dtype=np.float64)
        centre, gradients = self._linear(means, variances, shown, left)
        found = choice_slopes(
            centre,
            (np.square(gradients) * variances).sum(axis=1),
            self._utility_of_none(len(index), len(made), shown),
            None if click is None else click - sum(one < click for one in made),
        )
        means, variances = filtered(means, variances, gradients, found)
        items.means[rows] = means
        moved = np.maximum(np.sqrt(variances), _LEAST_SCALE)
        items.scales[rows] = np.where(variances > 0, moved, 0.0)

    def _linear(
        self, means: Doubles, variances: Doubles, shown: ShownSlate, positions: Ints
    ) -> tuple[Doubles, Doubles]:
        """Return utilities [k] of items at positions, and their slopes by means [k, D + 1]."""
        utility, slopes = self._relevance.gradients(
            shown.profile.astype(np.float64),
            np.ascontiguousarray(means[:, :-1]),
            variances[:, :-1].sum(axis=1),
        )
        gradients = np.empty(means.shape)
        np.multiply(slopes, self._sharpness, out=gradients[:, :-1])
        gradients[:, -1] = self._sharpness
        centre = utility + means[:, -1] + shown.offsets[positions]
        return self._sharpness * centre, gradients

    def utilities(self, shown: ShownSlate, seen: int) -> tuple[Doubles, float]:
        """Return the utilities of the items seen [k], and of clicking nothing, as they are now."""
        means, scales = (one.astype(np.float64) for one in self.beliefs(shown.rows[:seen]))
        utilities = self._linear(means, np.square(scales), shown, np.arange(seen))[0]
        return utilities, self._utility_of_none(seen, 0, shown)

    def _utility_of_none(self, seen: int, clicks: int, shown: ShownSlate) -> float:
        """Return the utility of no click among items seen, or of enough after clicks."""
        if clicks and self._enough is not None:
            own = self._enough[min(clicks, len(self._enough)) - 1]
            return self._sharpness * float(own + np.log(max(1, seen - clicks)))
        own = self._no_click[min(seen, len(self._no_click)) - 1]
        return self._sharpness * (float(own) + shown.no_click) + self._added_no_click


def is_compiled(relevance: Relevance) -> bool:
    """Return whether compiled loops learn by a relevance."""
    return relevance.fused and relevance.name in ("distance", "dot")


def _starts(lengths: Sequence[int]) -> Ints:
    """Return where each of some runs begins, and the last ends: [n + 1]."""
    return np.cumsum([0, *lengths], dtype=np.int64)
