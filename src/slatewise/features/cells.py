"""Where the items of a log were seen: their positions in slates, and how many slates before."""

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions


def slates_before(interactions: Interactions) -> Tensor:
    """Return how many slates the user had seen before that of each interaction: [N] int64.

    A slate with several clicks is one. Users must begin with their first interaction.
    """
    begins = interactions.first_choices
    seen = torch.nn.functional.pad(begins.long().cumsum(0), (1, 0))  # [N + 1]
    offsets = interactions.user_offsets
    at_start = torch.repeat_interleave(seen[offsets[:-1]], offsets.diff(), output_size=len(begins))
    return seen[1:] - 1 - at_start


def positions(interactions: Interactions) -> Tensor:
    """Return the position of every item seen in its slate, 0 the first: [F] int64.

    People click what stands first, and rankings put first what they like: a log alone cannot tell
    the two apart. So the position may explain a click, but no ranking reads it.
    """
    offsets = interactions.slate_offsets
    first = torch.repeat_interleave(
        offsets[:-1], offsets.diff(), output_size=len(interactions.slate_items)
    )
    return torch.arange(len(interactions.slate_items), device=offsets.device) - first
