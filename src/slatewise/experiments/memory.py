"""What a platform recorded of its users: what recommendations are made from."""

import numpy as np

from slatewise.experiments.daily_log import DaySlates
from slatewise.features.popularity_state import CountedEvents
from slatewise.features.showings import Showing
from slatewise.features.user_history import UserHistory
from slatewise.simulation.arrays import Ints


class Memory:
    """The slates of every user, oldest first; items by number, sources as in `SOURCES`."""

    def __init__(self, users: int) -> None:
        self._seen: list[list[Showing]] = [[] for _ in range(users)]

    def record(self, met: DaySlates) -> None:
        """Keep slates, which come later than all before."""
        clicked = (met.slates == met.clicks[:, None]) & (met.clicks >= 0)[:, None]
        position = np.where(clicked.any(axis=1), clicked.argmax(axis=1), -1)
        for user, slate, scroll, click, time, source in zip(
            met.user.tolist(),
            met.slates.tolist(),
            met.scroll.tolist(),
            position.tolist(),
            met.time.tolist(),
            met.searched.tolist(),
            strict=True,
        ):
            clicks = (click,) if click >= 0 else ()
            self._seen[user].append(Showing(tuple(slate[:scroll]), clicks, time, int(source)))

    def histories(self, who: Ints) -> list[UserHistory]:
        """Return all that is known of users [B]."""
        return [UserHistory.of_showings(self._seen[user]) for user in who.tolist()]


def counted_events(met: DaySlates) -> CountedEvents:
    """Return the views and clicks of slates, as terms that know of items count them."""
    seen = np.arange(met.slates.shape[1]) < met.scroll[:, None]  # [N, S]
    items = met.slates[seen]
    return CountedEvents(
        np.repeat(met.time, met.scroll),
        items,
        np.ones(len(items), np.bool_),
        (met.slates == met.clicks[:, None])[seen],
        np.repeat(1 / met.scroll, met.scroll),
    )
