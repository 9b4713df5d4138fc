"""Settings of a simulation: one frozen model per part."""

from typing import Annotated, Literal, Self

from pydantic import (
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    model_validator,
)

from slatewise.config import Config

Share = Annotated[float, Field(ge=0, le=1)]


class _Section(Config):
    model_config = ConfigDict(allow_inf_nan=False)


class CatalogueConfig(_Section):
    """The items, their groups, and how often each is exposed."""

    items: PositiveInt = 2_000
    """Number of items, I."""

    groups: PositiveInt = 50
    """Number of groups, G; every group holds at least one item."""

    dimensions: PositiveInt = 10
    """Dimensions of the latent space, D."""

    group_skew: NonNegativeFloat = 0.7
    """Zipf exponent of the group sizes; 0 makes all groups equally large."""

    exposure_skew: NonNegativeFloat = 2.2
    """Zipf exponent of exposure among the items of one group; 0 exposes all alike."""

    group_distance: PositiveFloat = 4.5
    """Typical distance between two group means, in the units of the latent space."""

    spread_low: PositiveFloat = 0.7
    """Least typical distance of an item from its group mean (groups differ, log-uniformly)."""

    spread_high: PositiveFloat = 1.6
    """Greatest typical distance of an item from its group mean."""

    mislabelled: Share = 0.0
    """Share of the items that the items table puts into a group drawn at random."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.groups > self.items:
            raise ValueError(f"{self.groups:,} groups cannot share {self.items:,} items")
        if self.spread_low > self.spread_high:
            raise ValueError("spread_low is above spread_high")
        return self


class IntentConfig(_Section):
    """How the intent of a user changes; common to both truths."""

    persistence: Share = 0.97
    """Share of the distance to the group mean that intent keeps from one interaction to the next.

    The rest is drawn anew, so that intent wanders inside its group; 1 stands still.
    """

    click_pull: Share = 0.2
    """Share of the way to a clicked item that intent moves."""

    switch: Share = 0.4
    """Probability that a click ends the errand and intent goes to another group."""

    companion: Share = 0.8
    """Probability that a switch goes to the companion of the clicked item's group, not to any."""

    satiation_memory: NonNegativeInt = 5
    """How many of the last clicked items a user has had enough of."""

    satiation: NonNegativeFloat = 3.0
    """What utility (log relevance) such an item loses."""


class SearchConfig(_Section):
    """How search finds items near the intent."""

    candidates: PositiveInt = 60
    """Draws from the catalogue per query, repeats included."""

    own_share: Share = 0.7
    """Share of the draws from the group of the intent."""

    neighbour_share: Share = 0.2
    """Share of the draws from groups near it; the remaining draws come from any group."""

    neighbours: PositiveInt = 5
    """How many groups count as near."""

    query_noise: NonNegativeFloat = 0.5
    """Typical distance between the intent and the query that expresses it."""

    rank_noise: NonNegativeFloat = 0.5
    """Standard deviation of what is added to the distances that search ranks by."""


class PaperConfig(_Section):
    """The truth of the paper: relevance exp(−‖z − v‖)."""

    no_click: float = -1.5
    """log β₁: utility of clicking nothing after seeing one item."""

    no_click_growth: NonNegativeFloat = 0.8
    """log β_s = no_click + no_click_growth · log s, increasing in the scroll length s."""


class OutsideConfig(_Section):
    """A truth outside the paper's family: dot product, item quality and position bias."""

    sharpness: PositiveFloat = 0.35
    """Factor of the dot product of intent and item."""

    quality_sd: NonNegativeFloat = 0.6
    """Standard deviation of item quality."""

    position_bias: NonNegativeFloat = 0.6
    """Utility at position j is lower by position_bias · log j."""

    no_click: float = 4.8
    """Utility of clicking nothing, whatever the scroll length."""


class EffectsConfig(_Section):
    """What else acts on utility (log relevance), on top of either truth; 0 turns an effect off."""

    quality_sd: NonNegativeFloat = 0.0
    """Standard deviation of what an item is worth to every user: an item bias."""

    quality_shared: Share = 0.3
    """Share of the variance of quality that the items of a group have in common."""

    propensity_sd: NonNegativeFloat = 0.0
    """Standard deviation of how ready users are to click anything rather than nothing."""

    position_bias: NonNegativeFloat = 0.0
    """Utility at position j is lower by position_bias · log j."""

    fatigue: NonNegativeFloat = 0.0
    """An item that the user saw n times of late is worth fatigue · log(1 + n) less."""

    standout: NonNegativeFloat = 0.0
    """An item gains standout · how far its appeal to everybody (quality, youth and burst) exceeds
    the best of those above it in the slate, and loses it where it falls short; by two at most."""

    fatigue_memory: PositiveInt = 20
    """How many of the user's last slates count as of late."""


