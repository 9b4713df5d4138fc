"""The marketplace: users meet slates, and every probability is known."""

from dataclasses import dataclass

import numpy as np

from slatewise.errors import SlatewiseError
from slatewise.simulation import choice
from slatewise.simulation.arrays import Bools, Doubles, Floats, Ints
from slatewise.simulation.catalogue import Catalogue, repeated
from slatewise.simulation.choice import Choice, OutsideTruth, PaperTruth, Truth
from slatewise.simulation.config import SimulationConfig
from slatewise.simulation.intent import IntentProcess, Users, satiated
from slatewise.simulation.policies import Policy
from slatewise.simulation.scroll import Scroll
from slatewise.simulation.search import Search
from slatewise.simulation.space import Space


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

    choice: Choice
    """Exact probabilities given the scroll length."""

    click_probability: Doubles
    """Exact probability of any click on the offered slate before the scroll was known, [B]."""


class Marketplace:
    """The world that a configuration describes; users live outside it, in `Users`."""

    def __init__(self, config: SimulationConfig) -> None:
        rng = np.random.default_rng(np.random.SeedSequence(config.seed, spawn_key=(0,)))
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

    def new_users(self, count: int, rng: np.random.Generator) -> Users:
        """Return `count` users who have not interacted yet."""
        return self.intent.arrive(count, rng, capacity=self.config.max_interactions)

    def interact(
        self, users: Users, policy: Policy, rng: np.random.Generator, who: Ints | None = None
    ) -> Interactions:
        """Let each of the users `who` (all if None) meet one slate, and change them accordingly.

        With probability `search_share` the slate is a search, otherwise the policy's.
        """
        who = _everybody(users) if who is None else np.asarray(who, dtype=np.int64)
        if len(np.unique(who)) < len(who):
            raise SlatewiseError(
                "A user cannot meet two slates at once.", "Pass each user of `who` once."
            )
        searched = rng.random(len(who)) < self.config.search_share  # [B]
        slates = self._offer(users, who, searched, policy, rng)  # [B, S]
        scroll = self.scroll.draw(len(who), rng)  # [B]
        relevance = self._relevance(users, who, slates)  # [B, S]
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
        return record

    def click_probability(self, users: Users, slates: Ints, who: Ints | None = None) -> Doubles:
        """Exact probability that users `who` [B] would click in `slates` [B, S] now: [B].

        The scroll length is summed out; nothing is drawn and nobody changes.
        """
        who = _everybody(users) if who is None else who
        relevance = self._relevance(users, who, self._checked(slates, len(who)))
        return choice.click_probability(relevance, self.truth.no_click, self.scroll.pmf)

    def choice_probabilities(
        self, users: Users, slates: Ints, scroll: Ints, who: Ints | None = None
    ) -> Choice:
        """Exact choice of users `who` [B] among the first `scroll` [B] items of `slates` [B, S]."""
        who = _everybody(users) if who is None else who
        relevance = self._relevance(users, who, self._checked(slates, len(who)))
        return choice.choice_probabilities(relevance, self.truth.no_click, scroll)

    def _offer(
        self, users: Users, who: Ints, searched: Bools, policy: Policy, rng: np.random.Generator
    ) -> Ints:
        slates = np.empty((len(who), self.config.max_slate), dtype=np.int64)  # [B, S]
        seekers, others = who[searched], who[~searched]
        if len(seekers):
            slates[searched] = self.search.slates(users, seekers, self.config.max_slate, rng)
        if len(others):
            offered = policy.recommend(users.observed(others), self.config.max_slate, rng)
            slates[~searched] = self._checked(offered, len(others))
        return slates

    def _relevance(self, users: Users, who: Ints, slates: Ints) -> Doubles:
        """Relevance of the items of `slates` [B, S] to the users `who` [B] now: [B, S]."""
        utility = self.truth.utility(users.state[who], slates)
        tired = satiated(users.recent[who], slates)
        return np.exp(utility - self.config.intent.satiation * tired)

    def _checked(self, slates: Ints, users: int) -> Ints:
        """Return `slates`, or say what keeps them from being slates of this marketplace."""
        slates = np.asarray(slates)
        expected = (users, self.config.max_slate)
        if slates.shape != expected or not np.issubdtype(slates.dtype, np.integer):
            found = f"{slates.dtype} of shape {slates.shape}"
        elif slates.size and (slates.min() < 0 or slates.max() >= self.catalogue.items):
            found = f"items outside 0..{self.catalogue.items - 1}"
        elif repeated(slates.astype(np.int64, copy=False)).any():
            found = "an item twice in one slate"
        else:
            return slates.astype(np.int64, copy=False)
        raise SlatewiseError(
            f"These slates cannot be shown: {found}.",
            f"Give integers of shape {expected}, distinct within each slate.",
        )


def _everybody(users: Users) -> Ints:
    return np.arange(len(users))
