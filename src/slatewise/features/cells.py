"""The cells of a log, one for each item seen: which belong to some users, and their positions."""

import torch
from torch import Tensor

from slatewise.data.interactions import Interactions


def cells_of_users(interactions: Interactions, users: Tensor, ends: Tensor | None = None) -> Tensor:
    """Return which cells of a log `of_users` gathers, in its order: [F of the batch] int64.

    Where values [F, P] stand beside the log, `values.index_select(0, cells_of_users(log, users))`
    stand beside `log.of_users(users)`. The cells of a user lie together, so this costs no loop.
    """
    first = interactions.user_offsets[users]
    counts = interactions.user_offsets[users + 1] - first
    counts = counts if ends is None else torch.minimum(counts, ends)
    start = interactions.slate_offsets[first]
    lengths = interactions.slate_offsets[first + counts] - start
    stops = lengths.cumsum(0)
    total = int(stops[-1]) if len(stops) else 0
    shift = torch.repeat_interleave(start - (stops - lengths), lengths, output_size=total)
    return torch.arange(total, device=start.device) + shift


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
