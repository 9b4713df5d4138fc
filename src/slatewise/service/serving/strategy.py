"""The strategy of an arm: as settings, as what ranks, and as a line in the log."""

from slatewise.service.config import ArmConfig
from slatewise.strategies import named_strategy
from slatewise.strategies.epsilon import EpsilonMix
from slatewise.strategies.in_slate import InSlateThompson
from slatewise.strategies.named import Strategy
from slatewise.strategies.posterior_mean import PosteriorMean


def strategy_of(arm: ArmConfig) -> Strategy:
    """Return the strategy that an arm asks for."""
    usual = named_strategy(arm.strategy)
    if isinstance(usual, InSlateThompson | PosteriorMean):
        return type(usual)(arm.draws or usual.draws)
    if isinstance(usual, EpsilonMix):
        epsilon = usual.epsilon if arm.epsilon is None else arm.epsilon
        return EpsilonMix(epsilon, named_strategy(arm.rest or "greedy"))
    return usual


def strategy_line(arm: ArmConfig) -> str:
    """Write down the strategy with its settings: `in-slate-thompson draws=20`.

    With what is not set, too: a later release may have other defaults.
    """
    chosen = strategy_of(arm)
    words: list[str] = [arm.strategy]
    if isinstance(chosen, InSlateThompson | PosteriorMean):
        words.append(f"draws={chosen.draws}")
    if isinstance(chosen, EpsilonMix):
        words += [f"epsilon={chosen.epsilon!r}", f"rest={chosen.rest.name}"]
    return " ".join(words)


def strategy_from(line: str) -> Strategy:
    """Return the strategy that was written down so, or that goes by a bare name."""
    name, *words = line.split()
    settings = dict(word.partition("=")[::2] for word in words)
    return strategy_of(ArmConfig.build({"strategy": name} | settings, f"the strategy '{line}'"))
