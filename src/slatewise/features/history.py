"""Features of a user and an item from their past: clicked, shown, clicked last.

| feature | value |
|---|---|
| `clicked_before` | log(1 + how often the user clicked the item before) |
| `shown_before` | log(1 + how often the user was shown it before, clicked or not) |
| `last_click` | 1 if it is what the user clicked last, else 0 |

Logarithms, because the first time matters most: they separate never from once as a flag would, and
still separate once from ten times. *Shown and not clicked* needs no feature of its own: it is a
difference of the first two.
"""

from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.features.showings import showing_starts
from slatewise.features.user_history import UserHistory

Floats = npt.NDArray[np.float32]

HISTORY: Final = ("clicked_before", "shown_before", "last_click")
"""The columns of all that this module returns."""


def history_features(interactions: Interactions) -> Tensor:
    """Return the features of every item seen, from what its user did before: [F, 3] float32.

    One pass over the cells of any number of users. Only the user's own earlier interactions are
    looked at; further clicks on one slate share the past of the first.
    """
    from slatewise.features import _numba  # noqa: PLC0415 (numba takes time to load)

    out = np.empty((len(interactions.slate_items), len(HISTORY)), dtype=np.float32)
    bad = _numba.history(
        interactions.user_offsets.cpu().numpy(),
        showing_starts(interactions).numpy(),
        interactions.clicks.cpu().numpy(),
        interactions.slate_offsets.cpu().numpy(),
        interactions.slate_items.cpu().numpy(),
        _logs(np.arange(_most_views(interactions) + 1)),
        out,
    )
    if bad >= 0:
        raise ValueError(f"interaction {bad} has a negative item or a click outside its slate")
    return torch.from_numpy(out).to(interactions.clicks.device)


def _most_views(interactions: Interactions) -> int:
    """Bound how often a user saw or clicked an item: by the most cells that a user has."""
    cells = interactions.slate_offsets[interactions.user_offsets].diff()
    return int(cells.max()) if len(cells) else 0


def _logs(counts: Int64Array) -> Floats:
    out: Floats = np.log1p(counts).astype(np.float32)
    return out


def met_features(
    history: UserHistory, items: Int64Array | None = None
) -> tuple[Int64Array, Floats]:
    """Return items [m] and their features [m, 3] for a user's next slate.

    Of the items given, or without any, of all that she met, ascending: others have 0.
    """
    met = history.counts
    if items is None:
        items, clicks, views = met.items, met.clicks, met.views
    else:
        clicks, views = met.of(items)
    out = np.empty((len(items), len(HISTORY)), dtype=np.float32)
    out[:, 0], out[:, 1], out[:, 2] = _logs(clicks), _logs(views), items == met.last
    return items, out
