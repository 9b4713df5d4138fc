"""The store: one object for all that is written and read."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Final

from sqlalchemy import Connection

from slatewise.errors import SlatewiseError
from slatewise.service.store import (
    bulk,
    counters,
    erasure,
    export,
    inserts,
    items,
    queries,
    repair,
    retention,
)
from slatewise.service.store.bulk import LoadCounts, LoggedSlates
from slatewise.service.store.counters import Counter, last_number, take_turn
from slatewise.service.store.engine import LONG, Database, Result
from slatewise.service.store.features import Features, features_of, features_text
from slatewise.service.store.items import WantedItem
from slatewise.service.store.migrations import bring_up_to_date
from slatewise.service.store.records import (
    Answer,
    Item,
    ItemState,
    Outcome,
    OutcomeStatus,
    ServedAnswer,
    SlateRecord,
    StoredVisits,
    Visit,
    require_texts,
)
from slatewise.service.store.retention import Expiry, Position
from slatewise.service.store.versions import VersionShelf

_ARMS: Final = "arms"
_UNITS: Final = "units taken, host "
_PAGE: Final = 10_000
"""Slates that are read at once where many are."""
Plain = tuple[str, str, ItemState]
"""id, group and state of an item"""


class Store:
    """Slates, outcomes and items. One store per process, shared by its threads.

    Writing is one transaction a call, on disk when it returns; reading never waits for it. When the
    store cannot be reached or its disk is full, every method raises `StoreError`, nothing was
    written or all was, and the same call again is safe.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._salt = database.read(erasure.read_salt)

    @classmethod
    def open(cls, url: str) -> "Store":
        """Open `sqlite:///path` or `postgresql://…`, new or of any version up to ours."""
        database = Database(url)
        try:
            database.require_unicode()
            bring_up_to_date(database)
            return cls(database)
        except Exception:
            database.close()
            raise

    def close(self) -> None:
        """Close all connections."""
        self._database.close()

    def check(self) -> None:
        """Refuse a damaged file of SQLite: to be called before it is served."""
        self._database.check()

    def ping(self) -> None:
        """Raise `StoreError` when the store cannot be reached."""
        self.seq()

    def read(self, work: Callable[[Connection], Result]) -> Result:
        """Do some reading of one's own, such as sums; each statement sees what is there by then."""
        return self._database.read(work)

    # Slates and outcomes

    def write(
        self, slates: Sequence[SlateRecord], outcomes: Sequence[Outcome]
    ) -> list[OutcomeStatus]:
        """Write slates, then outcomes; return the status of each outcome.

        A slate is known by its id and an outcome by its slate and key: what is there already is not
        written again, and a slate that differs from the one with its id does not replace it.
        """
        return self._database.write(
            lambda connection: inserts.write(connection, slates, outcomes, self._salt)
        )

    def load(self, slates: LoggedSlates) -> LoadCounts:
        """Write slates of a log, each with its outcome; what is there already is not written again.

        Times may lie before those of what is there: a history goes by them.
        """
        return self._database.write(
            lambda connection: bulk.load(connection, slates, self._salt), LONG
        )

    def slate(self, slate_id: str) -> SlateRecord | None:
        """Return a slate by its id."""
        require_texts("the slate's id", (slate_id,))
        return self._database.read(lambda connection: queries.slate(connection, slate_id))

    def history(self, user_id: str, last: int, until: int | None = None) -> StoredVisits:
        """Return a user's `last` newest visits by the time of the slate, oldest first.

        With `until`, exactly what the store had learned up to that number.
        """
        require_texts("the user's id", (user_id,))
        return self._database.read(
            lambda connection: queries.history(connection, user_id, last, until)
        )

    def unanswered(self, user_id: str, last: int) -> list[SlateRecord]:
        """Return a user's `last` newest slates without an outcome, oldest first."""
        require_texts("the user's id", (user_id,))
        return self._database.read(lambda connection: queries.unanswered(connection, user_id, last))

    def seq(self) -> int:
        """Return the last number given to a slate or an outcome."""
        return self._database.read(lambda connection: last_number(connection, Counter.LOG))

    def answers_since(self, seq: int, limit: int, until: int | None = None) -> list[Answer]:
        """Return the next outcomes after a number, each by itself, in the order of their numbers.

        That order never changes: whoever counts them again counts the same.
        """
        return self._database.read(
            lambda connection: queries.answers_since(connection, seq, limit, until)
        )

    def answers_to(
        self, model: str, version: str, since: int, limit: int, until: int
    ) -> list[ServedAnswer]:
        """Return the next outcomes after a number, up to another, of slates that a version made.

        Of those that can be learned from, in the order of their numbers.
        """
        return self._database.read(
            lambda connection: queries.answers_to(connection, model, version, since, limit, until)
        )

    def number_before(self, time: int) -> int:
        """Return a number below those of all answers to slates made here since a time."""
        return self._database.read(lambda connection: queries.number_before(connection, time))

    def last_served(self) -> int:
        """Return the time of the newest slate that this service made; 0 for none."""
        return self._database.read(queries.last_served)

    def last_shown(self) -> int:
        """Return the time of the newest slate, whoever made it; 0 for none."""
        return self._database.read(queries.last_shown)

    def repair_times(self, now: int) -> int:
        """Move slates dated in the future to the past; return how many."""
        return self._database.write(lambda connection: repair.repair_times(connection, now), LONG)

    def export(self, start: int, end: int, batch: int = 50_000) -> Iterator[list[Visit]]:
        """Return the visits of slates shown from `start` to before `end`, oldest first, batched."""
        return export.export(self._database, start, end, batch)

    def served(
        self, start: int, end: int, batch: int = 50_000
    ) -> Iterator[list[tuple[SlateRecord, Visit | None]]]:
        """Return the slates that this service made, with the outcomes there are.

        From `start` to before `end`, oldest first, in batches.
        """
        return export.served(self._database, start, end, batch)

    # Slates that leave

    def first_aged(self, expiry: Expiry, start: int) -> int | None:
        """Return the time of the oldest slate since `start` that leaves, or None if none does."""
        return self._database.read(
            lambda connection: retention.first_aged(connection, expiry, start), LONG
        )

    def aged(self, expiry: Expiry, start: int) -> Iterator[list[tuple[SlateRecord, Visit | None]]]:
        """Return the slates since `start` that leave, oldest first, in batches."""
        return export.pages(self._database, expiry.aged, start, expiry.end, expiry.until, _PAGE)

    def expire_slice(self, expiry: Expiry, after: Position) -> tuple[int, Position | None]:
        """Delete the next few slates that leave, but not what experiments count of them.

        Return how many, and the time and number of the last; None when there are no more.
        """
        return self._database.write(
            lambda connection: retention.expire_slice(connection, expiry, after)
        )

    def forget_slice(self, before: int) -> int:
        """Delete some of what experiments count of slates from before a time; return how many."""
        return self._database.write(lambda connection: retention.forget_slice(connection, before))

    # Models

    @contextmanager
    def training(self) -> Iterator[None]:
        """Keep other hosts that share the store from training; refused while one does."""
        lock = int.from_bytes(bytes.fromhex(self._salt)[:8], "big", signed=True)
        with self._database.alone(lock) as free:
            if not free:
                raise SlatewiseError(
                    "Another host that shares the store is training.", "Wait until that has ended."
                )
            yield

    def shelf(self, model: str) -> VersionShelf | None:
        """Return the versions of a model that hosts share; None in SQLite, which is of one host."""
        return VersionShelf(self._database, model) if self.is_shared else None

    def take_version(self, model: str, least: int) -> int:
        """Return the next number of a version, `least` or more, which no host gets again."""
        return self._database.write(
            lambda connection: counters.take_version(connection, model, least)
        )

    # Arms

    def arms(self) -> str:
        """Return the arms that `put_arms` stored last, or nothing."""
        return self._database.read(lambda connection: counters.noted(connection, _ARMS))

    def put_arms(self, text: str) -> None:
        """Keep which arms run, for all hosts that share the store; nothing for those of theirs."""

        def put(connection: Connection) -> None:
            take_turn(connection, Counter.ITEMS)  # one host at a time
            counters.note(connection, _ARMS, text)

        self._database.write(put)

    # Limits

    @property
    def is_shared(self) -> bool:
        """Whether several hosts may use the store; a file of SQLite is of one."""
        return not self._database.is_sqlite

    def published_usage(self) -> dict[str, str]:
        """Return the usage that hosts have published, by host."""
        return self._database.read(lambda connection: counters.all_noted(connection, _UNITS))

    def publish_usage(self, host: str, usage: str) -> None:
        """Publish what tokens took on a host, for the others; an empty text deletes it."""
        name = f"{_UNITS}{host}"
        self._database.write(lambda connection: counters.note(connection, name, usage))

    # Items

    def put_items(self, given: Sequence[Plain | tuple[*Plain, Features | None]]) -> int:
        """Make items (id, group, state) so; return the number of the last change of any item.

        What is so already is no change. A fourth value are features; without it, or if it is None,
        an item keeps those that it has.
        """
        wanted = [_wanted(*one) for one in given]
        require_texts("the id of an item", [one.item_id for one in wanted])
        require_texts("the group of an item", [one.group for one in wanted])
        return self._database.write(lambda connection: items.put(connection, wanted))

    def add_items(self, given: Iterable[tuple[str, str, Features | None]]) -> int:
        """Add items (id, group, features or None) that are new to the store; return how many."""
        known = {item.item_id for page in self.all_items() for item in page}
        new, added = (one for one in given if one[0] not in known), 0
        while page := list(islice(new, items.PAGE)):
            self.put_items([(item, group, ItemState.SHOWN, own) for item, group, own in page])
            added += len(page)
        return added

    def remove_items(self, ids: Sequence[str]) -> int:
        """Remove items; return the number of the last change. Unknown ids do not matter."""
        require_texts("the id of an item", ids)
        return self._database.write(lambda connection: items.remove(connection, ids))

    def item(self, item_id: str) -> Item | None:
        """Return an item, or None if there never was one; a removed one has that state."""
        require_texts("the id of an item", (item_id,))
        return self._database.read(lambda connection: items.item(connection, item_id))

    def items(self, after: str | None, limit: int, search: str = "") -> list[Item]:
        """Return the next items by id, shown or hidden; None for the first.

        With `search`, those that have it in their id or group.
        """
        require_texts("the id of an item", () if after is None else (after,))
        return self._database.read(
            lambda connection: items.page(
                connection, after or "", limit, removed=False, search=search
            )
        )

    def all_items(self) -> Iterator[list[Item]]:
        """Return all items by id in batches, also those that were removed."""
        return items.pages(self._database)

    def item_features(self, numbers: Sequence[int]) -> dict[int, Features]:
        """Return the features that changes set (`Item.described`), by their numbers."""
        found = self._database.read(lambda connection: items.features(connection, numbers))
        return {number: features_of(text) for number, text in found.items()}

    def item_changes(self, since: int, until: int | None = None) -> list[Item]:
        """Return every change after number `since`, up to and with `until`, in order."""
        return self._database.read(
            lambda connection: items.changes_between(connection, since, until)
        )

    def compact_items(self, until: int) -> int:
        """Forget how items came to what they were at a change; return how many changes that were.

        What came after it stays as it is.
        """
        return items.compact(self._database, until)

    def item_seq(self) -> int:
        """Return the number of the last change of an item."""
        return self._database.read(lambda connection: last_number(connection, Counter.ITEMS))

    # People

    def erase(self, user_id: str, now: int) -> int:
        """Erase all that is kept of a person; return how many slates that were.

        What comes late about slates from before `now` is refused. Erasing again does no harm.
        SQLite may keep bytes until `tidy`, a large file some in unused places until `scrub`.
        """
        require_texts("the user's id", (user_id,))
        slates = erasure.erase(self._database, self._salt, user_id, now)
        self.tidy()
        return slates

    def tidy(self) -> bool:
        """Remove rows of erased people from SQLite's log; False if a reader kept it from that."""
        return erasure.tidy(self._database)

    @property
    def has_traces_in_log(self) -> bool:
        """Whether SQLite's log may hold rows of people who were erased, until `tidy`."""
        return erasure.has_traces_in_log(self._database)

    @property
    def has_traces(self) -> bool:
        """Whether SQLite's file may hold bytes of people who were erased, until `scrub`."""
        return erasure.has_traces(self._database)

    def scrub(self) -> bool:
        """Rewrite the SQLite file if people were erased since the last time; return whether it was.

        Writers wait meanwhile: some seconds for each GB.
        """
        if not self.has_traces:
            return False
        erasure.scrub(self._database)
        return True


def _wanted(
    item_id: str, group: str, state: ItemState, features: Features | None = None
) -> WantedItem:
    return WantedItem(item_id, group, state, None if features is None else features_text(features))
