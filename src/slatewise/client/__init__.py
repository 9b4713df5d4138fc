"""A client of the live service: typed, with time-outs and retries that count nothing twice."""

from slatewise.errors import SlatewiseError, install_remedy

try:
    import httpx as _  # noqa: F401
except ImportError as error:
    raise SlatewiseError(
        "The client speaks HTTP with httpx, which is not installed.",
        install_remedy("client"),
    ) from error

from slatewise.client.async_client import AsyncClient
from slatewise.client.buffer import FeedbackBuffer
from slatewise.client.client import Client
from slatewise.client.errors import ServiceError, UnreachableError
from slatewise.client.types import (
    Event,
    EventResult,
    Item,
    RankedItem,
    Ranking,
    Slate,
    SlateItem,
    Visit,
)

__all__ = [
    "AsyncClient",
    "Client",
    "Event",
    "EventResult",
    "FeedbackBuffer",
    "Item",
    "RankedItem",
    "Ranking",
    "ServiceError",
    "Slate",
    "SlateItem",
    "UnreachableError",
    "Visit",
]
