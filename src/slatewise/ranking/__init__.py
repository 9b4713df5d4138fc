"""Exact ranking of all items: in closed form, in posterior draws, and by expected relevance.

By distance or dot product with compiled loops, by any other function of profile and vector without.
"""

from typing import TYPE_CHECKING

from slatewise.lazy import exports

if TYPE_CHECKING:
    from slatewise.ranking.additions import Additions as Additions
    from slatewise.ranking.draws import rank_draws as rank_draws
    from slatewise.ranking.expected import rank_expected as rank_expected
    from slatewise.ranking.filters import Filter as Filter
    from slatewise.ranking.greedy import rank_means as rank_means
    from slatewise.ranking.greedy import rank_means_many as rank_means_many
    from slatewise.ranking.request import Ranking as Ranking
    from slatewise.ranking.table import ItemTable as ItemTable

__all__, __dir__, __getattr__ = exports(
    __name__,
    {
        "additions": "Additions",
        "draws": "rank_draws",
        "expected": "rank_expected",
        "filters": "Filter",
        "greedy": "rank_means rank_means_many",
        "request": "Ranking",
        "table": "ItemTable",
    },
)
