"""What the network is given: features of the strict past, standardised by the training part."""

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.features.item_dates import ages, usual_ages
from slatewise.features.past import PastFeatures, PastTable
from slatewise.model.network.architecture import CLIP, SlateInputs

SAME: Final = 1e-6
"""Standard deviation up to which a feature is the same throughout."""
PART: Final = 500_000
"""Items seen whose features are computed at a time, about."""


def parts_of(log: Interactions) -> tuple[Tensor, Tensor]:
    """Return the interactions of the training part, and of the validation part."""
    users = torch.repeat_interleave(log.user_offsets.diff())
    index = torch.arange(len(users)) - log.user_offsets[:-1][users]
    training = index < log.train_end[users]
    validation = ~training & (index < log.valid_end[users])
    return training.nonzero()[:, 0], validation.nonzero()[:, 0]


def feature_scales(table: PastTable, log: Interactions, training: Tensor) -> dict[str, Tensor]:
    """Return mean and standard deviation of the features in the training part.

    What is the same throughout has an infinite one, and so is 0 everywhere: where it differs later,
    as the mark of a source that comes up for the first time, nothing was learned of it.
    """
    chosen = torch.zeros(len(log.clicks), dtype=torch.bool)
    chosen[training] = True
    scales = {}
    of_items = torch.repeat_interleave(chosen, log.scroll_lengths)
    for name, values, rows in (("items", table.items, of_items), ("slates", table.slates, chosen)):
        # One column after the other: a copy of the whole table would take twice its memory.
        columns = (values[:, n][rows].double() for n in range(values.shape[1]))
        moments = [(float(column.mean()), float(column.std(correction=0))) for column in columns]
        mean, sd = torch.tensor(moments).T
        scales[f"{name}_mean"] = mean.contiguous()
        scales[f"{name}_sd"] = torch.where(sd > SAME, sd.clamp(min=1e-3), torch.inf)
    return scales


def with_column(table: PastTable, column: Tensor) -> PastTable:
    """Return the table with one more feature of items: [F]."""
    return PastTable(torch.cat([table.items, column[:, None]], 1), table.slates)


def cell_times(interactions: Interactions) -> Tensor:
    """Return when each item was seen: [F]."""
    return torch.repeat_interleave(interactions.times, interactions.scroll_lengths)


def usable_dates(
    dates: Mapping[str, Int64Array], log: Interactions, *, clock_times: bool
) -> tuple[dict[str, Tensor], dict[str, str], tuple[str, ...]]:
    """Return the dates [K, I] that say an age in a log, why others do not, and their names."""
    if not clock_times:
        return {}, dict.fromkeys(dates, "an age takes a log with clock times."), ()
    items, times = log.slate_items.long().numpy(), cell_times(log).numpy()
    means, reasons = usual_ages(dates, items, times)
    if not means:
        return {}, reasons, ()
    tensors = {
        "item_dates": torch.from_numpy(np.stack([dates[name] for name in means])),
        "usual_ages": torch.tensor(list(means.values()), dtype=torch.float32),
    }
    return tensors, reasons, tuple(means)


def with_ages(
    tensors: Mapping[str, Tensor],
    table: PastTable,
    items: Tensor,
    times: Tensor,
    past: PastFeatures,
) -> PastTable:
    """Return the table, which `past` made, with ages of items [F] at times [F] by their dates."""
    if "item_dates" not in tensors:
        return table
    found = ages_at(tensors, items.long().numpy(), times.numpy(), past.first_seen(table))
    return PastTable(torch.cat([table.items, found], 1), table.slates)


def ages_at(
    tensors: Mapping[str, Tensor], items: Int64Array, times: Int64Array, first_seen: Tensor
) -> Tensor:
    """Return the ages of items [F] at times [F] by each column of dates, if there is one: [F, K].

    `first_seen` [F] stands for an age that is not known.
    """
    if (dates := tensors.get("item_dates")) is None:
        return torch.empty(len(items), 0)
    means = tensors["usual_ages"].numpy()
    return torch.from_numpy(ages(dates.numpy(), items, times, first_seen.numpy(), means))


def with_rates(tensors: Mapping[str, Tensor], table: PastTable, items: Tensor) -> PastTable:
    """Return the table with the click rate of items [F] where they stay; new ones have the mean."""
    rates = tensors.get("item_rates")
    if rates is None:
        return table
    known = items < len(rates)
    found = rates[torch.where(known, items, 0).long()]
    return with_column(table, torch.where(known, found, tensors["items_mean"][-1]))


