"""The line of a strategy in the log is the strategy."""

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.settings import ArmConfig
from slatewise.slates import STRATEGIES, EpsilonMix, InSlateThompson, PosteriorMean, Thompson
from slatewise.slates.strategies import strategy_from

ARMS = [
    *({"strategy": name} for name in STRATEGIES),
    {"strategy": "in-slate-thompson", "draws": 31},
    {"strategy": "posterior-mean", "draws": 3},
    {"strategy": "epsilon-mix", "epsilon": 0.1 + 0.2, "rest": "thompson"},
    {"strategy": "epsilon-mix", "epsilon": 0.0},
]


@pytest.mark.parametrize("values", ARMS)
def test_a_strategy_comes_back_from_its_line(values: dict[str, object]) -> None:
    arm = ArmConfig.build(values, "a test")
    assert strategy_from(arm.line) == arm.made


def test_settings_reach_the_strategy() -> None:
    assert strategy_from("in-slate-thompson draws=31") == InSlateThompson(draws=31)
    assert strategy_from("posterior-mean") == PosteriorMean()
    assert strategy_from("epsilon-mix epsilon=0.5 rest=thompson") == EpsilonMix(
        epsilon=0.5, rest=Thompson()
    )


@pytest.mark.parametrize(
    "line", ["best", "greedy draws=3", "in-slate-thompson draws=x", "epsilon-mix rest=worst"]
)
def test_a_line_that_is_no_strategy_is_refused(line: str) -> None:
    with pytest.raises(SlatewiseError, match="strategy"):
        strategy_from(line)


def test_a_strategy_cannot_take_the_name_of_another() -> None:
    with pytest.raises(SlatewiseError, match="strategy 'thompson' already"):

        class Careless(Thompson):
            """It has no name of its own."""

    assert STRATEGIES["thompson"] is Thompson


def test_a_strategy_of_ones_own_is_found_by_its_name() -> None:
    class Cautious(InSlateThompson):
        name = "cautious"

    try:
        assert strategy_from("cautious draws=2") == Cautious(draws=2)
        assert ArmConfig(strategy="cautious", draws=2).line == "cautious draws=2"
    finally:
        del STRATEGIES["cautious"]
