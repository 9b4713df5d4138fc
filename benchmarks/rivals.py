"""What fills recommendation slates without a model of ours, on a simulated platform.

All see what the platform records and the items table, never the truth: counting, co-clicks, and
linear bandits. Each is brought up to date at every moment of a day, as slatewise's arms are.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from slatewise.experiments.daily_log import FEATURE, DaySlates
from slatewise.experiments.platform import Moment, Platform

Ints = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

HOUR: Final = 3_600_000_000


class Rival:
    """What all of them know: which items are on offer, who clicked what, and what is clicked."""

    def __init__(self, platform: Platform, half_life: float = 24.0, prior: float = 20.0) -> None:
        """Count with a half-life in hours; the rate of all items counts for `prior` views."""
        self.platform, self.market = platform, platform.market
        self.half_life, self.prior = half_life, prior
        count = platform.log.items.height
        self.clicks, self.views = np.zeros(count), np.zeros(count)
        self.everything = np.arange(count)
        self.offered = self.everything
        self._counted: int | None = None

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Count what is new, and look what is on offer."""
        if self._counted is not None:
            fade = 0.5 ** ((moment.time - self._counted) / HOUR / self.half_life)
            self.clicks *= fade
            self.views *= fade
        self._counted = moment.time
        self.offered = self.on_offer(moment.hours)
        if len(news.user):
            seen = np.arange(news.slates.shape[1]) < news.scroll[:, None]
            np.add.at(self.views, news.slates[seen], 1.0)
            np.add.at(self.clicks, news.clicks[news.clicks >= 0], 1.0)
            self.learn(news)

    def learn(self, news: DaySlates) -> None:
        """Learn more from slates; nothing by default."""

    def on_offer(self, hours: float) -> Ints:
        """Return the items that may be shown."""
        life = self.market.life
        if life is None:
            return self.everything
        return np.flatnonzero(life.alive(self.everything[None], np.array([hours]))[0])

    @property
    def rates(self) -> Doubles:
        """The click rate of all items, drawn towards that of all."""
        rate = (self.clicks.sum() + 1) / (self.views.sum() + 10)
        return np.asarray((self.clicks + self.prior * rate) / (self.views + self.prior))

    def slates(self, who: Ints, seed: int, among: Ints | None = None) -> Ints:
        """Return slates [B, S] for the users `who` [B], of items on offer that are new to them."""
        offered = self.offered if among is None else among
        size, rng = self.market.config.max_slate, np.random.default_rng(seed)
        clicked = [set(one.clicked.tolist()) for one in self.platform.memory.histories(who)]
        slates = np.empty((len(who), size), np.int64)
        for row, user in enumerate(who.tolist()):
            scores = self.scores(user, offered, rng)
            best = offered[np.argsort(-scores, kind="stable")[: size + len(clicked[row])]]
            kept = [item for item in best.tolist() if item not in clicked[row]][:size]
            slates[row] = self.complete(kept, offered, size)
        return slates

    def complete(self, kept: list[int], offered: Ints, size: int) -> list[int]:
        """Fill a slate up where too little is new to a user."""
        missing = [item for item in offered.tolist() if item not in kept]
        return [*kept, *missing][:size]

    def scores(self, user: int, offered: Ints, rng: np.random.Generator) -> Doubles:
        """Return the scores of items on offer [A] for a user: [A]."""
        raise NotImplementedError


class Popularity(Rival):
    """The click rate of late, with a share ε of positions filled at random."""

    def __init__(self, platform: Platform, epsilon: float = 0.0, **counting: float) -> None:
        super().__init__(platform, **counting)
        self.epsilon = epsilon

    def scores(self, user: int, offered: Ints, rng: np.random.Generator) -> Doubles:
        """Return click rates; items that are drawn with probability ε come first."""
        scores = self.rates[offered]
        if not self.epsilon:
            return scores
        # Of S positions a share ε: a random item is taken for the best with that chance.
        size = self.market.config.max_slate
        lucky = rng.random(len(offered)) < self.epsilon * size / max(len(offered), 1)
        return np.where(lucky, 1.0 + rng.random(len(offered)), scores)


def item_columns(platform: Platform) -> Doubles:
    """Return what the items table says of all items: a column for each group, and features."""
    items = platform.log.items
    groups = np.unique(items["group"].to_numpy(), return_inverse=True)[1]
    columns = [np.eye(groups.max() + 1)[groups]]
    columns += [items[name].to_numpy()[:, None] for name in items.columns if FEATURE in name]
    return np.nan_to_num(np.concatenate(columns, axis=1).astype(np.float64))


