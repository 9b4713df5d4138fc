"""An approximate index over the items' means and spreads, for greedy ranking (needs `faiss`).

It finds the best in the lists that it probes; a draw of an uncertain item may land anywhere, so
that an index over means would never show it. The benchmark measures its recall.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from slatewise.errors import SlatewiseError, install_remedy
from slatewise.ranking.columns import Floats32
from slatewise.ranking.loops.pieces import Dot
from slatewise.ranking.request import Ranking, checked_profiles, loops_of, whole_ranking
from slatewise.ranking.table import Ints, ItemTable

_ROWS_AT_ONCE = 1 << 18
_TRAINING_ROWS_A_LIST = 40


class ApproximateIndex:
    """The items of a table in lists by closeness, as they were when the index was made.

    The relevance is "distance" or "dot", and the table has no biases. Items that are unavailable
    when a request comes are left out, which may leave positions empty.
    """

    def __init__(
        self, table: ItemTable, lists: int = 1024, seed: int = 0, relevance: str = "distance"
    ) -> None:
        faiss = _faiss()
        self._table, self._dot = table, isinstance(loops_of(relevance), Dot)
        every = np.arange(table.num_items)
        if np.any(table.biases_of(every)):
            raise SlatewiseError(
                "An approximate index knows no biases, and this table has some.",
                "Rank exactly.",
            )
        if table.num_items < lists * _TRAINING_ROWS_A_LIST:
            raise SlatewiseError(
                f"{table.num_items:,} items are too few for {lists:,} lists.",
                "Take fewer lists, or rank exactly.",
            )
        rng = np.random.default_rng(seed)
        sample = rng.choice(table.num_items, lists * _TRAINING_ROWS_A_LIST, replace=False)
        metric = faiss.METRIC_INNER_PRODUCT if self._dot else faiss.METRIC_L2
        dimensions = table.dimensions + (not self._dot)
        quantizer = faiss.IndexFlat(dimensions, metric)
        self._index = faiss.IndexIVFFlat(quantizer, dimensions, lists, metric)
        self._index.cp.seed = seed
        self._index.train(self._points(sample))
        for start in range(0, table.num_items, _ROWS_AT_ONCE):
            self._index.add(self._points(every[start : start + _ROWS_AT_ONCE]))

    def _points(self, items: Ints) -> Floats32:
        """Return what is indexed of items [n]: means, for distances with a coordinate √Σσ²."""
        means = self._table.means_of(items)
        spreads = np.sqrt(self._table.variances_of(items))
        return means if self._dot else np.column_stack([means, spreads])

    def rank_means(self, profile: npt.ArrayLike, k: int, probes: int = 16) -> Ranking:
        """Return k items for a profile [D], nearly always the best, searching `probes` lists."""
        z = checked_profiles(self._table, profile, k, 1)[None]
        if not self._dot:
            z = np.pad(z, [(0, 0), (0, 1)])
        parameters = _faiss().SearchParametersIVF(nprobe=probes)
        values, items = (part[0] for part in self._index.search(z, k, params=parameters))
        scores = (values if self._dot else -np.sqrt(values)).astype(np.float64)
        offers = self._table.snapshot()[1].offers
        kept = (items >= 0) & (offers[items] > -np.inf)
        return whole_ranking(scores[kept], items[kept], k, None)


def _faiss() -> Any:
    try:
        import faiss  # noqa: PLC0415
    except ImportError as error:
        raise SlatewiseError(
            "The approximate index needs faiss.", install_remedy("faiss")
        ) from error
    return faiss
