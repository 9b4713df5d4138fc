"""From a posterior and a click history to a slate."""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.slates.exact import ExactRanker as ExactRanker
    from slatewise.slates.explanation import Reason as Reason
    from slatewise.slates.learning import SlateOutcome as SlateOutcome
    from slatewise.slates.propensities import Propensities as Propensities
    from slatewise.slates.ranked import RankedItems as RankedItems
    from slatewise.slates.recommender import Recommender as Recommender
    from slatewise.slates.slate import Slate as Slate
    from slatewise.slates.strategies import STRATEGIES as STRATEGIES
    from slatewise.slates.strategies import EpsilonMix as EpsilonMix
    from slatewise.slates.strategies import Greedy as Greedy
    from slatewise.slates.strategies import InSlateThompson as InSlateThompson
    from slatewise.slates.strategies import NamedStrategy as NamedStrategy
    from slatewise.slates.strategies import PosteriorMean as PosteriorMean
    from slatewise.slates.strategies import Ranker as Ranker
    from slatewise.slates.strategies import Strategy as Strategy
    from slatewise.slates.strategies import Thompson as Thompson
    from slatewise.slates.strategies import named_strategy as named_strategy
    from slatewise.slates.users import Seen as Seen
    from slatewise.slates.users import Users as Users

__all__, __dir__, __getattr__ = exports(
    __name__,
    {
        "exact": "ExactRanker",
        "explanation": "Reason",
        "learning": "SlateOutcome",
        "propensities": "Propensities",
        "ranked": "RankedItems",
        "recommender": "Recommender",
        "slate": "Slate",
        "strategies": """
            STRATEGIES EpsilonMix Greedy InSlateThompson NamedStrategy
            PosteriorMean Ranker Strategy Thompson named_strategy
        """,
        "users": "Seen Users",
    },
)