class Neighbours(Rival):
    """Items that were clicked by who clicked what the user clicked last; click rates before that.

    A click on item i by somebody who clicked j among her last ones makes them neighbours; scores
    are cosines of clicks, summed over the user's last clicks, beside a share of the click rate.
    """

    def __init__(
        self, platform: Platform, last: float = 5, popular: float = 0.1, **counting: float
    ) -> None:
        super().__init__(platform, **counting)
        self.last, self.popular = int(last), popular
        self.together: dict[int, dict[int, float]] = {}
        self.clicked = np.zeros(len(self.everything))
        self._recent: dict[int, list[int]] = {}

    def learn(self, news: DaySlates) -> None:
        """Count pairs of clicks."""
        for user, item in zip(news.user.tolist(), news.clicks.tolist(), strict=True):
            if item < 0:
                continue
            recent = self._recent.setdefault(user, [])
            for other in recent:
                for one, two in ((item, other), (other, item)):
                    own = self.together.setdefault(one, {})
                    own[two] = own.get(two, 0.0) + 1.0
            self.clicked[item] += 1
            recent.append(item)
            del recent[: -self.last]

    def scores(self, user: int, offered: Ints, rng: np.random.Generator) -> Doubles:
        """Return the similarity of items to what a user clicked last."""
        total = np.zeros(len(self.everything))
        for item in self._recent.get(user, []):
            for other, count in self.together.get(item, {}).items():
                total[other] += count / np.sqrt(self.clicked[item] * self.clicked[other])
        return np.asarray(total[offered] + self.popular * self.rates[offered])


class Context:
    """What linear bandits know of a user and an item: F numbers."""

    def __init__(self, platform: Platform) -> None:
        self.columns = item_columns(platform)  # [I, C]
        self._recent: dict[int, Doubles] = {}
        self.size = 2 * self.columns.shape[1] + 3

    def of(self, user: int, items: Ints, rates: Doubles, hours: float, born: Doubles) -> Doubles:
        """Return a one, the item's columns, those times the user's, rate and age: [A, F]."""
        own = self.columns[items]
        taste = self._recent.get(user, np.zeros(own.shape[1]))
        odds = np.log(rates[items] / (1 - rates[items]))
        age = np.log1p(np.maximum(hours - born[items], 0.0))
        one = np.ones(len(items))
        return np.concatenate([one[:, None], own, own * taste, odds[:, None], age[:, None]], axis=1)

    def remember(self, news: DaySlates, keep: float = 0.8) -> None:
        """Move the taste of users towards what they clicked."""
        for user, item in zip(news.user.tolist(), news.clicks.tolist(), strict=True):
            if item >= 0:
                before = self._recent.get(user, np.zeros(self.columns.shape[1]))
                self._recent[user] = keep * before + (1 - keep) * self.columns[item]


class LinearThompson(Rival):
    """Bayesian linear regression of clicks on context, a draw of its weights for every slate.

    The slate is the best of one draw. Weights have a unit normal prior; noise is `noise`, which
    also says how much is explored.
    """

    def __init__(self, platform: Platform, noise: float = 0.3, **counting: float) -> None:
        super().__init__(platform, **counting)
        self.context, self.noise = Context(platform), noise
        size = self.context.size
        self.precision, self.moment_sum = np.eye(size), np.zeros(size)
        self._root: Doubles | None = None
        self._mean = np.zeros(size)
        self._hours = 0.0
        life = self.market.life
        self.born = np.zeros(len(self.everything)) if life is None else life.published

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Learn what is new, and prepare draws."""
        self._hours = moment.hours
        super().arrive(moment, news)
        covariance = np.linalg.inv(self.precision)
        self._mean = covariance @ self.moment_sum
        self._root = np.linalg.cholesky(covariance + 1e-9 * np.eye(len(covariance)))

    def learn(self, news: DaySlates) -> None:
        """Add what was seen, clicked or not."""
        rates = self.rates
        for row, user in enumerate(news.user.tolist()):
            items = news.slates[row, : news.scroll[row]]
            features = self.context.of(user, items, rates, self._hours, self.born)
            self.precision += features.T @ features / self.noise**2
            self.moment_sum += features[items == news.clicks[row]].sum(axis=0) / self.noise**2
        self.context.remember(news)

    def scores(self, user: int, offered: Ints, rng: np.random.Generator) -> Doubles:
        """Return what a draw of the weights makes of items."""
        assert self._root is not None
        weights = self._mean + self._root @ rng.standard_normal(len(self._mean))
        found = self.context.of(user, offered, self.rates, self._hours, self.born)
        return np.asarray(found @ weights)


class VowpalWabbit(Rival):
    """Vowpal Wabbit's contextual bandit over the items on offer, with the same context.

    `--cb_explore_adf` with the exploration that is named, one decision for each position of the
    slate: the probabilities that it returns are drawn from without replacement. It learns from
    every position seen with the probability that it had.
    """

    line = "--cb_explore_adf"

    def __init__(
        self,
        platform: Platform,
        explore: str = "--squarecb --gamma_scale 100",
        rate: float = 0.5,
        **counting: float,
    ) -> None:
        super().__init__(platform, **counting)
        from vowpalwabbit import Workspace  # noqa: PLC0415 (optional)

        self.context = Context(platform)
        more = f"--cb_type mtr {explore} -l {rate} --quiet --noconstant --random_seed 1"
        self.machine = Workspace(f"{self.line} {more}")
        self._hours = 0.0
        life = self.market.life
        self.born = np.zeros(len(self.everything)) if life is None else life.published

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Learn what is new."""
        self._hours = moment.hours
        super().arrive(moment, news)

    def learn(self, news: DaySlates) -> None:
        """Tell of each slate what was seen, with a cost of −1 for the click."""
        rates = self.rates
        for row, user in enumerate(news.user.tolist()):
            items = news.slates[row, : news.scroll[row]]
            features = self.context.of(user, items, rates, self._hours, self.born)
            clicked = np.flatnonzero(items == news.clicks[row])
            shown = int(clicked[0]) if len(clicked) else 0
            cost = -1.0 if len(clicked) else 0.0
            lines = self._lines(features)
            # Which of those seen is told of: the click, or else the first. Each had about this
            # chance to stand where it stood.
            lines[shown] = f"0:{cost}:{1 / len(items):.6f} " + lines[shown]
            self.machine.learn(lines)
        self.context.remember(news)

    def scores(self, user: int, offered: Ints, rng: np.random.Generator) -> Doubles:
        """Draw an order of the items without replacement, by the probabilities (Gumbel)."""
        features = self.context.of(user, offered, self.rates, self._hours, self.born)
        chances = np.asarray(self.machine.predict(self._lines(features)))
        return np.asarray(np.log(np.maximum(chances, 1e-12)) + rng.gumbel(size=len(offered)))

    def _lines(self, features: Doubles) -> list[str]:
        """Write items as examples, without zeros."""
        return [
            "| " + " ".join(f"{column}:{row[column]:.4g}" for column in np.flatnonzero(row))
            for row in features
        ]


