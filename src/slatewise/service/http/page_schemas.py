"""What the page asks and is answered, beside what every client does."""

from typing import Annotated, Any, Literal

from fastapi import Path
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from slatewise.service.http.schemas import ID_LENGTH, Id, Ids, Large, Name, whole
from slatewise.slates.strategies import STRATEGIES

NAME = r"^[a-z0-9][a-z0-9_-]{0,63}$"
"""of arms and models, as in the settings"""
MOST_TRIED = 50
MOST_ARMS = 20

ModelName = Annotated[str, Field(pattern=NAME, max_length=64, examples=["main"])]
PathModel = Annotated[str, Path(pattern=NAME, max_length=64, examples=["main"])]


def _named(strategy: str) -> str:
    if strategy not in STRATEGIES:
        raise ValueError(f"choose one of {', '.join(STRATEGIES)}")
    return strategy


StrategyName = Annotated[
    str,
    AfterValidator(_named),
    Field(max_length=ID_LENGTH, json_schema_extra={"enum": list(STRATEGIES)}),
]


_Few = Annotated[int, Field(ge=1, le=MOST_TRIED)]
Few = Annotated[_Few, BeforeValidator(whole, json_schema_input_type=_Few)]


class _Body(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", use_attribute_docstrings=True)


class _Answer(BaseModel):
    model_config = ConfigDict(use_attribute_docstrings=True)


class TokenAnswer(_Answer):
    """What the token that was sent allows."""

    role: Literal["read", "write", "admin"]
    open: bool
    """whether the service needs no token"""


class LoadedDay(_Answer):
    """A source on one day of UTC."""

    start: str
    source: str
    slates: int
    clicked: int
    """slates among these with a click"""


class LoadedAnswer(_Answer):
    """What the service was told of slates that others showed."""

    days: list[LoadedDay]
    """oldest first; empty without such a slate"""


class ArmStatus(_Answer):
    """An arm as it runs."""

    name: str = Field(examples=["main"])
    share: float
    """of the users, from 0 to 1"""
    model: str
    version: str
    strategy: str
    weight: float
    """the share as it was set, relative to the other arms"""


class ModelStatus(_Answer):
    """A model, and the version of it that serves."""

    name: str = Field(examples=["main"])
    version: str
    """`prior-…` before the first training"""
    since: str | None
    """when it took over; null before the first training"""
    why: str | None
    previous: list[str]
    """versions that served before, newest first"""
    last_night: dict[str, Any] | None
    """time, outcome, why, serving and seconds of the last training; null before the first"""


class RouteStatus(_Answer):
    """Requests to one route, over all workers since they started."""

    requests: int
    failures: int
    """answers with a status of 500 or more"""
    seconds: list[tuple[float, int]]
    """a cumulative histogram: the number that took at most each number of seconds"""


class StatusAnswer(_Answer):
    """What serves now, and how it does."""

    slatewise: str
    time: str
    arms: list[ArmStatus]
    changed: bool
    """whether arms were changed since the settings were read"""
    models: list[ModelStatus]
    routes: dict[str, RouteStatus]
    queue: int
    """records that wait to be written"""
    dropped: int
    """slates that were served and not logged"""
    offered: int
    """items on offer"""
    notes: list[str]
    """what is not as it should be"""


class MapGroupAnswer(_Answer):
    """A group of items on the map."""

    name: str
    items: int
    x: float
    y: float
    scale: float
    views: int


class MapAnswer(_Answer):
    """Items on offer in two dimensions, as columns; a uniform sample where there are more."""

    model: str
    version: str
    offered: int
    """items on offer; those that follow are a sample if they are fewer"""
    explained: tuple[float, float]
    """share of the variance of the posterior means along either axis"""
    groups: list[MapGroupAnswer]
    """counted and averaged over all items on offer"""
    ids: list[str]
    x: list[float]
    y: list[float]
    group: list[int]
    """into `groups`"""
    views: list[int]
    """in training"""
    scale: list[float]
    """posterior standard deviation, the root mean square over dimensions"""


class TryBody(_Body):
    """A user to invent or to look up, and strategies to compare."""

    model: ModelName | None = None
    """the first of the settings without it"""
    user_id: Id | None = Field(None, examples=["anna"])
    """whose history to begin with; needs role admin, since her path tells what she clicked"""
    clicks: Annotated[Ids, Field(max_length=MOST_TRIED)] = Field(
        default_factory=list, examples=[["17", "4"]]
    )
    """items that the user clicks, oldest first"""
    k: Few = 8
    seed: Large = 0
    """of everything random"""
    strategies: Annotated[list[StrategyName], Field(min_length=1, max_length=5)] = Field(
        default_factory=lambda: ["greedy", "thompson", "in-slate-thompson"]
    )


class TriedItem(_Answer):
    """An item of a slate, and why it is there."""

    id: str
    group: str
    relevance: float
    """expected relevance"""
    uncertainty: float
    """its posterior standard deviation"""
    adds: dict[str, float]
    """what each term adds to its utility"""
    shown_as: Literal["good", "chance", "uncertain"]
    """good if greedy would show it too; uncertain if it might be better than its mean"""
    greedy_rank: int | None
    """among all items; null below the first 200"""
    views: int
    """in training"""
    nearest_click: str | None
    x: float
    y: float


class TriedSlateAnswer(_Answer):
    """What one strategy would show."""

    strategy: str
    items: list[TriedItem]


class ClickedItem(_Answer):
    """An item that the user clicked."""

    id: str
    group: str


class TryAnswer(_Answer):
    """Slates of several strategies for one user; nothing of it is logged."""

    model: str
    version: str
    seed: int
    clicked: list[ClickedItem]
    path: list[tuple[float, float]]
    """where the user was after each step, and is now, in the coordinates of the map"""
    spread: tuple[float, float]
    """standard deviation of where she is now"""
    slates: list[TriedSlateAnswer]
    unknown: list[str]
    """clicks on items that the model does not know"""
    notes: list[str]


class NightsAnswer(_Answer):
    """Reports of nights by model, newest first."""

    nights: dict[str, list[dict[str, Any]]]


class VersionAnswer(_Answer):
    """How a version of a model was trained."""

    version: str
    epochs: int | None
    best_epoch: int | None
    validation: float | None
    """log-likelihood per interaction of held-out users"""
    curve: list[float]
    """the same after each epoch; empty where it was not kept"""
    started_from: str | None
    reliability: list[dict[str, Any]]
    """predicted and observed click rates of the validation users of `slatewise train`, by bins"""


class ViewsAnswer(_Answer):
    """Items that training saw about equally often."""

    least: int
    most: int
    items: int
    low: float
    """10 % quantile of their posterior standard deviations"""
    median: float
    high: float
    """90 % quantile"""


class ModelAnswer(_Answer):
    """What a model learned."""

    model: str
    version: str
    versions: list[VersionAnswer]
    """newest first"""
    scales: list[ViewsAnswer]
    """how certain it is of items on offer, by how often training saw them"""


class RollbackAnswer(_Answer):
    """Which version serves now."""

    model: str
    version: str
    instead_of: str


class ArmBody(_Body):
    """An arm of the experiment."""

    share: Annotated[float, Field(ge=0, le=1e6)]
    """of the users, relative to the other arms; 0 for an arm that rests"""
    model: ModelName | None = None
    """the present one, or that of the first arm, without it"""
    strategy: StrategyName | None = None
    """the present one, or in-slate-thompson, without it"""


class ArmsBody(_Body):
    """The arms that run from now on."""

    arms: Annotated[
        dict[Annotated[Name, Field(pattern=NAME, max_length=64)], ArmBody],
        Field(
            min_length=1, max_length=MOST_ARMS, json_schema_extra={"additionalProperties": False}
        ),
    ]
    """by name; an arm of the settings that is not named rests"""


class ArmsAnswer(_Answer):
    """The arms as they run from now on, with their shares of the users."""

    shares: dict[str, float]
