"""What requests and answers look like; the OpenAPI document is made from this."""

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic.config import JsonDict
from starlette.convertors import StringConvertor, register_url_convertor

from slatewise.service.store.features import LONGEST_VECTOR, MOST_FEATURES

ID_LENGTH = 200
TIME_LENGTH = 40
MOST = 10_000
"""of anything, whatever the configuration says"""
LARGEST = 4 * 10**18
"""of numbers: near 2⁶², and the same in the floating point numbers of an OpenAPI document"""
NO_NUL = r"^[^\x00]*$"


class _AnyText(StringConvertor):
    """Text with slashes and line ends too."""

    regex = "(?s:.+)"


register_url_convertor("id", _AnyText())

PathId = Annotated[str, Path(max_length=ID_LENGTH, pattern=NO_NUL, examples=["9"])]
"""An id that stands in a path as `{name:id}`, encoded as URLs have it."""


def whole(value: Any) -> Any:
    """Take 5.0 for 5: JSON does not tell them apart."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _text(value: Any) -> Any:
    value = whole(value)
    if type(value) is int and -LARGEST <= value <= LARGEST:
        return str(value)
    return value


def _texts(values: Any) -> Any:
    if type(values) is list and set(map(type, values)) != {str}:
        return list(map(_text, values))
    return values


_Text = Annotated[str, Field(min_length=1, max_length=ID_LENGTH, pattern=NO_NUL)]
_Number = Annotated[int, Field(ge=-LARGEST, le=LARGEST)]
Id = Annotated[_Text, BeforeValidator(_text, json_schema_input_type=_Text | _Number)]
"""Text, or a whole number, which stands for its digits."""
Ids = Annotated[list[Id], Field(max_length=MOST)]
_length = Field(min_length=1, max_length=MOST)
_Listed = Annotated[list[_Text | _Number], _length]
StoredSlate = Annotated[
    list[_Text], _length, BeforeValidator(_texts, json_schema_input_type=_Listed)
]
"""As a list of `Id`, with one call for all: events have twenty each."""
_Positive = Annotated[int, Field(ge=1, le=MOST)]
Positive = Annotated[_Positive, BeforeValidator(whole, json_schema_input_type=_Positive)]
_Count = Annotated[int, Field(ge=0, le=MOST)]
Count = Annotated[_Count, BeforeValidator(whole, json_schema_input_type=_Count)]
_Large = Annotated[int, Field(ge=0, le=LARGEST)]
Large = Annotated[_Large, BeforeValidator(whole, json_schema_input_type=_Large)]
Name = Annotated[str, Field(min_length=1, max_length=ID_LENGTH, pattern=NO_NUL)]
_Finite = Annotated[float, Field(ge=-1e300, le=1e300)]
_Vector = Annotated[list[_Finite], Field(max_length=LONGEST_VECTOR)]
_Word = Annotated[str, Field(max_length=ID_LENGTH, pattern=NO_NUL)]
_Tags = Annotated[list[_Word], Field(max_length=LONGEST_VECTOR)]
Feature = _Number | _Finite | bool | _Word | _Vector | _Tags | None
"""A number, a category, an embedding, tags; null where it is unknown."""
_NO_OTHER: JsonDict = {"additionalProperties": False}
"""for the document: without it, anything would be allowed under names that do not fit"""
FeaturesBody = Annotated[
    dict[Name, Feature], Field(max_length=MOST_FEATURES, json_schema_extra=_NO_OTHER)
]
Caps = Annotated[dict[Name, Positive], Field(max_length=MOST, json_schema_extra=_NO_OTHER)]


_EMPTY: JsonDict = {"default": []}
"""for the document: a list that is made anew costs less than a default that is copied"""


class _Body(BaseModel):
    # Strict: "5" is no number and 1 no truth value, so that a mistake is seen where it is made.
    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class RecommendBody(_Body):
    """Whom a slate is for, and what may be in it."""

    user_id: Id | None = Field(None, examples=["anna"])
    """whose history to go by; without it, an anonymous user"""
    clicks: Ids = Field(default_factory=list, examples=[["17", "4"]], json_schema_extra=_EMPTY)
    """items she clicked that the service has not heard of, oldest first, after her history; the
    newest count, as many as the configuration says"""
    k: Positive | None = Field(None, examples=[5])
    """how many items; the configuration has the usual and the largest number"""
    exclude: Ids = Field(default_factory=list, examples=[["8"]], json_schema_extra=_EMPTY)
    """items not to show"""
    allow: Ids | None = None
    """the only items to show, if given"""
    groups: Positive | Caps | None = Field(None, examples=[{"lamps": 2}])
    """most items of each group: one number for all, or numbers by name"""
    clicked: Literal["exclude", "show"] = "exclude"
    """whether items she clicked before may be shown again"""
    source: Name | None = Field(None, examples=["recommendation"])
    """where the slate will be shown, and what it is called in the log; the configuration has the
    usual name, and a model that does not know it yet takes that of most slates"""
    seed: Large | None = None
    """seed of everything random; drawn and returned if not given"""


class SlateItem(_Answer):
    """An item of a slate."""

    id: str = Field(examples=["9"])
    group: str = Field(examples=["lamps"])
    relevance: float | None = Field(examples=[0.31])
    """the mean of the posterior: higher is more likely to be clicked"""
    uncertainty: float | None = Field(examples=[0.12])
    """its standard deviation"""


class RecommendAnswer(_Answer):
    """A slate, and how it came about."""

    slate_id: str = Field(examples=["0f3a9c1e5b7d4682a1c3e5f708192a3b"])
    """to be sent back with what became of the slate"""
    user_id: str | None = Field(examples=["anna"])
    items: list[SlateItem]
    """in the order in which to show them"""
    arm: str = Field(examples=["main"])
    """the arm of the experiment that the user is in"""
    model: str = Field(examples=["main"])
    version: str = Field(examples=["1"])
    strategy: str = Field(examples=["in-slate-thompson"])
    seed: int
    source: str = Field(examples=["recommendation"])
    unknown: list[str]
    """clicks on items that the model does not know: they had no influence"""
    notes: list[str]
    """what else to know, for instance that the history could not be read"""


class RankBody(_Body):
    """Items to order, and for whom."""

    items: Annotated[Ids, Field(min_length=1)] = Field(examples=[["9", "4", "8"]])
    """the items to order, such as the results of a search"""
    user_id: Id | None = Field(None, examples=["anna"])
    """whose history to go by; without it, an anonymous user"""
    clicks: Ids = Field(default_factory=list, examples=[["17", "4"]], json_schema_extra=_EMPTY)
    """items she clicked that the service has not heard of, oldest first, after her history; the
    newest count, as many as the configuration says"""
    k: Positive | None = Field(None, examples=[5])
    """how many to return, the best; all without it"""
    source: Name | None = Field(None, examples=["search"])
    """where the list is shown; without it, or if the model does not know it, the usual one"""


class RankedItem(_Answer):
    """An item in its order."""

    id: str = Field(examples=["9"])
    group: str = Field(examples=["lamps"])
    utility: float = Field(examples=[-1.2])
    """in closed form: what the order is by"""
    probability: float = Field(examples=[0.4])
    """that a click on one of the items sent falls on this one, wherever it stands"""


class RankAnswer(_Answer):
    """Items in the order of their utility to a user; the answer is not kept."""

    user_id: str | None = Field(examples=["anna"])
    items: list[RankedItem]
    """best first"""
    left_out: list[str]
    """items sent that are not on offer, or not known"""
    arm: str = Field(examples=["main"])
    """the arm of the experiment that the user is in, whose model ordered them"""
    model: str = Field(examples=["main"])
    version: str = Field(examples=["1"])
    unknown: list[str]
    """clicks on items that the model does not know: they had no influence"""
    notes: list[str]
    """what else to know, for instance that the history could not be read"""


class Event(_Body):
    """What a user did with a slate; for a slate that others made, also what it was."""

    slate_id: Name = Field(examples=["0f3a9c1e5b7d4682a1c3e5f708192a3b"])
    """of the answer to /v1/recommend, or chosen by you for a slate of yours"""
    seen: Count | None = Field(None, examples=[7])
    """how many items she saw, from the first; all if not given"""
    clicked: Id | Annotated[list[Id], Field(max_length=MOST)] | None = Field(None, examples=["9"])
    """the item or items she clicked, in order; null for none"""
    time: Large | Annotated[str, Field(min_length=1, max_length=TIME_LENGTH)] | None = Field(
        None, examples=["2026-05-17T12:30:00Z"]
    )
    """when, as ISO 8601 with an offset or in microseconds since 1970; now if not given"""
    user_id: Id | None = Field(None, examples=["anna"])
    """who saw it: of a slate of yours; of one of the service, if given, whom it was made for"""
    source: Name | None = Field(None, examples=["search"])
    """of a slate of yours: where it was shown"""
    items: StoredSlate | None = Field(None, examples=[["4", "9", "8"]])
    """of a slate of yours: what it had, in order"""


class FeedbackBody(_Body):
    """What happened, in any order; an event sent twice counts once."""

    events: Annotated[list[Event], Field(min_length=1, max_length=MOST)]


class EventAnswer(_Answer):
    """What became of an event."""

    slate_id: str
    status: Literal["recorded", "duplicate", "refused"]
    problem: str | None = None
    """of a refused event, or of one whose time was put right"""
    remedy: str | None = None


class FeedbackAnswer(_Answer):
    """What became of the events, in their order: all that is recorded is on disk."""

    events: list[EventAnswer]
    recorded: int
    duplicate: int
    refused: int


class ItemBody(_Body):
    """An item to be offered, or to be kept back."""

    group: Name = Field(examples=["lamps"])
    """what it is among: new items start from what is known of their group"""
    state: Literal["shown", "hidden"] = "shown"
    features: FeaturesBody | None = Field(None, examples=[{"price": 120, "brand": "ash"}])
    """what is known of it, for models that were trained with such features; all that there are, or
    null to keep those that the service has"""


class NamedItemBody(ItemBody):
    """An item of a batch."""

    id: Id = Field(examples=["9"])


class ItemsBody(_Body):
    """Items to be offered or kept back, all or none."""

    items: Annotated[list[NamedItemBody], Field(min_length=1, max_length=MOST)]


class ItemNumbersAnswer(_Answer):
    """What a model knows of an item."""

    views: int
    """how often training saw it; 0 for an item that came since"""
    scale: float
    """posterior standard deviation of its vector, the root mean square over dimensions"""
    bias: float
    """posterior mean of its bias; 0 where the model has none"""


class ItemAnswer(_Answer):
    """An item as it is now."""

    id: str = Field(examples=["9"])
    group: str = Field(examples=["lamps"])
    state: Literal["shown", "hidden", "removed"]
    features: dict[str, Any] | None = None
    """as sent to the service; left out if it has none"""
    numbers: dict[str, ItemNumbersAnswer] | None = None
    """what models that serve know of it, by their names, where that was asked for"""


class ChangedItemAnswer(ItemAnswer):
    """An item as it is from now on."""

    notes: list[str] | None = None
    """what does not count yet; left out if all does"""


class ItemsAnswer(_Answer):
    """Items by their ids."""

    items: list[ItemAnswer]
    next: str | None
    """what to give as `after` for the following page; null on the last"""


class ChangedAnswer(_Answer):
    """How many items were changed: in effect for every request from now on."""

    changed: int
    notes: list[str] | None = None
    """what does not count yet; left out if all does"""


class VisitAnswer(_Answer):
    """A slate that was made for a user, and what she did."""

    slate_id: str
    time: str = Field(examples=["2026-05-17T12:30:00.000000+00:00"])
    source: str
    items: list[str]
    answered: bool
    """whether anything was heard of it: only then does it count as shown"""
    seen: int | None
    """how many of the items, from the first; null if nothing was heard"""
    clicked: list[str]
    arm: str | None
    """the arm that made it; null for a slate that others made"""


class UserAnswer(_Answer):
    """The newest slates of a user, oldest first."""

    user_id: str
    visits: list[VisitAnswer]


class ErasedAnswer(_Answer):
    """What was erased."""

    user_id: str
    slates: int
    notes: list[str]
    """what is left of it for the moment"""


class LiveAnswer(_Answer):
    """The process answers."""

    status: Literal["alive"]


class ReadyAnswer(_Answer):
    """Requests will be answered."""

    status: Literal["ready"]
    notes: list[str]
    """what is not as it should be, and does not keep it from serving"""
