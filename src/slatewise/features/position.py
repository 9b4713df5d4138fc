"""Where in its slate an item was seen.

People click what stands first, and ranking puts first what they like: from a log alone the two
cannot be told apart. So the position may explain a click; no ranking reads it.
"""

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions


def positions(interactions: Interactions) -> Tensor:
    """Return the place of every item seen, 0 the first: [F] int64."""
    offsets = interactions.slate_offsets
    first = torch.repeat_interleave(
        offsets[:-1], offsets.diff(), output_size=len(interactions.slate_items)
    )
    return torch.arange(len(interactions.slate_items), device=offsets.device) - first
