"""The line of a strategy in the log is the strategy."""

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.config import ArmConfig
from slatewise.service.serving.strategy import strategy_from, strategy_line, strategy_of
from slatewise.strategies import STRATEGIES, EpsilonMix, InSlateThompson, PosteriorMean, Thompson

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
    assert strategy_from(strategy_line(arm)) == strategy_of(arm)


def test_settings_reach_the_strategy() -> None:
    assert strategy_from("in-slate-thompson draws=31") == InSlateThompson(31)
    assert strategy_from("posterior-mean") == PosteriorMean()
    assert strategy_from("epsilon-mix epsilon=0.5 rest=thompson") == EpsilonMix(0.5, Thompson())


@pytest.mark.parametrize("line", ["best", "greedy draws=3", "in-slate-thompson draws=x"])
def test_a_line_that_is_no_strategy_is_refused(line: str) -> None:
    with pytest.raises(SlatewiseError, match="the strategy"):
        strategy_from(line)
