"""The marketplace: users see slates, and every probability is known."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.simulation import choice
from slatewise.simulation.arrays import Bools, Doubles, Floats, Ints
from slatewise.simulation.catalogue import Catalogue, repeated
from slatewise.simulation.choice import ChoiceProbabilities, OutsideTruth, PaperTruth, Scroll, Truth
from slatewise.simulation.config import SimulationConfig
from slatewise.simulation.effects import Effects, standing_out
from slatewise.simulation.features import listed_groups
from slatewise.simulation.intent import IntentProcess, Users, satiated
from slatewise.simulation.life import Life
from slatewise.simulation.policies import Policy, TimedPolicy
from slatewise.simulation.search import Search
from slatewise.simulation.space import Space

Hours: TypeAlias = float | Doubles
"""Hours since the start of the simulation, one for all users or one for each [B]."""


@dataclass(frozen=True)
class Interactions:
    """One interaction of each of B users: what was shown, what they did, how likely it was."""

    who: Ints
    """The users, as indices into the population, [B]."""

    slates: Ints
    """What was offered, in order, [B, S]; the user saw the first `scroll` items."""

    scroll: Ints
    """Scroll lengths, 1..S, [B]."""

    clicks: Ints
    """The clicked items, −1 for none, [B]."""

    searched: Bools
    """Whether the slate came from search and not from the policy, [B]."""

    state: Floats
    """Intent at the moment of the slate, before it changed, [B, D]."""

    choice: ChoiceProbabilities
    """Exact probabilities given the scroll length."""

    click_probability: Doubles
    """Exact probability of any click on the offered slate before the scroll was known, [B]."""


class Marketplace:
    """The world that a configuration describes; users live outside it, in `Users`."""

    def __init__(self, config: SimulationConfig) -> None:
        rng = stream(config.seed, 0)
        self.config = config
        self.catalogue = Catalogue.generate(config.catalogue, rng)
        self.space = Space.generate(self.catalogue, config.catalogue, config.search.neighbours, rng)
        self.intent = IntentProcess(config.intent, self.catalogue, self.space)
        self.search = Search(config.search, self.catalogue, self.space)
        self.scroll = Scroll(config.mean_scroll, config.max_slate)
        self.truth: Truth = (
            PaperTruth(config.paper, self.space, config.max_slate)
            if config.truth == "paper"
            else OutsideTruth(config.outside, self.space, config.max_slate, rng)
        )
        # Streams of their own: a world without effects stays what it was before there were any.
        longest = config.max_slate
        self.effects = Effects(config.effects, self.catalogue, longest, stream(config.seed, 2))
        self.life = (
            Life.generate(config, self.catalogue, stream(config.seed, 3))
            if config.life.hours
            else None
        )

    @property
    def quality(self) -> Floats | None:
        """Utility that an item has for every user, [I]; None if the world has none."""
        base, added = self.truth.quality, self.effects.quality
        if not self.config.effects.quality_sd:
            return base
        return added if base is None else base + added

    @property
    def listed_groups(self) -> Ints:
        """The groups in the items table, some of them wrong if the world has such errors: [I]."""
        share = self.config.catalogue.mislabelled
        return listed_groups(self.catalogue, share, stream(self.config.seed, 5))

    def new_users(self, count: int, rng: np.random.Generator) -> Users:
        """Return `count` users who have not interacted yet."""
        users = self.intent.arrive(count, rng, capacity=self.config.max_interactions)
        self.effects.initialise(users, rng)
        return users

    def interact(
        self,
        users: Users,
        policy: Policy | TimedPolicy,
        rng: np.random.Generator,
        who: Ints | None = None,
        hours: Hours | None = None,
    ) -> Interactions:
        """Show each of the users `who` (all if None) one slate, and change them accordingly.

        With probability `search_share` the slate is a search, otherwise the policy's. Where items
        come and go, `hours` says when: one time for all, or one for each [B].
        """
        who = _all_users(users) if who is None else np.asarray(who, dtype=np.int64)
        if len(np.unique(who)) < len(who):
            raise SlatewiseError(
                "A user cannot meet two slates at once.", "Pass each user of `who` once."
            )
        now = self._now(hours, len(who))
        searched = self.draw_searches(len(who), rng)
        slates = np.empty((len(who), self.config.max_slate), dtype=np.int64)  # [B, S]
        if searched.any():
            then = None if now is None else now[searched]
            slates[searched] = self.find(users, who[searched], rng, then)
        if not searched.all():
            then = None if now is None else now[~searched]
            slates[~searched] = self.recommend(policy, users, who[~searched], rng, then)
        return self.show(users, slates, searched, rng, who, now)

    def draw_searches(self, users: int, rng: np.random.Generator) -> Bools:
        """Draw which of B users search and are not recommended anything: [B]."""
        return rng.random(users) < self.config.search_share

    def find(
        self, users: Users, who: Ints, rng: np.random.Generator, hours: Hours | None = None
    ) -> Ints:
        """Return what the users `who` [B] find when they search: [B, S]."""
        now = self._now(hours, len(who))
        on_offer = None if now is None or self.life is None else self.life.at(now)
        return self.search.slates(users, who, self.config.max_slate, rng, on_offer)

    def recommend(
        self,
        policy: Policy | TimedPolicy,
        users: Users,
        who: Ints,
        rng: np.random.Generator,
        hours: Hours | None = None,
    ) -> Ints:
        """Return what a policy recommends to the users `who` [B]: [B, S]."""
        now = self._now(hours, len(who))
        offered = self._recommend(policy, users.observed(who), now, rng)
        return self._checked(offered, len(who), now)

    def show(
        self,
        users: Users,
        slates: Ints,
        searched: Bools,
        rng: np.random.Generator,
        who: Ints,
        hours: Hours | None = None,
    ) -> Interactions:
        """Show the users `who` [B] slates [B, S], and change them accordingly."""
        now = self._now(hours, len(who))
        scroll = self.scroll.draw(len(who), rng)  # [B]
        relevance = self._relevance(users, who, slates, now)  # [B, S]
        chosen = choice.choice_probabilities(relevance, self.truth.no_click, scroll)
        position = choice.draw_positions(chosen, rng)  # [B]
        clicks = np.where(position < 0, -1, slates[np.arange(len(who)), position])
        record = Interactions(
            who=who,
            slates=slates,
            scroll=scroll,
            clicks=clicks,
            searched=searched,
            state=users.state[who],
            choice=chosen,
            click_probability=choice.click_probability(
                relevance, self.truth.no_click, self.scroll.pmf
            ),
        )
        self.intent.advance(users, who, clicks, rng)
        users.remember(who, slates, scroll)
        return record

    def click_probability(
        self, users: Users, slates: Ints, who: Ints | None = None, hours: Hours | None = None
    ) -> Doubles:
        """Exact probability that users `who` [B] would click in `slates` [B, S] now: [B].

        The scroll length is summed out; nothing is drawn and no user changes.
        """
        who = _all_users(users) if who is None else who
        now = self._now(hours, len(who))
        relevance = self._relevance(users, who, self._checked(slates, len(who), now), now)
        return choice.click_probability(relevance, self.truth.no_click, self.scroll.pmf)

    def best_slates(self, users: Users, who: Ints, items: Ints, hours: Hours | None = None) -> Ints:
        """Return the slates [B, S] of those of `items` [A] that users `who` [B] like best now.

        By the relevance of each item alone, where neither position nor neighbours matter: what a
        policy that knows the truth would show.
        """
        now = self._now(hours, len(who))
        relevance = np.empty((len(who), len(items)))
        size = self.config.max_slate
        for start in range(0, len(items), size):
            some = items[start : start + size]
            slates = np.resize(some, size)[None].repeat(len(who), axis=0)  # [B, S]
            found = self._alone._relevance(users, who, slates, now)
            relevance[:, start : start + len(some)] = found[:, : len(some)]
        order = np.argsort(-relevance, axis=1, kind="stable")[:, :size]
        return np.asarray(items[order])

    @cached_property
    def _alone(self) -> "Marketplace":
        """The same world without what depends on the rest of a slate."""
        config = self.config
        return Marketplace(
            config.model_copy(
                update={
                    "effects": config.effects.model_copy(
                        update={"position_bias": 0.0, "standout": 0.0}
                    ),
                    "outside": config.outside.model_copy(update={"position_bias": 0.0}),
                }
            )
        )

    def choice_probabilities(
        self,
        users: Users,
        slates: Ints,
        scroll: Ints,
        who: Ints | None = None,
        hours: Hours | None = None,
    ) -> ChoiceProbabilities:
        """Exact choice of users `who` [B] among the first `scroll` [B] items of `slates` [B, S]."""
        who = _all_users(users) if who is None else who
        now = self._now(hours, len(who))
        relevance = self._relevance(users, who, self._checked(slates, len(who), now), now)
        return choice.choice_probabilities(relevance, self.truth.no_click, scroll)

    def _recommend(
        self,
        policy: Policy | TimedPolicy,
        history: Ints,
        now: Doubles | None,
        rng: np.random.Generator,
    ) -> Ints:
        if now is None and isinstance(policy, Policy):
            return policy.recommend(history, self.config.max_slate, rng)
        if now is not None and isinstance(policy, TimedPolicy):
            return policy.recommend_at(history, self.config.max_slate, now, rng)
        verb = "recommend" if now is None else "recommend_at"
        raise SlatewiseError(
            f"{type(policy).__name__} has no `{verb}`, which this world asks for.",
            "Policies get the time where items come and go, and only there.",
        )

    def _relevance(self, users: Users, who: Ints, slates: Ints, now: Doubles | None) -> Doubles:
        """Relevance of the items of `slates` [B, S] to the users `who` [B] now: [B, S]."""
        utility = self.truth.utility(users.state[who], slates)
        if self.effects.any:
            utility += self.effects.utility(users, who, slates)
        appeal = self.effects.quality[slates]
        if self.life is not None and now is not None:
            of_time = self.life.utility(slates, now)
            utility, appeal = utility + of_time, appeal + of_time
        if self.config.effects.standout:
            utility = utility + np.float32(self.config.effects.standout) * standing_out(appeal)
        tired = satiated(users.recent[who], slates)
        return np.exp(utility - self.config.intent.satiation * tired)

    def _now(self, hours: Hours | None, users: int) -> Doubles | None:
        """Return the hour of each interaction, [B]; None where time does not matter."""
        if self.life is None:
            return None
        if hours is None:
            raise SlatewiseError(
                "Items of this world come and go, and no time was given.",
                "Pass `hours` since the start of the simulation.",
            )
        return np.broadcast_to(np.asarray(hours, dtype=np.float64), (users,))

    def _checked(self, slates: Ints, users: int, now: Doubles | None) -> Ints:
        """Return `slates`, or raise an error that says why they cannot be shown."""
        slates = np.asarray(slates)
        expected = (users, self.config.max_slate)
        if slates.shape != expected or not np.issubdtype(slates.dtype, np.integer):
            found = f"{slates.dtype} of shape {slates.shape}"
        elif slates.size and (slates.min() < 0 or slates.max() >= self.catalogue.items):
            found = f"items outside 0..{self.catalogue.items - 1}"
        elif repeated(slates.astype(np.int64, copy=False)).any():
            found = "an item twice in one slate"
        elif now is not None and self.life is not None and not self.life.alive(slates, now).all():
            found = "items that are not alive at that hour"
        else:
            return slates.astype(np.int64, copy=False)
        raise SlatewiseError(
            f"These slates cannot be shown: {found}.",
            f"Give numbers of items on offer, of shape {expected}, distinct within each slate.",
        )


def _all_users(users: Users) -> Ints:
    return np.arange(len(users))


def stream(seed: int, *key: int) -> np.random.Generator:
    """Return a random stream that no other key of the same seed shares."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=key))
