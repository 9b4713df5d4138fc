"""Strategies: from the posterior to slates, one class each, with its settings.

A strategy is a frozen configuration: its fields are its settings, in Python, in the settings of a
service and in the log. Deriving from `NamedStrategy` is all that a new one needs.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt
from pydantic import Field, PositiveInt, field_validator

from slatewise.config import Config, SettingError
from slatewise.errors import SlatewiseError
from slatewise.plugins import is_import_path, load_object

if TYPE_CHECKING:
    from slatewise.slates.users import Users

Ints = npt.NDArray[np.int64]


class Ranker(Protocol):
    """Ranks items for users, best first; −1 fills positions for which there is no item.

    A draw resamples everything the posterior is uncertain of: dynamics, initial state and items.
    """

    def by_mean(self, users: "Users", k: int) -> Ints:
        """Rank by utility in closed form, at the mean and with the spread of items: [B, k]."""
        ...

    def by_draws(self, users: "Users", k: int, draws: int) -> Ints:
        """Rank by relevance in J posterior draws each: [B, J, k]."""
        ...

    def by_expectation(self, users: "Users", k: int, draws: int) -> Ints:
        """Rank by relevance averaged over the posterior, of users over `draws` draws: [B, k]."""
        ...

    def at_random(self, users: "Users", k: int) -> Ints:
        """Take items uniformly from all that may be shown: [B, k]."""
        ...

    def interleave(self, users: "Users", rankings: Ints, k: int) -> Ints:
        """Merge rankings [B, J, k] into slates within the users' filters: [B, k]."""
        ...


class Strategy(Protocol):
    """Turns the posterior into slates for users."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def slates(self, ranker: Ranker, users: "Users", k: int) -> Ints:
        """Return slates [B, k] of distinct items, −1 where there is none left to show.

        The same users with the same seeds get the same slates.
        """
        ...


NEEDS: Final = ("name", "slates(ranker, users, k)")
"""What an object must have to be a strategy."""
STRATEGIES: Final[dict[str, "type[NamedStrategy]"]] = {}
"""The strategies that people can name."""


class Mixture(NamedTuple):
    """Items at random in some positions of another strategy's slates."""

    epsilon: float
    """how likely a position is filled at random"""
    rest: Strategy


class NamedStrategy(Config):
    """A strategy that can be named, with its settings as fields."""

    name: ClassVar[str]
    deterministic: ClassVar[bool] = False
    """whether it always makes the same slate of the same request"""
    fills_at_random: ClassVar[bool] = False
    """whether positions have items of `Ranker.at_random`"""

    @property
    def explores(self) -> bool:
        """Whether it draws from the posterior to find out more."""
        return False

    @property
    def mixture(self) -> "Mixture | None":
        """What it mixes chance with as `EpsilonMix` does; None for any other way."""
        return None

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Register the strategy under its name, which no other may have."""
        other = STRATEGIES.get(cls.name)
        defined_again = other is not None and _path(other) == _path(cls)  # in a notebook
        if other is not None and not defined_again:
            raise SlatewiseError(
                f"there is a strategy '{cls.name}' already, {other.__name__}.",
                f"Give {cls.__name__} a `name` of its own.",
            )
        STRATEGIES[cls.name] = cls

    def slates(self, ranker: Ranker, users: "Users", k: int) -> Ints:
        """Return slates [B, k]; see `Strategy`."""
        raise NotImplementedError


def _path(strategy: type[NamedStrategy]) -> tuple[str, str]:
    return strategy.__module__, strategy.__qualname__


class Greedy(NamedStrategy):
    """Take the best by utility in closed form, as predictions do (strategy:greedy).

    The paper takes the maximum a posteriori for the truth, where an item that is hardly known looks
    as close as one that is surely there.
    """

    name: ClassVar[str] = "greedy"
    deterministic: ClassVar[bool] = True

    def slates(self, ranker: Ranker, users: "Users", k: int) -> Ints:
        """Return slates [B, k]."""
        return ranker.by_mean(users, k)


class Thompson(NamedStrategy):
    """Draw everything once and be greedy (strategy:singleTS)."""

    name: ClassVar[str] = "thompson"

    @property
    def explores(self) -> bool:
        """Yes: one draw."""
        return True

    def slates(self, ranker: Ranker, users: "Users", k: int) -> Ints:
        """Return slates [B, k]."""
        return ranker.by_draws(users, k, draws=1)[:, 0]


class InSlateThompson(NamedStrategy):
    """Draw everything J times, rank by each draw, and interleave (strategy:inslateTS)."""

    name: ClassVar[str] = "in-slate-thompson"

    draws: PositiveInt = 12
    """J"""

    @property
    def explores(self) -> bool:
        """Yes: J draws."""
        return True

    def slates(self, ranker: Ranker, users: "Users", k: int) -> Ints:
        """Return slates [B, k]."""
        return ranker.interleave(users, ranker.by_draws(users, k, self.draws), k)


class PosteriorMean(NamedStrategy):
    """Rank by E exp(utility) over the posterior; not in the paper.

    Relevance is not linear in the parameters, so this is not greedy: an uncertain item may be
    worth more, or less, than its mean says.
    """

    name: ClassVar[str] = "posterior-mean"

    draws: PositiveInt = 20
    """of the user's profile; over the items the expectation is exact"""

    def slates(self, ranker: Ranker, users: "Users", k: int) -> Ints:
        """Return slates [B, k]."""
        return ranker.by_expectation(users, k, self.draws)


