"""Logs of a service, written straight into a store."""

from collections.abc import Sequence

from slatewise.service.store import Store
from slatewise.service.store.records import Outcome, Serving, SlateRecord

DAY = 86_400_000_000
START = 20_000 * DAY


def served(
    number: int,
    user: str | None,
    arm: str,
    time: int,
    items: Sequence[str] = ("a", "b"),
) -> SlateRecord:
    serving = Serving(arm, "main", "1", "greedy", 0, 2, {"exclude": ["\0"]}, 0, 0)
    return SlateRecord(f"s{number}", user, time, "recommendation", tuple(items), serving)


def fill(store: Store, rows: Sequence[tuple[str | None, str, float, bool | None]]) -> None:
    """Write slates: user, arm, day, and whether it was clicked (None: nothing was heard)."""
    first = store.seq()
    slates = [
        served(first + number, user, arm, START + int(day * DAY))
        for number, (user, arm, day, _) in enumerate(rows)
    ]
    outcomes = [
        Outcome(slate.slate_id, None, ("a",) if clicked else (), slate.time + 1)
        for slate, (*_, clicked) in zip(slates, rows, strict=True)
        if clicked is not None
    ]
    store.write(slates, outcomes)