class VowpalWabbitSlates(VowpalWabbit):
    """Vowpal Wabbit's conditional contextual bandit: one decision for each position of a slate.

    `--ccb_explore_adf` fills positions one after the other, and learns from every position seen
    with the probability that its item had there; 1 / items for the log that all begin with.
    """

    line = "--ccb_explore_adf"

    def __init__(self, platform: Platform, **settings: Any) -> None:
        super().__init__(platform, **settings)
        self._chances: dict[int, dict[int, float]] = {}
        """by user, the probability of each item of the slate she was last shown"""

    def slates(self, who: Ints, seed: int, among: Ints | None = None) -> Ints:
        """Return slates [B, S], drawn position by position."""
        offered = self.offered if among is None else among
        size = self.market.config.max_slate
        slates = np.empty((len(who), size), np.int64)
        for row, one in enumerate(self.platform.memory.histories(who)):
            user, items = int(who[row]), np.setdiff1d(offered, one.clicked)
            features = self.context.of(user, items, self.rates, self._hours, self.born)
            drawn = [slot[0] for slot in self.machine.predict(self._example(features, size))]
            chosen = [int(items[action]) for action, _ in drawn]
            self._chances[user] = dict(zip(chosen, (p for _, p in drawn), strict=True))
            slates[row] = self.complete(chosen, offered, size)
        return slates

    def learn(self, news: DaySlates) -> None:
        """Tell of each position seen, with a cost of −1 for the click."""
        rates = self.rates
        for row, user in enumerate(news.user.tolist()):
            items = news.slates[row, : news.scroll[row]]
            known = {} if news.searched[row] else self._chances.get(user, {})
            features = self.context.of(user, items, rates, self._hours, self.born)
            labels = [
                f" {index}:{-1.0 if item == news.clicks[row] else 0.0}"
                f":{known.get(item, 1 / len(self.offered)):.6f}"
                for index, item in enumerate(items.tolist())
            ]
            self.machine.learn(self._example(features, len(items), labels))
        self.context.remember(news)

    def _example(self, features: Doubles, slots: int, labels: Sequence[str] = ()) -> list[str]:
        """Write a slate: what all share, its items, and its positions."""
        actions = [f"ccb action {line}" for line in self._lines(features)]
        told = labels or [""] * slots
        return ["ccb shared |", *actions, *(f"ccb slot{one} | p{n}" for n, one in enumerate(told))]


def logged_day(platform: Platform, day: int) -> DaySlates:
    """Return the slates of a day of the log, as far as counting asks."""
    table, width = platform.log.days[day], platform.market.config.max_slate
    slates = np.zeros((table.height, width), np.int64)
    lengths = table["slate"].list.len().to_numpy()
    for row, slate in enumerate(table["slate"].to_list()):
        slates[row, : len(slate)] = slate
    nothing = np.zeros(table.height, np.int64)
    return DaySlates(
        user=table["user_id"].to_numpy(),
        arm=nothing,
        time=nothing,
        slates=slates,
        scroll=lengths.astype(np.int64),
        clicks=table["click"].fill_null(-1).to_numpy(),
        searched=(table["source"] == "search").to_numpy(),
        judged=np.zeros((table.height, 1)),
    )
