"""The records of the store: slates, outcomes and items.

Ids are text; times are microseconds since 1970. A sequence number (`seq`) says in which order the
store learned of things: whoever has seen everything up to a number asks for what came after it.

A record that a store could not keep cannot be made: many are written in one transaction, and a bad
one among them would hold up the others.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from json.encoder import encode_basestring_ascii
from typing import Any, NamedTuple

from slatewise.errors import InputError

LONGEST = 512
"""Characters of an id, a group or a source: at 4 bytes each, an index of PostgreSQL takes them."""
_RECORD = 1_200
"""Bytes of memory of a slate beside its items."""
_FEW = 4
"""clicks of a slate: their items are found faster one by one than in an index"""
LAST_TIME = 253_402_300_799_999_999
"""The end of the year 9999, in microseconds."""


def require_texts(what: str, texts: Sequence[str]) -> None:
    """Refuse ids and names that are empty, too long, or no text that every store can keep."""
    if _fit(texts):
        return
    for text in texts:
        if problem := _problem(text):
            raise InputError(
                f"{what} {problem}", f"Give 1 to {LONGEST} characters of text, no NUL."
            )


def _fit(texts: Sequence[str]) -> bool:
    """Return whether all texts can be kept, looking at them together: there are many."""
    joined = "".join(texts)
    fits = all(texts) and (len(joined) <= LONGEST or max(map(len, texts)) <= LONGEST)
    return fits and "\0" not in joined and _is_unicode(joined)


def _problem(text: str) -> str | None:
    if not text:
        return "is empty"
    if len(text) > LONGEST:
        return f"has {len(text):,} characters: {text[:20]!r}…"
    if "\0" in text:
        return f"has a character NUL: {text[:80]!r}"
    return None if _is_unicode(text) else f"is no valid Unicode: {text[:80]!r}"


def _is_unicode(text: str) -> bool:
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, as "\\ud800" in JSON gives
        return False
    return True


def _require_time(time: int) -> None:
    if not 0 <= time <= LAST_TIME:
        raise InputError(
            f"the time {time} is not between 1970 and 9999",
            "Give microseconds since 1970, or leave the time out.",
        )


@dataclass(frozen=True)
class Serving:
    """How a slate came about: with it, the same slate can be made again, and judged off-policy."""

    arm: str
    model: str
    """the name of the model; its versions follow one another"""
    version: str
    strategy: str
    seed: int
    k: int
    request: Mapping[str, Any]
    """what the request asked for beside the user: clicks, exclude, allow, groups, clicked; and how
    many visits of hers count (history)"""
    catalogue: int
    """the number of the last change of items that was taken into account"""
    known: int
    """the number of the last thing known of the user"""
    refreshed: int | None = None
    """the time as of which items' popularity was taken into account; None without popularity"""
    propensities: tuple[float, ...] | None = None
    """how likely each item was where it stands, where that was asked for"""
    counted: int | None = None
    """the number of the last answer in that popularity"""
    learned: int | None = None
    """the number of the last answer that items were moved by since training, or None"""
    shown: str | None = None
    """what the answer can teach by (`slatewise.slates.shown`), where something learns from it"""


@dataclass(frozen=True)
class SlateRecord:
    """A slate that was shown to a user, by this service or by others."""

    slate_id: str
    user_id: str | None
    """None for an anonymous user"""
    time: int
    source: str
    items: tuple[str, ...]
    """in shown order"""
    serving: Serving | None = None
    """None for a slate that others made"""

    def __post_init__(self) -> None:
        """Refuse what no store could keep."""
        user = () if self.user_id is None else (self.user_id,)
        if not _fit((self.slate_id, self.source, *user, *self.items)):
            require_texts("the slate's id", (self.slate_id,))
            require_texts("the user's id", user)
            require_texts("the source", (self.source,))
            require_texts("the id of an item", self.items)
        _require_time(self.time)


@dataclass(frozen=True)
class Outcome:
    """What a user did with a slate, according to one event.

    Several messages about a slate add up: she saw as much as the one that says most, and clicked
    all that any of them names, in the order of their times.
    """

    slate_id: str
    seen: int | None
    """how many items, from the first; None for all"""
    clicked: tuple[str, ...]
    time: int
    user_id: str | None = None
    """who saw the slate, if the message tells"""
    items: tuple[str, ...] | None = None
    """what the slate had, if the message tells"""

    def __post_init__(self) -> None:
        """Refuse what no store could keep."""
        if not _fit((self.slate_id, *self.clicked)):
            require_texts("the slate's id", (self.slate_id,))
            require_texts("the id of a clicked item", self.clicked)
        _require_time(self.time)
        if self.seen is not None and self.seen < 0:
            raise InputError(f"{self.seen} items were seen", "Give 0 or more, or leave it out.")

    @property
    def key(self) -> str:
        """A key that is the same when the same event is sent again."""
        return outcome_key(self.seen, self.clicked)


