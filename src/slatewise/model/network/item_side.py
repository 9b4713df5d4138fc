"""A network of one item at a time, for rankings of all items, where no slate is known yet.

    φ_i = A relu(W' relu(W x_i + e(group)))        u_i = w · φ_i

with x_i what is known of an item at a time, whoever asks. So φ is computed once for all users, and
kept until what is known changes. Its few last units make it cheap to draw the weights w in every
draw of a ranking.

It learns the next clicks among all items: those seen lately, which most clicks are on, and a
uniform sample that stands for the rest. A few clicks in a row, of any users, share a moment and its
candidates, at a fraction of the cost.

Shapes: M moments, B clicks after each, K candidates, I items, P features that change with time (of
popularity, and ages by dates), C that stay, H units of a hidden layer, L last units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.features.popularity import AGE, SECOND, Popularity
from slatewise.features.popularity_index import PopularityIndex
from slatewise.model.network.architecture import CLIP
from slatewise.model.network.fitting import FittedNetwork, fit_members
from slatewise.model.network.inputs import SAME, ages_at, parts_of

LAST: Final = 4
"""L, last units: each is a column of the ranked table; eight made a ranking 1.5 times as slow."""
MOMENTS: Final = 1_000
"""Most moments that it learns from; a quarter as many of the validation part end the fit."""
TOGETHER: Final = 4
"""B, clicks that share a moment, unless they come later than `SOON`."""
SOON: Final = 3_600 * SECOND
RECENT, SAMPLED = 64, 64
"""Candidates of a moment beside its clicks: seen lately, and drawn uniformly."""
WINDOW: Final = 4_096
"""Items seen that `RECENT` are drawn from."""
BATCH: Final = 32
"""Moments of a step."""
EPOCHS: Final = 12
"""Most passes over them: after ten, held-out clicks gained .002 nats in news, less elsewhere."""
_NO_OPTION: Final = -1e9
"""Log-weight of a candidate that is there twice."""


class ItemNetwork(nn.Module):
    """The network above."""

    def __init__(self, features: int, groups: int, hidden: int) -> None:
        super().__init__()
        self.of_item = nn.Linear(features, hidden)
        self.of_group = nn.Embedding(groups + 1, hidden)
        self.second = nn.Linear(hidden, hidden)
        self.last = nn.Linear(hidden, LAST, bias=False)
        self.weights = nn.Linear(LAST, 1, bias=False)
        nn.init.zeros_(self.of_group.weight)

    def units(self, features: Tensor, groups: Tensor) -> Tensor:
        """Return the last units of items with features [..., P + C] in groups [...]: [..., L]."""
        hidden = torch.relu(self.of_item(features) + self.of_group(groups))
        out: Tensor = self.last(torch.relu(self.second(hidden)))
        return out

    def forward(self, features: Tensor, groups: Tensor) -> Tensor:
        """Return the utilities of items: [...]."""
        return (self.units(features, groups) @ self.weights.weight.T)[..., 0]


@dataclass(frozen=True)
class NextClicks:
    """Moments, with candidates and which of them were clicked next."""

    features: Tensor
    """[M, K, P] standardised"""
    items: Tensor
    """[M, K] int64"""
    log_weights: Tensor
    """[M, K] log of how many items each candidate stands for"""
    clicks: Tensor
    """[M, K] how many of the next clicks were on it"""
    groups: Tensor
    """[I] int64"""
    columns: Tensor
    """[I, C]"""

    def log_likelihood(self, network: ItemNetwork, rows: Tensor) -> Tensor:
        """Return the mean log-probability of the clicks after some moments: [R]."""
        items, clicks = self.items[rows], self.clicks[rows]
        features = torch.cat([self.features[rows], self.columns[items]], -1)
        utilities = network(features, self.groups[items]) + self.log_weights[rows]
        found: Tensor = (clicks * torch.log_softmax(utilities, 1)).sum(1) / clicks.sum(1)
        return found

    def to(self, device: torch.device | str) -> "NextClicks":
        """Return the same on a device."""
        return NextClicks(*(part.to(device) for part in vars(self).values()))


def feature_scales(features: Tensor) -> dict[str, Tensor]:
    """Return mean and standard deviation of features [..., P]; ∞ for one that never differs."""
    flat = features.flatten(0, -2)
    sd = flat.std(0, correction=0)
    return {"mean": flat.mean(0), "sd": torch.where(sd > SAME, sd.clamp(min=1e-3), torch.inf)}


def standardised(scales: Mapping[str, Tensor], features: Tensor) -> Tensor:
    """Return features [..., P], standardised and clipped."""
    return ((features - scales["mean"]) / scales["sd"]).clamp_(-CLIP, CLIP)


def drawn_moments(log: Interactions, rng: np.random.Generator) -> tuple[Int64Array, int]:
    """Return interactions with clicks in a row, training ones first, and how many rows these are.

    [M, B], in the order of their times.
    """
    clicked, found = log.clicks >= 0, []
    for part, count in zip(parts_of(log), (MOMENTS, max(1, MOMENTS // 4)), strict=True):
        rows = part[clicked[part]].numpy()
        rows = rows[np.argsort(log.times.numpy()[rows], kind="stable")]
        whole = rows[: len(rows) // TOGETHER * TOGETHER].reshape(-1, TOGETHER)
        found.append(whole[rng.permutation(len(whole))[:count]])
    return np.concatenate(found), len(found[0])


def candidates_of(
    log: Interactions, rows: Int64Array, num_items: int, rng: np.random.Generator
) -> tuple[Int64Array, npt.NDArray[np.float32]]:
    """Return candidates of moments [M, B], all that was clicked among them: [M, K].

    With the log of how many items each stands for.
    """
    clicked, moments = log.clicked_items.numpy()[rows], len(rows)
    if num_items <= TOGETHER + RECENT + SAMPLED:
        items = np.tile(np.arange(num_items), (moments, 1))
        return items, np.zeros(items.shape, np.float32)
    times = torch.repeat_interleave(log.times, log.scroll_lengths).numpy()
    order = np.argsort(times, kind="stable")
    ends = np.searchsorted(times[order], log.times.numpy()[rows[:, :1]])  # [M, 1]
    back = (rng.random((moments, RECENT)) * np.minimum(ends, WINDOW)).astype(np.int64)
    seen = log.slate_items.numpy()[order[np.maximum(ends - 1 - back, 0)]]
    sampled = rng.integers(num_items, size=(moments, SAMPLED))
    items = np.concatenate([clicked, seen, sampled], 1).astype(np.int64)
    again, sure = _is_repeated(items), TOGETHER + RECENT
    certain, rest = (~again[:, :sure]).sum(1), (~again[:, sure:]).sum(1)
    log_weights = np.zeros(items.shape, np.float32)
    log_weights[:, sure:] = np.log((num_items - certain) / np.maximum(rest, 1))[:, None]
    log_weights[again] = _NO_OPTION
    return items, log_weights


def _is_repeated(items: Int64Array) -> npt.NDArray[np.bool_]:
    """Return which items of each row [M, K] stood in it before."""
    order = np.argsort(items, axis=1, kind="stable")
    sorted_items = np.take_along_axis(items, order, 1)
    same = np.zeros(items.shape, np.bool_)
    same[:, 1:] = sorted_items[:, 1:] == sorted_items[:, :-1]
    out = np.empty_like(same)
    np.put_along_axis(out, order, same, 1)
    return out


def changing(
    popularity: Popularity,
    known: Tensor,
    dates: Mapping[str, Tensor],
    items: Int64Array,
    times: Int64Array,
) -> Tensor:
    """Return what changes with time of items [F] at times [F], by their popularity: [F, P].

    Ages are those of the last refresh, as popularity is.
    """
    names, tick = popularity.names, max(1, round(popularity.settings.refresh * SECOND))
    times = times // tick * tick
    seen = known[:, names.index(f"views_{popularity.settings.half_lives[-1]:g}h")] != 0
    first_seen = known[:, names.index(AGE)].masked_fill(~seen, torch.nan)
    return torch.cat([known, ages_at(dates, items, times, first_seen)], 1)


def next_clicks(
    log: Interactions,
    index: PopularityIndex,
    groups: Tensor,
    columns: Tensor,
    dates: Mapping[str, Tensor],
    rng: np.random.Generator,
) -> tuple[NextClicks, int, dict[str, Tensor]]:
    """Return moments of a log, how many are of the training part, and the scales of features.

    Of items in groups [I] with columns [I, C], and dates as `usable_dates` returns them.
    """
    rows, cut = drawn_moments(log, rng)
    items, log_weights = candidates_of(log, rows, len(groups), rng)
    times = log.times.numpy()[rows]
    moments = np.repeat(times[:, 0], items.shape[1])
    known = torch.from_numpy(index.features(items.ravel(), moments))
    found = changing(index.popularity, known, dates, items.ravel(), moments)
    found = found.view(*items.shape, -1)
    scales = feature_scales(found[:cut])
    soon = times - times[:, :1] <= SOON
    matches = log.clicked_items.numpy()[rows][:, :, None] == items[:, None]  # [M, B, K]
    clicks = (matches & soon[:, :, None]).sum(1) * (log_weights > _NO_OPTION)
    moments_of_log = NextClicks(
        standardised(scales, found),
        torch.from_numpy(items),
        torch.from_numpy(log_weights),
        torch.from_numpy(clicks.astype(np.float32)),
        groups,
        columns,
    )
    return moments_of_log, cut, scales


def fit_item_network(
    clicks: NextClicks, training: int, *, groups: int, hidden: int, seed: int
) -> FittedNetwork[ItemNetwork]:
    """Fit a network to the first `training` moments; the others end the fit.

    On the device that they are on.
    """
    device = clicks.items.device
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network = ItemNetwork(
            clicks.features.shape[2] + clicks.columns.shape[1], groups, hidden
        ).to(device)
    with torch.no_grad():
        # A column of items counts once it is learned, and adds no noise before.
        network.of_item.weight[:, clicks.features.shape[2] :] = 0
    every = torch.arange(len(clicks.items), device=device)
    held_out = every[training:] if training < len(every) else every
    return fit_members(
        *(clicks, [network], every[:training], held_out),
        merged=lambda networks: networks[0],
        batch=BATCH,
        epochs=EPOCHS,
        seed=seed,
    )
