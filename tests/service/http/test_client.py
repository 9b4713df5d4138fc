"""`slatewise.client` against the real server, and against one that fails as told."""

import asyncio
import re
import threading
from collections.abc import Iterator
from itertools import chain, repeat
from pathlib import Path

import httpx
import pytest

from slatewise.client import (
    AsyncClient,
    Client,
    Event,
    EventResult,
    FeedbackBuffer,
    Item,
    RankedItem,
    Ranking,
    ServiceError,
    Slate,
    SlateItem,
    UnreachableError,
    Visit,
    calls,
)
from slatewise.client.types import RankOptions, RecommendOptions
from slatewise.errors import SlatewiseError
from slatewise.service.http import schemas
from tests.service.http.conftest import ITEMS, TOKENS, Server, in_a_loop

PAGE = Path(__file__).parents[3] / "docs" / "service.md"
OK = {"events": [{"slate_id": "s", "status": "recorded"}]}


@pytest.fixture
def shop(server: Server) -> Iterator[Client]:
    with Client(str(server.client.base_url), TOKENS["admin"]) as client:
        yield client


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_FIRST_PAUSE", 0.001)


def answering(*answers: httpx.Response | Exception) -> tuple[httpx.MockTransport, list[bytes]]:
    """Return a service that answers so, the last for ever, and what it was sent."""
    sent: list[bytes] = []
    rest = chain(answers, repeat(answers[-1]))

    def answer(request: httpx.Request) -> httpx.Response:
        sent.append(request.content)
        one = next(rest)
        if isinstance(one, Exception):
            raise one
        return httpx.Response(one.status_code, headers=one.headers, content=one.content)

    return httpx.MockTransport(answer), sent


@pytest.mark.xdist_group("server")
def test_everything_that_a_service_does_can_be_asked_for(shop: Client) -> None:
    strange = "odd/ id?%"
    assert shop.put_items([Item(id=strange, group="odd", features={"price": 3})]) == 1
    known = {item.id: item for item in shop.items()}
    assert known[strange] == Item(id=strange, group="odd", features={"price": 3})
    assert {str(item["id"]) for item in ITEMS} <= known.keys()
    slate = shop.recommend("client-1", k=3, exclude=["item-1"], seed=7, clicks=["item-2"])
    assert (len(slate.ids), slate.seed, slate.user_id) == (3, 7, "client-1")
    event = Event(slate_id=slate.slate_id, seen=2, clicked=(slate.ids[1],))
    assert [one.status for one in shop.feedback([event, event])] == ["recorded", "duplicate"]
    refused = shop.feedback([Event(slate_id=slate.slate_id, clicked="not in it")])[0]
    assert (refused.status, bool(refused.problem and refused.remedy)) == ("refused", True)
    ranking = shop.rank(["item-3", "item-4", "nothing"], user_id="client-1", k=2)
    assert {item.id for item in ranking.items} == {"item-3", "item-4"}
    assert ranking.left_out == ("nothing",)
    assert shop.visits("client-1")[-1].clicked == (slate.ids[1],)
    assert shop.erase_user("client-1") == 1
    assert (shop.remove_item(strange), shop.remove_item(strange)) == (True, False)


@pytest.mark.xdist_group("server")
def test_an_event_loop_has_the_same(server: Server) -> None:
    async def visit(client: AsyncClient, user: str) -> str:
        slate = await client.recommend(user, k=2)
        event = Event(slate_id=slate.slate_id, clicked=slate.ids[0])
        return (await client.feedback([event]))[0].status

    async def main() -> None:
        url = str(server.client.base_url)
        async with AsyncClient(url, TOKENS["admin"]) as client:
            assert await client.put_items([Item(id="item-1", group="group-1")]) == 1
            users = [f"async-{n}" for n in range(9)]
            assert set(await asyncio.gather(*(visit(client, u) for u in users))) == {"recorded"}
            assert {str(item["id"]) for item in ITEMS} <= {item.id async for item in client.items()}
            assert len((await client.rank(["item-1", "item-2"])).items) == 2
            assert len(await client.visits("async-1")) == await client.erase_user("async-1") == 1
            assert not await client.remove_item("never there")

    in_a_loop(main())


@pytest.mark.xdist_group("server")
def test_the_example_of_the_page_runs(server: Server) -> None:
    (code,) = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    there = code.replace("http://127.0.0.1:8000", str(server.client.base_url))
    exec(compile(there, str(PAGE), "exec"), {"token": TOKENS["admin"]})


