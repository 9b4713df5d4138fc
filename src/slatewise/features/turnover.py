"""Whether the items of a log stay, as in a shop, or come and go, as news do."""

from typing import Final

import numpy as np

from slatewise.data import SlateDataset

_STAYING: Final = 0.5
"""Share of what is shown early that is still shown late, below which a catalogue turns over."""


def items_stay(dataset: SlateDataset) -> bool:
    """Return whether most of what is shown early in a log is still shown late."""
    return share_still_shown(dataset) >= _STAYING


def share_still_shown(dataset: SlateDataset) -> float:
    """Return how much of what was seen in the first third of a log is seen in the last third.

    Near 1 for shops and videos, near 0 for news; 1 where times are only an order.
    """
    if not dataset.meta["clock_times"]:
        return 1.0
    times, lengths = np.asarray(dataset.times), np.diff(dataset.slate_offsets)
    thirds = np.quantile(times, [1 / 3, 2 / 3])
    early, late = (
        np.bincount(dataset.slate_items[np.repeat(mask, lengths)], minlength=dataset.num_items)
        for mask in (times <= thirds[0], times >= thirds[1])
    )
    return float(early[late > 0].sum() / max(1, early.sum()))
