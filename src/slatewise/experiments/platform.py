"""A simulated platform: a marketplace, its users, and the log of their slates, day by day."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NamedTuple, Protocol, Self

import numpy as np

from slatewise.experiments.daily_log import DailyLog, DaySlates
from slatewise.experiments.memory import Memory
from slatewise.experiments.online import OnlineConfig
from slatewise.simulation import (
    FrontPagePolicy,
    Marketplace,
    Policy,
    PromotedPagePolicy,
    SimulationConfig,
    TimedPolicy,
    Users,
    named_policy,
)
from slatewise.simulation.arrays import Bools, Doubles, Ints

MOMENTS: Final = 12
"""Moments of a day at which people come."""


@dataclass(frozen=True)
class Population:
    """All users of all days; an index is a user's id."""

    users: Users
    arm: Ints  # [U], the arm that each is in, for ever
    arrival: Ints  # [U], the first day; negative before the experiment
    stay: int

    @classmethod
    def generate(
        cls,
        config: OnlineConfig,
        market: Marketplace,
        days: int,
        arms: int,
        rng: np.random.Generator,
    ) -> Self:
        """Draw who arrives when, so that about as many are there on every day.

        Arms get equal shares: who is in which is a random permutation, whatever else is true of
        a user.
        """
        first = -config.window - config.stay + 1  # those are about to leave when the log begins
        count = round(config.people() * (days - first) / config.stay)
        users = market.new_users(count, rng)
        arrival = rng.integers(first, days, size=count)
        return cls(users, rng.permutation(count) % arms, arrival, config.stay)

    def __len__(self) -> int:
        """Return the number of all users, U."""
        return len(self.arm)

    def present(self, day: int) -> Ints:
        """Return those who have arrived and not yet left: [B]."""
        return np.flatnonzero((self.arrival <= day) & (day < self.arrival + self.stay))


class Moment(NamedTuple):
    """When a slate is asked for."""

    hours: float
    """since the start of the simulation"""
    time: int
    """microseconds since 1970"""


class ServingPolicy(Protocol):
    """What fills the recommendation slates of an arm."""

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Update everything to a moment with what was recorded since the last one."""

    def slates(self, who: Ints, seed: int) -> Ints:
        """Return slates [B, S] for the users `who` [B], now."""


class UsualPolicy:
    """The simulator's own policy, as it was before there was a model."""

    def __init__(self, market: Marketplace, users: Users, policy: Policy | TimedPolicy) -> None:
        self._market, self._users, self._policy = market, users, policy
        self._hours = 0.0

    def arrive(self, moment: Moment, news: DaySlates) -> None:
        """Look at the clock."""
        self._hours = moment.hours

    def slates(self, who: Ints, seed: int) -> Ints:
        """Return slates [B, S] for the users `who` [B], now."""
        rng = np.random.default_rng(seed)
        hours = None if self._market.life is None else self._hours
        return self._market.recommend(self._policy, self._users, who, rng, hours)


