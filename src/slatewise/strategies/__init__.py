"""From a posterior and a click history to a slate."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.strategies.dense import DenseRanker as DenseRanker
    from slatewise.strategies.exact import ExactRanker as ExactRanker
    from slatewise.strategies.explaining import Reason as Reason
    from slatewise.strategies.propensities import Propensities as Propensities
    from slatewise.strategies.ranker import Ranker as Ranker
    from slatewise.strategies.recommender import Recommender as Recommender
    from slatewise.strategies.slate import Slate as Slate
    from slatewise.strategies.strategies import STRATEGIES as STRATEGIES
    from slatewise.strategies.strategies import EpsilonMix as EpsilonMix
    from slatewise.strategies.strategies import Greedy as Greedy
    from slatewise.strategies.strategies import InSlateThompson as InSlateThompson
    from slatewise.strategies.strategies import NamedStrategy as NamedStrategy
    from slatewise.strategies.strategies import PosteriorMean as PosteriorMean
    from slatewise.strategies.strategies import Strategy as Strategy
    from slatewise.strategies.strategies import Thompson as Thompson
    from slatewise.strategies.strategies import named_strategy as named_strategy
    from slatewise.strategies.users import Seen as Seen
    from slatewise.strategies.users import Users as Users

_HOMES = {
    name: f"slatewise.strategies.{module}"
    for module, names in {
        "dense": ["DenseRanker"],
        "exact": ["ExactRanker"],
        "explaining": ["Reason"],
        "propensities": ["Propensities"],
        "ranker": ["Ranker"],
        "recommender": ["Recommender"],
        "slate": ["Slate"],
        "strategies": [
            "STRATEGIES",
            "EpsilonMix",
            "Greedy",
            "InSlateThompson",
            "NamedStrategy",
            "PosteriorMean",
            "Strategy",
            "Thompson",
            "named_strategy",
        ],
        "users": ["Seen", "Users"],
    }.items()
    for name in names
}

__all__ = sorted(_HOMES)  # noqa: PLE0605

__getattr__ = exports(__name__, _HOMES)
