"""Whether the items of a log stay, as in a shop, or come and go, as news do."""

from typing import Final

import numpy as np
import numpy.typing as npt

from slatewise.data import SlateDataset

_STAYING: Final = 0.5
"""Share of what is shown early that is also shown late, below which a catalogue turns over. Shops,
baskets, videos and banners have .75 to 1, news and markets 0 to .26, of two days or of weeks."""
_THIRDS: Final = 3


def items_stay(dataset: SlateDataset) -> bool:
    """Return whether the items shown early in a log are shown about as much late."""
    return share_still_shown(dataset) >= _STAYING


def share_still_shown(dataset: SlateDataset) -> float:
    """Return how much of what is seen in the first third of a log is seen in the last third.

    That is Σ_i min(early share of item i, late share), with shares of all items seen, relative to
    the same sum of two thirds of the log that are dealt in turn: where few views make the shares of
    items uncertain, both are small. An item that is shown once more, late, hardly counts. About 1
    where nothing changes, near 0 for news; 1 where times are only an order.
    """
    if not dataset.meta["clock_times"]:
        return 1.0
    times = np.asarray(dataset.times)
    first, last = np.quantile(times, [1 / _THIRDS, 1 - 1 / _THIRDS])
    turn = np.arange(len(times)) % _THIRDS
    by_time = _in_common(dataset, times <= first, times >= last)
    return by_time / max(_in_common(dataset, turn == 0, turn == 1), np.finfo(float).tiny)


def _in_common(
    dataset: SlateDataset, one: npt.NDArray[np.bool_], other: npt.NDArray[np.bool_]
) -> float:
    """Return Σ_i min(share of item i in some slates, its share in others)."""
    lengths = np.diff(dataset.slate_offsets)
    views = np.stack(
        [
            np.bincount(
                dataset.slate_items[np.repeat(slates, lengths)], minlength=dataset.num_items
            )
            for slates in (one, other)
        ]
    )
    shares = views / np.maximum(1, views.sum(1, keepdims=True))
    return float(shares.min(0).sum())