@pytest.mark.xdist_group("server")
def test_a_buffer_sends_single_events_of_many_threads_together(shop: Client) -> None:
    def search(name: str) -> None:
        items = ("item-1", "item-2")
        events = [
            Event(slate_id=f"{name}-{n}", user_id=name, source="search", items=items)
            for n in range(40)
        ]
        answers.extend(buffer.add(event) for event in events)

    answers = []  # type: ignore[var-annotated]
    requests, send = [], shop.feedback
    shop.feedback = lambda events: requests.append(len(list(events))) or send(events)  # type: ignore[method-assign,func-returns-value]
    with FeedbackBuffer(shop, size=20, seconds=60) as buffer:
        threads = [threading.Thread(target=search, args=(f"buffer-{n}",)) for n in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert {answer.result(60).status for answer in answers} == {"recorded"}
    assert sum(requests) == 120
    assert len(requests) <= 6
    with pytest.raises(SlatewiseError, match="closed"):
        buffer.add(Event(slate_id="late"))


@pytest.mark.parametrize(
    "failure",
    [
        httpx.ReadTimeout("too slow"),
        httpx.ConnectError("refused"),
        httpx.Response(503, headers={"Retry-After": "0"}),
        httpx.Response(502, text="a proxy"),
        httpx.Response(429, headers={"Retry-After": "0"}),
    ],
    ids=["slow", "down", "503", "502", "429"],
)
def test_the_same_request_is_sent_again_when_it_may_help(
    failure: httpx.Response | Exception,
) -> None:
    transport, sent = answering(failure, failure, httpx.Response(200, json=OK))
    with Client("http://shop", transport=transport) as client:
        assert client.feedback([Event(slate_id="s")]) == [
            EventResult(slate_id="s", status="recorded")
        ]
    assert len(sent) == 3
    assert len(set(sent)) == 1

    async def same() -> int:
        transport, sent = answering(failure, failure, httpx.Response(200, json=OK))
        async with AsyncClient("http://shop", transport=transport) as client:
            await client.feedback([Event(slate_id="s")])
        return len(sent)

    assert in_a_loop(same()) == 3


def test_the_experiment_is_returned_as_it_is() -> None:
    transport, _ = answering(httpx.Response(200, json={"arms": {}}))
    assert Client("http://shop", transport=transport).experiment() == {"arms": {}}
    assert in_a_loop(AsyncClient("http://shop", transport=transport).experiment()) == {"arms": {}}


def test_what_stays_wrong_is_raised_in_words() -> None:
    problem = {"detail": "The body is bad.", "remedy": "Mend it."}
    transport, sent = answering(httpx.Response(422, json=problem))
    client = Client("http://shop", transport=transport)
    with pytest.raises(ServiceError, match=r"bad\.\nMend it\.") as raised:
        client.recommend("anna")
    assert (raised.value.status, len(sent)) == (422, 1)
    transport, sent = answering(httpx.Response(503, text="<html>"))
    client = Client("http://shop", transport=transport, retries=2)
    with pytest.raises(ServiceError, match="answered 503 Service Unavailable"):
        client.recommend("anna")
    assert len(sent) == 3
    transport, sent = answering(httpx.ConnectError("refused"))
    client = Client("http://shop", transport=transport, retries=0)
    with pytest.raises(UnreachableError, match="http://shop did not answer: refused"):
        client.recommend("anna")
    with FeedbackBuffer(client, seconds=0, most=1) as buffer:
        failed = buffer.add(Event(slate_id="s"))
    assert isinstance(failed.exception(60), UnreachableError)


def test_long_lists_are_divided_and_answered_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "BATCH", 2)
    answers = [
        httpx.Response(200, json={"events": [{"slate_id": n, "status": "recorded"} for n in names]})
        for names in ("ab", "cd", "e")
    ]
    transport, sent = answering(*answers)
    with Client("http://shop", "token", transport=transport) as client:
        results = client.feedback(Event(slate_id=name) for name in "abcde")
    assert [result.slate_id for result in results] == list("abcde")
    assert len(sent) == 3


@pytest.mark.parametrize(
    ("names", "schema"),
    [
        ({"user_id", *RecommendOptions.__annotations__}, schemas.RecommendBody),
        ({"items", *RankOptions.__annotations__}, schemas.RankBody),
        (Event.model_fields, schemas.Event),
        (Item.model_fields, schemas.NamedItemBody),
        # What models know of an item is asked for by the page alone.
        ({"numbers", *Item.model_fields}, schemas.ItemAnswer),
        (Slate.model_fields, schemas.RecommendAnswer),
        (SlateItem.model_fields, schemas.SlateItem),
        (Ranking.model_fields, schemas.RankAnswer),
        (RankedItem.model_fields, schemas.RankedItem),
        (EventResult.model_fields, schemas.EventAnswer),
        (Visit.model_fields, schemas.VisitAnswer),
    ],
)
def test_the_client_knows_every_field_of_the_api(names: object, schema: type) -> None:
    assert set(names) == set(schema.model_fields)  # type: ignore[call-overload,attr-defined]