def with_further(table: PastTable, interactions: Interactions | None) -> PastTable:
    """Return the table with what the clicks made before on a slate tell of the next one.

    Of an item 1 / steps from the last click, above 0 for those below it: people go on from there.
    Of a slate how many there were. All is 0 for a first choice, as without interactions.
    """
    items, slates = torch.zeros(len(table.items)), torch.zeros(len(table.slates))
    if interactions is not None and (several := interactions.several) is not None:
        rows = torch.nonzero(several.further > 0).squeeze(1)
        slates[rows] = several.further[rows].float().log1p()
        last = torch.full_like(slates, torch.nan)
        last[rows] = interactions.clicks[rows - 1].float()
        lengths = interactions.scroll_lengths
        first = torch.repeat_interleave(interactions.slate_offsets[:-1], lengths)
        steps = torch.arange(len(items)) - first - torch.repeat_interleave(last, lengths)
        items = torch.where(steps.isnan() | (steps == 0), 0.0, 1 / steps)
    return PastTable(
        torch.cat([table.items, items[:, None]], 1), torch.cat([table.slates, slates[:, None]], 1)
    )


def network_inputs(
    tensors: Mapping[str, Tensor], table: PastTable, interactions: Interactions
) -> SlateInputs:
    """Return what the network reads of interactions: features, groups of items, slates."""
    items = interactions.slate_items.long()
    groups = tensors["item_groups"][items].long()
    return SlateInputs(
        *standardised(tensors, table),
        groups,
        interactions.slate_offsets,
        *catalogue_rows(tensors, items),
    )


def catalogue_rows(
    tensors: Mapping[str, Tensor], items: Tensor
) -> tuple[Tensor | None, Tensor | None]:
    """Return the rows of items [F] in the matrix of item columns, and that: [I + 1, C].

    New items have its last row.
    """
    if (catalogue := tensors.get("item_columns")) is None:
        return None, None
    return items.clamp(max=len(catalogue) - 1), catalogue


def standardised(tensors: Mapping[str, Tensor], table: PastTable) -> tuple[Tensor, Tensor]:
    """Return the features of items [F, P] and of slates [N, Q], standardised and clipped."""
    items, slates = (
        (values - tensors[f"{name}_mean"]).div_(tensors[f"{name}_sd"]).clamp_(-CLIP, CLIP)
        for name, values in (("items", table.items), ("slates", table.slates))
    )
    return items, slates


def log_to_fit(dataset: SlateDataset, most: int) -> tuple[Interactions, Int64Array]:
    """Return training and validation interactions of users [B], and these users.

    Of all users, or of as many of them as saw `most` items together, drawn by chance.
    """
    log = dataset.interactions()
    first, ends = log.slate_offsets[log.user_offsets[:-1]], log.user_offsets[:-1] + log.valid_end
    cells = (log.slate_offsets[ends] - first).numpy()
    users = np.flatnonzero(dataset.valid_end > 0)
    if cells.sum() > most:
        drawn = np.random.default_rng(0).permutation(users)
        users = np.sort(drawn[: max(1, int((cells[drawn].cumsum() <= most).sum()))])
    chosen = torch.from_numpy(users)
    return log.of_users(chosen, log.valid_end[chosen]), users


def in_parts(
    describe: Callable[[Interactions, Int64Array], PastTable],
    log: Interactions,
    users: Int64Array,
) -> PastTable:
    """Return the features of the interactions of users [B], computed for some at a time."""
    ends = log.slate_offsets[log.user_offsets[1:]].numpy()
    cuts = np.searchsorted(ends, np.arange(PART, int(ends[-1]), PART))
    parts = [part for part in np.split(np.arange(len(users)), np.unique(cuts)) if len(part)]
    tables = [describe(log.of_users(torch.from_numpy(part)), users[part]) for part in parts]
    return PastTable(*(torch.cat(values) for values in zip(*tables, strict=True)))


def sample_notes(fitted: int, everybody: int, most: int) -> list[str]:
    """Return a note where a network was fitted to some users only, who saw `most` items."""
    if fitted >= everybody:
        return []
    return [
        f"The network was fitted to {fitted:,} of {everybody:,} users, drawn by chance, who saw "
        f"{most:,} items at most."
    ]