def outcome_key(seen: int | None, clicked: Sequence[str]) -> str:
    """Return a digest of the content of an outcome."""
    # As json.dumps([seen, *clicked]) has it, in a quarter of the time.
    content = ", ".join(["null" if seen is None else str(seen), *map(_json_text, clicked)])
    return blake2b(f"[{content}]".encode("ascii"), digest_size=16).hexdigest()


def positions(items: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Return where wanted items stand, all of which are there; in the time of one pass for many."""
    if len(wanted) < _FEW:
        return [items.index(item) for item in wanted]
    index = {item: position for position, item in reversed(list(enumerate(items)))}
    return [index[item] for item in wanted]


_json_text = encode_basestring_ascii


def json_texts(texts: Iterable[str]) -> str:
    """Return texts as a JSON list, in a third of the time that an encoder takes."""
    return f"[{','.join(map(_json_text, texts))}]"


def memory_of(slates: Sequence[SlateRecord], outcomes: Sequence[Outcome]) -> int:
    """Return about how many bytes of memory records take."""
    size = 0
    for slate in slates:
        size += _RECORD + _texts(slate.items)
        if (made := slate.serving) is not None:
            size += len(made.shown or "") + 32 * len(made.propensities or ())
            size += sum(_texts(v) for v in made.request.values() if isinstance(v, list | dict))
    for outcome in outcomes:
        size += _RECORD // 4 + _texts(outcome.clicked) + _texts(outcome.items or ())
    return size


def _texts(texts: Collection[str]) -> int:
    return 60 * len(texts) + len("".join(texts))


class OutcomeStatus(StrEnum):
    """The status of an outcome after writing."""

    RECORDED = "recorded"
    CORRECTED = "corrected"
    """recorded, with the time of its slate: it was dated before that was shown"""
    DUPLICATE = "duplicate"
    """it was recorded before, and does not count again"""
    UNKNOWN_SLATE = "unknown slate"
    NOT_SHOWN = "not shown"
    """it names a click on an item that the slate does not have, or saw more than there is"""
    CONTRADICTION = "contradiction"
    """it tells of another user, or of other items, than the slate with this id"""
    TOO_MANY = "too many"
    """the slate has as many outcomes as are kept of one"""
    ERASED = "erased"
    """of a slate from before the person's data were erased: it is not kept"""


@dataclass(frozen=True)
class Visit:
    """A slate with all that is known to have become of it; only slates with an outcome are seen."""

    slate: SlateRecord
    seen: int
    """how many items, from the first: at least up to the last that was clicked"""
    clicked: tuple[str, ...]
    """in the order of the clicks"""


class Answer(NamedTuple):
    """An outcome with what it is about, as the store numbered it."""

    seq: int
    slate_id: str
    time: int
    """of the slate"""
    items: tuple[str, ...]
    seen: int
    """how many of them, from the first"""
    clicked: tuple[str, ...]


class ServedAnswer(NamedTuple):
    """An outcome of a slate that this service made and can learn from, as the store numbered it."""

    seq: int
    catalogue: int
    """the number of the last change of items that the slate knew"""
    shown: str
    """what the slate's record says of it (`Serving.shown`)"""
    seen: int
    """how many of its items, from the first"""
    clicked: tuple[int, ...]
    """positions"""
    again: bool = False
    """whether the slate has earlier outcomes"""
    before: tuple[int, ...] = ()
    """positions that those say were clicked"""


@dataclass(frozen=True)
class StoredVisits:
    """What a user did."""

    visits: tuple[Visit, ...]
    """oldest first, by the time of the slate"""
    seq: int
    """the number of the last record in it; 0 for none"""


class ItemState(StrEnum):
    """Whether an item may be shown."""

    SHOWN = "shown"
    HIDDEN = "hidden"
    REMOVED = "removed"


@dataclass(frozen=True)
class Item:
    """An item, as it is now."""

    item_id: str
    group: str
    state: ItemState = ItemState.SHOWN
    seq: int = 0
    """the number of the change that made it so"""
    described: int = 0
    """the number of the change that set its features; 0 if none did"""

    def __post_init__(self) -> None:
        """Refuse what no store could keep."""
        require_texts("the id of an item", (self.item_id,))
        require_texts("the group of an item", (self.group,))
