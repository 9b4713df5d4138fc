"""From a posterior and a click history to a slate."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.strategies.dense import DenseRanker as DenseRanker
    from slatewise.strategies.epsilon import EpsilonMix as EpsilonMix
    from slatewise.strategies.exact import ExactRanker as ExactRanker
    from slatewise.strategies.explaining import Reason as Reason
    from slatewise.strategies.greedy import Greedy as Greedy
    from slatewise.strategies.in_slate import InSlateThompson as InSlateThompson
    from slatewise.strategies.named import STRATEGIES as STRATEGIES
    from slatewise.strategies.named import Strategy as Strategy
    from slatewise.strategies.named import named_strategy as named_strategy
    from slatewise.strategies.posterior_mean import PosteriorMean as PosteriorMean
    from slatewise.strategies.propensities import Propensities as Propensities
    from slatewise.strategies.ranker import Ranker as Ranker
    from slatewise.strategies.recommender import Recommender as Recommender
    from slatewise.strategies.slate import Slate as Slate
    from slatewise.strategies.thompson import Thompson as Thompson
    from slatewise.strategies.users import Seen as Seen
    from slatewise.strategies.users import Users as Users

_HOMES = {
    name: f"slatewise.strategies.{module}"
    for module, names in {
        "dense": ["DenseRanker"],
        "epsilon": ["EpsilonMix"],
        "exact": ["ExactRanker"],
        "explaining": ["Reason"],
        "greedy": ["Greedy"],
        "in_slate": ["InSlateThompson"],
        "named": ["STRATEGIES", "Strategy", "named_strategy"],
        "posterior_mean": ["PosteriorMean"],
        "propensities": ["Propensities"],
        "ranker": ["Ranker"],
        "recommender": ["Recommender"],
        "slate": ["Slate"],
        "thompson": ["Thompson"],
        "users": ["Seen", "Users"],
    }.items()
    for name in names
}

__all__ = sorted(_HOMES)  # noqa: PLE0605

__getattr__ = exports(__name__, _HOMES)
