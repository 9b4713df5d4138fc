"""Which strategy pays on a site: simulated from what a fitted model believes of it.

The posterior is taken for the truth, but for how much items differ in quality, which a fit of few
views understates: that is drawn by the evidence of the log (`slatewise.evaluation.quality`), and
biases given that. Vectors are drawn from the posterior. Users are those of the log, each with her
past; they choose by the slate likelihood of the items drawn, and are not shown again what they have
clicked. Every strategy serves the same users for days, begins with the beliefs of the model, and
learns at night from its own slates alone, by the steps of `slatewise.slates.learning`. Items leave
and come at the pace of the log: new ones are drawn from the prior's predictive, with the spread of
quality that was drawn. The probability of a click on each slate is exact; what is left to chance
are the items drawn (how the site may be, given the log), users and clicks, and intervals are over
repetitions of all of it.

What the model does not know, this cannot know: if the posterior of its vectors is far too certain,
or its groups are wrong, exploring looks worth less, or more, than it is. A model without item
biases knows of no quality, and the advice says so.

Shapes: k items of a slate, R repetitions, D dimensions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import torch
from pydantic import NonNegativeInt, PositiveInt

from slatewise.config import Config
from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation.ab import Interval
from slatewise.evaluation.quality import QualityEvidence, QualityScale, quality_evidence
from slatewise.evaluation.site import Site, SiteLog
from slatewise.features.user_history import Histories, UserHistory
from slatewise.model.fitted import ItemId, SlateModel
from slatewise.ranking import Filter
from slatewise.slates.learning import Answer, ItemLearner, learning_obstacle
from slatewise.slates.recommender import Recommender
from slatewise.slates.strategies import named_strategy
from slatewise.slates.tables import table_of
from slatewise.slates.users import Users

Doubles = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Progress = Callable[[str, int, int | None], None]

GREEDY: Final = "greedy"


class AdviceConfig(Config):
    """How a site is simulated."""

    strategies: tuple[str, ...] = (GREEDY, "thompson", "in-slate-thompson")
    """What is compared; the first is what the others are compared with."""
    days: PositiveInt = 7
    """How long each serves, and learns from its own slates."""
    slates: PositiveInt = 300
    """Most slates of a day. Of a larger site a share is simulated: as many slates for each item and
    each user."""
    repetitions: PositiveInt = 8
    """How often items are drawn from the posterior, each time with other users."""
    seed: NonNegativeInt = 0


@dataclass(frozen=True)
class StrategyForecast:
    """What a strategy is expected to bring: 95 % intervals of what the site will see."""

    strategy: str
    click_rate: Interval
    """of all days"""
    gain: Interval
    """over the first strategy, on the same users and items"""
    last_day: Interval
    """the same of the last day alone, when learning has had its time"""


@dataclass(frozen=True)
class StrategyAdvice:
    """Which strategy pays on a site, and how sure that is."""

    site: Site
    forecasts: list[StrategyForecast]
    """in the order asked for"""
    quality: float | None = None
    """standard deviation of item quality within groups, by the log; None if the model has none"""

    @property
    def quality_note(self) -> str:
        """Describe how much items differ in quality."""
        if self.quality is None:
            return (
                "The model has no item bias: that some items may be better for everybody, which "
                "exploring would find out, is left out. Train with --terms bias to have it counted."
            )
        return (
            f"By the log, the quality of items has a standard deviation of {self.quality:.2f} "
            "within groups."
        )

    @property
    def best(self) -> StrategyForecast:
        """The strategy of the highest click rate."""
        return max(self.forecasts, key=lambda one: one.click_rate.value)

    @property
    def is_sure(self) -> bool:
        """Whether the site will see with 95 % certainty that the best is better than the first."""
        rest = self.forecasts[1:]
        if self.best is self.forecasts[0]:
            return all(one.gain.high < 0 for one in rest)
        return self.best.gain.low > 0

    @property
    def sentence(self) -> str:
        """Return the advice as a sentence."""
        first, best = self.forecasts[0].strategy, self.best
        if best is self.forecasts[0]:
            rival = max(self.forecasts[1:], key=lambda one: one.gain.value, default=None)
            if rival is None:
                return f"Only {first} was asked for."
            sure = "pays" if self.is_sure else "is as good a choice as any"
            return f"{first} {sure} here: {rival.strategy} brings {in_points(rival.gain)}."
        sure = "pays" if self.is_sure else "may pay"
        return f"{best.strategy} {sure} here: {in_points(best.gain)} over {first}."

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        return {
            "site": self.site.to_json(),
            "best": self.best.strategy,
            "sure": self.is_sure,
            "sentence": self.sentence,
            "quality": self.quality,
            "forecasts": [
                {
                    "strategy": one.strategy,
                    **{name: getattr(one, name).to_json() for name in _MEASURES},
                }
                for one in self.forecasts
            ],
        }


def in_points(gain: Interval) -> str:
    """Write a difference of click rates in points, with its interval."""
    numbers = f"{100 * gain.value:+.2f} points [{100 * gain.low:+.2f}, {100 * gain.high:+.2f}]"
    return numbers.replace("-", "−")


_MEASURES: Final = ("click_rate", "gain", "last_day")


def advise(
    model: SlateModel,
    dataset: SlateDataset,
    config: AdviceConfig | None = None,
    *,
    source: str | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> StrategyAdvice:
    """Simulate strategies on the site of a log, with the posterior of a model as the truth."""
    config = config or AdviceConfig()
    obstacle = learning_obstacle(model)
    if obstacle is not None:
        raise SlatewiseError(
            f"the model cannot tell how a site would answer: {obstacle}.",
            "Train a model with likelihood = 'slate'.",
        )
    if model.item_ids != dataset.item_ids.to_list():
        raise SlatewiseError(
            "the model's items are not those of the dataset.", "Give the dataset it was trained on."
        )
    log = SiteLog.of(model, dataset, source)
    quality = quality_evidence(model, dataset)
    rates = []  # [R, strategies, days]
    for number in range(config.repetitions):
        progress("simulating", number, config.repetitions)
        rates.append(_Repetition(model, dataset, log, quality, config, number).rates())
    found = np.array(rates)
    forecasts = [
        StrategyForecast(
            strategy,
            predicted(found[:, index].mean(axis=1)),
            predicted((found[:, index] - found[:, 0]).mean(axis=1)),
            predicted(found[:, index, -1] - found[:, 0, -1]),
        )
        for index, strategy in enumerate(config.strategies)
    ]
    return StrategyAdvice(log.site, forecasts, None if quality is None else quality.scale)


def predicted(values: Doubles) -> Interval:
    """Return the mean of values [R] with Student's 95 % interval of one value more.

    A site is one way that things may be: its interval is √(R + 1) times as wide as the mean's,
    which more repetitions would make as narrow as one likes.
    """
    from scipy.special import stdtrit  # noqa: PLC0415 – a third of a second to load

    value = float(values.mean())
    if len(values) < 2:
        return Interval(value, -np.inf, np.inf)
    error = float(values.std(ddof=1) * np.sqrt(1 + 1 / len(values)))
    reach = float(stdtrit(len(values) - 1, 0.975)) * error
    return Interval(value, value - reach, value + reach)


class _Repetition:
    """A simulated site drawn from the posterior, and the clicks of each strategy there."""

    def __init__(
        self,
        model: SlateModel,
        dataset: SlateDataset,
        log: SiteLog,
        quality: QualityEvidence | None,
        config: AdviceConfig,
        number: int,
    ) -> None:
        self._model, self._log, self._config = model, log, config
        self._rng = np.random.default_rng([config.seed, number])
        self._quality = None if quality is None else quality.draw(self._rng)
        site = log.site
        share = min(1.0, config.slates / site.slates_a_day)
        self._slates = max(1, round(share * site.slates_a_day))
        least = min(site.items, 4 * site.slate)
        size = min(site.items, max(least, round(share * site.items)))
        self._on_offer = self._rng.permutation(log.on_offer)[:size]
        self._leaving = round(site.leaving * size)
        self._states = {n: t.state_after(dataset) for n, t in model.terms.with_state.items()}
        self._time = int(np.asarray(dataset.times).max()) + 1
        self._draw_users(dataset, share)
        self._source = dataset.source_names.index(site.source)
        self._changes = list(self._drawn_changes())

    def _draw_users(self, dataset: SlateDataset, share: float) -> None:
        """Draw who comes when, each by how often she is in the log, of a share of all users."""
        count = self._config.days * self._slates
        of_row = np.searchsorted(dataset.user_offsets, self._log.rows, side="right") - 1
        users = np.unique(of_row)
        users = self._rng.permutation(users)[: max(1, round(share * len(users)))]
        choices = np.flatnonzero(np.isin(of_row, users))
        chosen = self._rng.choice(choices, count)
        self._seen = np.minimum(self._log.seen[chosen], self._log.site.slate)
        self._users = of_row[chosen]
        interactions = dataset.interactions()
        self._histories = Histories(interactions).whole(torch.from_numpy(self._users))
        self._luck = self._rng.random(count)

    def _drawn_changes(self) -> Iterator[tuple[Ints, list[str]]]:
        """Yield which items leave on the morning of each day, and the groups of those that come."""
        groups = np.asarray(self._model.posterior.item_groups.cpu())
        names, on_offer = self._model.group_names, self._on_offer
        total = len(groups)
        for day in range(self._config.days):
            leaving = self._rng.permutation(on_offer)[: self._leaving if day else 0]
            like = self._rng.choice(self._on_offer, len(leaving))
            coming = np.arange(total, total + len(leaving))
            on_offer = np.concatenate([np.setdiff1d(on_offer, leaving), coming])
            total += len(leaving)
            yield leaving, [names[group] for group in groups[like]]

    def rates(self) -> Doubles:
        """Return the exact click rate of each strategy on each day: [strategies, days]."""
        drawn = int(self._rng.integers(1 << 62))
        return np.array([self._served(name, drawn) for name in self._config.strategies])

    def _site(self, drawn: int | None = None) -> "_Items":
        """Return the items with the beliefs of the model, or drawn from these."""
        quality = None if drawn is None else self._quality
        items = _Items(self._model, self._on_offer, drawn, quality)
        if self._states:
            items.recommender.refresh(self._states, self._time)
        return items

    def _served(self, strategy: str, drawn: int) -> list[float]:
        """Serve the site drawn for days, learning at night; return the click rate of each day."""
        truth, beliefs = self._site(drawn), self._site()
        learner, made = beliefs.learner, named_strategy(strategy)
        clicked: dict[int, list[int]] = {}
        rates = []
        for day, (leaving, groups) in enumerate(self._changes):
            for items in (truth, beliefs):
                items.change(leaving, groups)
            first, answers, chances = day * self._slates, [], []
            for number in range(first, first + self._slates):
                history = self._histories[number]
                own = clicked.setdefault(int(self._users[number]), [])
                exclude = np.append(history.clicked, np.array(own, np.int64))
                filters = [Filter(exclude=exclude)]
                user = Users([history], filters, [number], self._source)
                rows = beliefs.recommender.maker.rows(user, self._log.site.slate, made)[0]
                rows = rows[rows >= 0]
                seen = min(int(self._seen[number]), len(rows))
                if not seen:
                    continue
                chosen = truth.choice(history, rows, self._source, seen)  # [k + 1]
                chances.append(1.0 - chosen[-1])
                position = int(np.searchsorted(np.cumsum(chosen), self._luck[number]))
                own += rows[position:seen][:1].tolist()
                shown = beliefs.recommender.view.of(history, rows, self._source)
                answers.append(Answer(shown, seen, (position,) if position < seen else ()))
            learner.observe(answers)
            rates.append(float(np.mean(chances)) if chances else 0.0)
        return rates


class _Items:
    """The items of a site: with the beliefs of a model, or one draw of them as the truth."""

    def __init__(
        self,
        model: SlateModel,
        on_offer: Ints,
        drawn: int | None,
        quality: QualityScale | None = None,
    ) -> None:
        table = table_of(model)
        self._quality = quality
        self.recommender = Recommender(model, table)
        self.learner = ItemLearner(model, table)
        self._rng = None if drawn is None else np.random.default_rng(drawn)
        every = np.arange(table.num_items)
        table.set_available(np.setdiff1d(every, on_offer), False)
        self._draw(every)

    def change(self, leaving: Ints, groups: Sequence[str]) -> None:
        """Take items off, and bring new ones."""
        table = self.recommender.ranker.table
        table.set_available(leaving, False)
        if groups:
            first = table.num_items
            ids: list[ItemId] = [f"new-{first + number}" for number in range(len(groups))]
            self.recommender.add_items(ids, groups)
            self._draw(np.arange(first, first + len(groups)))

    def _draw(self, rows: Ints) -> None:
        """Draw vectors and biases of items, where they are to be the truth."""
        if self._rng is None:
            return
        table = self.recommender.ranker.table
        means, scales = self.learner.beliefs(rows)
        if self._quality is not None:
            known = rows < len(self._quality.means)
            means[known, -1] = self._quality.means[rows[known]]
            scales[:, -1] = self._quality.scale
            scales[known, -1] = self._quality.scales[rows[known]]
        values = means + scales * self._rng.standard_normal(means.shape, dtype=np.float32)
        none = np.zeros_like(scales)
        table.put(rows, values[:, :-1], none[:, :-1], values[:, -1], none[:, -1])

    def choice(self, history: UserHistory, rows: Ints, source: int, seen: int) -> Doubles:
        """Return the probabilities of a click on each of the items seen, and of none: [k + 1]."""
        shown = self.recommender.view.of(history, rows, source)
        utilities, none = self.learner.utilities(shown, seen)
        added = 0.0 if self._quality is None else self._quality.no_click
        total = np.append(utilities, none + added)
        chances = np.exp(total - total.max())
        return np.asarray(chances / chances.sum())
