"""What a platform knows of its users, also slates without a click, and slates made from that."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import polars as pl

from slatewise.data.columns import Columns
from slatewise.model.fitted import SlateModel
from slatewise.ranking import Filter
from slatewise.simulation import Marketplace, Users
from slatewise.simulation.arrays import Doubles, Ints
from slatewise.strategies import users as asking
from slatewise.strategies.dense import DenseRanker
from slatewise.strategies.greedy import Greedy
from slatewise.strategies.history import PastSlate


class Known(NamedTuple):
    """What some users did, in the order of their asking."""

    clicks: list[Ints]
    unclicked: list[tuple[PastSlate, ...]]


def histories(log: pl.DataFrame, who: Ints, sources: Sequence[str]) -> Known:
    """Read the histories of `who` [B] off a log whose item ids are item numbers."""
    place = {name: number for number, name in enumerate(sources)}
    clicks: dict[int, list[int]] = {user: [] for user in who.tolist()}
    unclicked: dict[int, list[PastSlate]] = {user: [] for user in clicks}
    columns = (Columns.USER, Columns.SLATE, Columns.CLICK, Columns.SOURCE)
    for user, slate, click, source in (
        log.sort(Columns.TIME, maintain_order=True).select(columns).iter_rows()
    ):
        if user not in clicks:
            continue
        if click is not None:
            clicks[user].append(click)
        else:
            items = np.array(slate, dtype=np.int64)
            unclicked[user].append(PastSlate(len(clicks[user]), items, place[source]))
    return Known(
        [np.array(row, dtype=np.int64) for row in clicks.values()],
        [tuple(row) for row in unclicked.values()],
    )


def judge_greedy(
    model: SlateModel, market: Marketplace, users: Users, who: Ints, known: Known
) -> Doubles:
    """Return the exact click probability of the greedy slate of each of `who`: [B].

    Nobody is shown what she clicked before.
    """
    filters = [Filter(exclude=row) for row in known.clicks]
    asked = asking.Users(known.clicks, filters, [0] * len(who), known.unclicked)
    ranker = DenseRanker(model.posterior, model.terms)
    slates = Greedy().slates(ranker, asked, market.config.max_slate)
    return market.click_probability(users, slates, who)
