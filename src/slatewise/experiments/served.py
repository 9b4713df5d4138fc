"""What a platform knows of its users, also slates without a click, and slates made from that."""

from collections.abc import Sequence

import polars as pl

from slatewise.data.columns import Columns
from slatewise.features.showings import Showing
from slatewise.features.user_history import UserHistory
from slatewise.model.fitted import SlateModel
from slatewise.ranking import Filter
from slatewise.simulation import Marketplace, Users
from slatewise.simulation.arrays import Doubles, Ints
from slatewise.strategies import users as asking
from slatewise.strategies.dense import DenseRanker
from slatewise.strategies.greedy import Greedy


def histories(log: pl.DataFrame, who: Ints, sources: Sequence[str]) -> list[UserHistory]:
    """Read the histories of `who` [B] off a log whose item ids are item numbers."""
    number = {name: index for index, name in enumerate(sources)}
    shown: dict[int, list[Showing]] = {user: [] for user in who.tolist()}
    columns = (Columns.USER, Columns.SLATE, Columns.CLICK, Columns.SOURCE)
    for user, slate, click, source in (
        log.sort(Columns.TIME, maintain_order=True).select(columns).iter_rows()
    ):
        if user in shown:
            clicks = () if click is None else (slate.index(click),)
            shown[user].append(Showing(tuple(slate), clicks, source=number[source]))
    return [UserHistory.of_showings(showings) for showings in shown.values()]


def judge_greedy(
    model: SlateModel, market: Marketplace, users: Users, who: Ints, known: Sequence[UserHistory]
) -> Doubles:
    """Return the exact click probability of the greedy slate of each of `who`: [B].

    Nobody is shown what she clicked before.
    """
    filters = [Filter(exclude=history.clicked) for history in known]
    asked = asking.Users(known, filters, [0] * len(who))
    ranker = DenseRanker(model.posterior, model.terms)
    slates = Greedy().slates(ranker, asked, market.config.max_slate)
    return market.click_probability(users, slates, who)