class EpsilonMix(NamedStrategy):
    """Fill each position at random with probability ε, else as another strategy would."""

    name: ClassVar[str] = "epsilon-mix"
    fills_at_random: ClassVar[bool] = True

    epsilon: Annotated[float, Field(ge=0, le=1)] = 0.1
    rest: Any = Greedy()
    """the other strategy, or its name"""

    @field_validator("rest")
    @classmethod
    def _named(cls, rest: Any) -> Any:
        found = _found(rest) if isinstance(rest, str) else rest
        if isinstance(found, EpsilonMix):
            raise ValueError("an epsilon-mix of an epsilon-mix is an epsilon-mix: name another")
        return found

    @property
    def explores(self) -> bool:
        """As the other strategy does: chance asks no posterior."""
        return explores(self.rest)

    @property
    def mixture(self) -> Mixture:
        """What it is made of."""
        return Mixture(self.epsilon, self.rest)

    def slates(self, ranker: Ranker, users: "Users", k: int) -> Ints:
        """Return slates [B, k]."""
        chance = np.stack([_coins(seed, k) for seed in users.seeds]) < self.epsilon  # [B, k]
        own, random = self.rest.slates(ranker, users, k), ranker.at_random(users, k)
        turn = np.cumsum(~chance, axis=1) - 1  # [B, k] which of its own items is next
        mixed = np.where(chance, random, np.take_along_axis(own, np.maximum(turn, 0), axis=1))
        # An item of chance may be one of its own, or its group full: its own items make up for it.
        return ranker.interleave(users, np.concatenate([mixed, own], axis=1)[:, None], k)


def is_deterministic(strategy: Strategy) -> bool:
    """Return whether a strategy always makes the same slate of the same request.

    A strategy from outside that does not say so may draw.
    """
    return bool(getattr(strategy, "deterministic", False))


def explores(strategy: Strategy) -> bool:
    """Return whether a strategy says that it draws from the posterior to find out more."""
    return bool(getattr(strategy, "explores", False))


def mixture_of(strategy: Strategy) -> Mixture | None:
    """Return what a strategy mixes chance with as `EpsilonMix` does, if it says so."""
    found: Mixture | None = getattr(strategy, "mixture", None)
    return found


def _coins(seed: int, k: int) -> npt.NDArray[np.float64]:
    return np.random.default_rng([seed, 1]).random(k)


def named_strategy(
    name: str, settings: Mapping[str, Any] | None = None, where: str | None = None
) -> Strategy:
    """Return a strategy by its name, with settings or its defaults, or by its import path.

    `where` the settings came from is said of those that it does not have.
    """
    if is_import_path(name):
        if settings:
            raise SlatewiseError(
                f"the strategy '{name}' takes no settings.", "Set them where it is defined."
            )
        own: Strategy = load_object(name, "strategy", NEEDS, instance=True)
        return own
    if name not in STRATEGIES:
        raise SlatewiseError(
            f"there is no strategy '{name}'.",
            f"Choose one of {', '.join(STRATEGIES)}, or give an import path.",
        )
    return STRATEGIES[name].build(settings or {}, where or f"the strategy '{name}'")


def _found(name: str) -> Strategy:
    try:
        return named_strategy(name)
    except SlatewiseError as error:
        raise SettingError.of(error) from error


def strategy_line(name: str, strategy: Strategy) -> str:
    """Write down a strategy with its settings: `in-slate-thompson draws=20`.

    With what is not set, too: a later release may have other defaults.
    """
    if not isinstance(strategy, NamedStrategy):
        return name
    values = {field: getattr(strategy, field) for field in type(strategy).model_fields}
    return " ".join([name, *(f"{field}={_word(value)}" for field, value in values.items())])


def _word(value: Any) -> str:
    return str(value.name) if hasattr(value, "name") else repr(value)


def strategy_from(line: str) -> Strategy:
    """Return the strategy that was written down so, or that goes by a bare name."""
    name, *words = line.split()
    settings = dict(word.partition("=")[::2] for word in words)
    return named_strategy(name, settings, f"the strategy '{line}'")
