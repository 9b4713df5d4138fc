"""One user to look at: what she saw and clicked, and what each strategy would show her next."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.evaluation.evaluate import scored_users
from slatewise.experiments.store import Row, Tables
from slatewise.features.user_history import UserHistory
from slatewise.model.fitted import ItemId, SlateModel
from slatewise.slates import Recommender
from slatewise.slates.users import Seen

STRATEGIES: Final = ("greedy", "thompson", "in-slate-thompson")
LAST_SLATES: Final = 5
"""Slates of the user that are shown, the newest."""
SHOWN: Final = 8
"""Items of a slate that are shown."""


def example_tables(model: SlateModel, dataset: SlateDataset, seed: int) -> Tables:
    """Return what a test user saw, and the slates that she would get from each strategy."""
    user = _typical_user(dataset)
    seen = _slates_of(dataset, user)
    past = [
        {
            "slate": number + 1,
            "source": one.source,
            "clicked": ", ".join(map(str, one.clicked)) or "–",
            "seen": _listed(one.items),
        }
        for number, one in enumerate(seen)
    ]
    return {"example_past": past[-LAST_SLATES:], "example_slates": _offered(model, seen, seed)}


def _typical_user(dataset: SlateDataset) -> int:
    """Return a test user with as many clicks as the median test user."""
    everything = dataset.interactions()
    owners = np.repeat(np.arange(dataset.num_users), np.diff(everything.user_offsets.numpy()))
    clicks = np.bincount(owners[everything.clicks.numpy() >= 0], minlength=dataset.num_users)
    tested = scored_users(dataset, "test")
    order = tested[np.argsort(clicks[tested], kind="stable")]
    return int(order[len(order) // 2])


def _slates_of(dataset: SlateDataset, user: int) -> list[Seen]:
    history = UserHistory.of_log(dataset.interactions(), user)
    ids = dataset.item_ids.to_list()
    clicked = set(history.clicks.tolist())
    out = []
    for number in range(len(history.sources)):
        first, end = int(history.offsets[number]), int(history.offsets[number + 1])
        out.append(
            Seen(
                [ids[item] for item in history.items[first:end]],
                [ids[history.items[cell]] for cell in range(first, end) if cell in clicked],
                source=dataset.source_names[int(history.sources[number])],
                time=int(history.times[number]),
            )
        )
    return out


def _offered(model: SlateModel, seen: list[Seen], seed: int) -> list[Row]:
    recommender = Recommender(model)
    rows = []
    for strategy in STRATEGIES:
        slate = recommender.recommend(seen, SHOWN, strategy=strategy, seed=seed)
        for position, (item, group) in enumerate(zip(slate.items, slate.groups, strict=True)):
            rows.append(
                {
                    "strategy": strategy,
                    "position": position + 1,
                    "item": str(item),
                    "group": group,
                    "relevance": float(slate.relevance[position]),
                    "uncertainty": float(slate.uncertainty[position]),
                    "views in training": int(model.views[slate.numbers[position]]),
                }
            )
    return rows


def _listed(items: Sequence[ItemId]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return ", ".join(map(str, items[:SHOWN])) + more