class LifeConfig(_Section):
    """Items that come and go."""

    hours: NonNegativeFloat = 0.0
    """How long an item is on offer after its publication; 0: all items, always."""

    half_life: NonNegativeFloat = 0.0
    """Hours after which an item's relevance has halved, and so its popularity; 0: it stays."""

    burst: NonNegativeFloat = 0.0
    """What an item gains in utility when everybody starts to talk of it, as half of the items
    experience at some moment of the first half of their lives."""

    burst_half_life: PositiveFloat = 2.0
    """Hours after which half of that gain is gone."""

    new_groups: Share = 0.0
    """Share of the groups that have no item before some moment of the simulation."""


class FeaturesConfig(_Section):
    """Numeric features in the items table, beside the group."""

    of_vector: NonNegativeInt = 0
    """Number of features of the direction in which an item lies from its group mean."""

    of_quality: NonNegativeInt = 0
    """Number of features of its quality."""

    informative: Share = 0.8
    """Share of their variance that is truth; the rest is noise, and at 0 all of it."""


class SimulationConfig(_Section):
    """A whole simulation: with the package version, all that is needed to repeat it."""

    seed: NonNegativeInt = 0
    """Seed of the world and of every chunk of users."""

    truth: Literal["paper", "outside"] = "paper"
    """Which choice model the users follow."""

    policy: Literal["random", "promoted", "more-like-this", "front-page"] = "random"
    """What fills the recommendation slates of a log."""

    users: PositiveInt = 6_000
    """Number of users, U."""

    min_interactions: PositiveInt = 20
    """Fewest interactions of a user; the number is uniform between the two limits."""

    max_interactions: PositiveInt = 20
    """Most interactions of a user, T."""

    search_share: Share = 0.8
    """Probability that an interaction is a search; the others are recommendations."""

    max_slate: PositiveInt = 25
    """Slate positions, S: the longest scroll."""

    mean_scroll: PositiveFloat = 11.0
    """Rate of the Poisson scroll length, before truncation to 1..max_slate."""

    days: PositiveInt = 30
    """First visits are spread evenly over this many days; where items come and go, all visits."""

    chunk_users: PositiveInt = 4_096
    """Users generated and written together; sets the memory, and is part of the random stream."""

    catalogue: CatalogueConfig = CatalogueConfig()
    intent: IntentConfig = IntentConfig()
    search: SearchConfig = SearchConfig()
    paper: PaperConfig = PaperConfig()
    outside: OutsideConfig = OutsideConfig()
    effects: EffectsConfig = EffectsConfig()
    life: LifeConfig = LifeConfig()
    features: FeaturesConfig = FeaturesConfig()

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.max_slate > self.catalogue.items:
            raise ValueError(
                f"a slate of {self.max_slate} is longer than the catalogue "
                f"of {self.catalogue.items:,} items"
            )
        if self.min_interactions > self.max_interactions:
            raise ValueError("min_interactions is above max_interactions")
        if self.mean_scroll > self.max_slate:
            raise ValueError("mean_scroll is above max_slate")
        if self.search.own_share + self.search.neighbour_share > 1:
            raise ValueError("search.own_share and search.neighbour_share add up to more than 1")
        return self

    @model_validator(mode="after")
    def _alive(self) -> Self:
        if (self.policy == "front-page") != (self.life.hours > 0):
            raise ValueError("policy front-page and items with life.hours belong together")
        if self.life.half_life > 0 and self.life.hours == 0:
            raise ValueError("life.half_life needs items with life.hours")
        if self.life.new_groups > 0 and self.life.hours == 0:
            raise ValueError("life.new_groups needs items with life.hours")
        if self.life.burst > 0 and self.life.hours == 0:
            raise ValueError("life.burst needs items with life.hours")
        if self.life.hours > 0 and self.alive < 2 * self.max_slate:
            raise ValueError(
                f"about {self.alive:.0f} items are alive at a time, too few for slates of "
                f"{self.max_slate}: raise catalogue.items or life.hours"
            )
        return self

    @property
    def alive(self) -> float:
        """About how many items are on offer at any time."""
        if self.life.hours == 0:
            return float(self.catalogue.items)
        return self.catalogue.items * self.life.hours / (24 * self.days + self.life.hours)

    def scaled(self, share: float) -> Self:
        """Return the same world with a share of the users and items, as many views of an item.

        Groups stay as they are, or hold twenty items on average where there are too few.
        """
        items = max(self.max_slate, round(self.catalogue.items * share))
        catalogue = self.catalogue.model_copy(
            update={"items": items, "groups": min(self.catalogue.groups, max(1, items // 20))}
        )
        users = max(1, round(self.users * share))
        return self.model_copy(update={"users": users, "catalogue": catalogue})

    def lasting(self, days: int) -> Self:
        """Return the same world over other days; where items come and go, at the same pace."""
        longer = self.model_copy(update={"days": days})
        if self.life.hours == 0:
            return longer
        items = round(self.catalogue.items * self.alive / longer.alive)
        return longer.model_copy(
            update={"catalogue": self.catalogue.model_copy(update={"items": items})}
        )