class Platform:
    """Shows slates to users and records them; days count from the start of the experiment.

    A day has `MOMENTS` at which people come, and what serves is brought up to date at each: items
    that have come and gone, histories, popularity. Chance is the same for all arms: who comes when,
    who searches, how far people scroll, and the seeds of the policies.
    """

    def __init__(
        self, config: OnlineConfig, world: SimulationConfig, days: int, arms: int, folder: Path
    ) -> None:
        self._config, self._seed, self._arms = config, world.seed, arms
        self.market = Marketplace(world.lasting(config.window + days))
        rng = self._stream(0)
        self.population = Population.generate(config, self.market, days, arms, rng)
        self.log = DailyLog(self.market, folder, config.window, config.split)
        self.memory = Memory(len(self.population))

    def warm_up(self, policy: str | None = None) -> None:
        """Fill a window of log before day 0; a policy of the simulator recommends to all arms."""
        usual = self.usual(policy or self.market.config.policy)
        for day in range(-self._config.window, 0):
            self.day(day, [usual] * self._arms)

    def usual(self, name: str) -> UsualPolicy:
        """Return a policy of the simulator; where items come and go, the page that stands for it.

        That is the newest items for all where one carousel is promoted, else a front page.
        """
        market = self.market
        policy: Policy | TimedPolicy
        if market.life is None:
            policy = named_policy(name, market.catalogue)
        else:
            page = PromotedPagePolicy if name == "promoted" else FrontPagePolicy
            policy = page(market.life)
        return UsualPolicy(market, self.population.users, policy)

    def day(self, day: int, policies: Sequence[ServingPolicy], *, lost: bool = False) -> DaySlates:
        """Show all users the slates of a day, recommendations by the policy of each arm.

        With `lost`, searches go unrecorded: users meet them and click, but neither training nor
        the histories that recommendations are made from will know.
        """
        present, number = self.population.present(day), day + self._config.window
        coming = _visits(len(present), self._config.slates_a_day, self._stream(1, number))
        news = DaySlates.empty(self.market.config.max_slate, self._arms)
        parts = [news]
        for index in range(MOMENTS):
            moment = self.moment(day + (index + 0.5) / MOMENTS)
            for policy in dict.fromkeys(policies):
                policy.arrive(moment, news)
            streams = [self._stream(2, number, index, purpose) for purpose in range(3)]
            met = self._meet(present[coming[:, index]], policies, moment, streams)
            news = met.only(~met.searched) if lost else met
            self.memory.record(news)
            parts.append(met)
        whole = DaySlates.joined(parts)
        self.log.record(day, whole.only(~whole.searched) if lost else whole)
        return whole

    def moment(self, day: float) -> Moment:
        """Return the moment at which a day, or a part of it, ends."""
        hours = self.log.hours(day)
        return Moment(hours, self.log.time(hours))

    def judge(self, policy: ServingPolicy, day: int) -> tuple[Ints, Doubles]:
        """Return who is there on a day, and how likely each would click on a slate of a policy.

        Exact probabilities [B] on the morning of the day; no slate is shown.
        """
        moment, who = self.moment(day), self.population.present(day)
        policy.arrive(moment, DaySlates.empty(self.market.config.max_slate, self._arms))
        slates = policy.slates(who, self._seed)
        users = self.population.users
        return who, self.market.click_probability(users, slates, who, moment.hours)

    def _meet(
        self,
        who: Ints,
        policies: Sequence[ServingPolicy],
        moment: Moment,
        streams: Sequence[np.random.Generator],
    ) -> DaySlates:
        """Show the users `who` [B] one slate each; judge what all arms would have shown.

        Streams are of their own for the users, for search and for policies, so that what one draws
        does not change the luck of another.
        """
        market, users, hours = self.market, self.population.users, moment.hours
        luck, searching, choosing = streams
        searched, arm = market.draw_searches(len(who), luck), self.population.arm[who]
        slates = np.zeros((len(who), market.config.max_slate), np.int64)
        judged = np.full((len(who), self._arms), np.nan)
        if searched.any():
            slates[searched] = market.find(users, who[searched], searching, hours)
        others, seed = who[~searched], int(choosing.integers(1 << 31))
        if len(others):
            offers = {policy: policy.slates(others, seed) for policy in dict.fromkeys(policies)}
            chances = {
                policy: market.click_probability(users, offer, others, hours)
                for policy, offer in offers.items()
            }
            judged[~searched] = np.stack([chances[policy] for policy in policies], axis=1)
            every = np.stack([offers[policy] for policy in policies])  # [A, B, S]
            slates[~searched] = every[arm[~searched], np.arange(len(others))]
        seen = market.show(users, slates, searched, luck, who, hours)
        return DaySlates(
            user=who,
            arm=arm,
            time=np.full(len(who), moment.time),
            slates=slates,
            scroll=seen.scroll,
            clicks=seen.clicks,
            searched=searched,
            judged=judged,
        )

    def _stream(self, *path: int) -> np.random.Generator:
        """Return a random stream of its own for each purpose: none depends on draws of another."""
        return np.random.default_rng(np.random.SeedSequence([self._seed, *path]))


def _visits(users: int, mean: float, rng: np.random.Generator) -> Bools:
    """Draw at which moments of a day users come, `mean` times on average (Poisson): [B, MOMENTS].

    No user comes twice at the same moment, or more often than there are moments.
    """
    times = np.minimum(rng.poisson(mean, size=users), MOMENTS)
    order = np.argsort(rng.random((users, MOMENTS)), axis=1)
    return order < times[:, None]
