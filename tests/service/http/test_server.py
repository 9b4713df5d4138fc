"""The real server: two workers that act as one, and nothing lost when they end."""

import re
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import cycle
from typing import Any, TypeVar

import httpx
import pytest

from slatewise.service.http.metrics import SOON
from slatewise.service.http.state import FOLDER
from slatewise.service.store import Store
from tests.service.http.conftest import ITEMS, TOKENS, Server, eventually

pytestmark = pytest.mark.xdist_group("server")
Result = TypeVar("Result")


def everywhere(server: Server, ask: Callable[[httpx.Client], Result], times: int) -> list[Result]:
    """Ask over many connections at once, so that both workers are asked."""

    def once(_: int) -> Result:
        with server.connect() as client:
            return ask(client)

    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(once, range(times)))


def by_both(
    server: Server, route: str, ask: Callable[[httpx.Client], Result], times: int
) -> list[Result]:
    """Ask everywhere until each worker has answered: one may be quicker than the other."""
    found = everywhere(server, ask, times)

    def answered() -> bool:
        if len(served(server, route)) == 2:
            return True
        found.extend(everywhere(server, ask, 4))
        return False

    eventually(answered)
    return found


def recommend(client: httpx.Client, **body: Any) -> dict[str, Any]:
    told: dict[str, Any] = client.post("/v1/recommend", json=body).raise_for_status().json()
    return told


def tell(client: httpx.Client, event: dict[str, Any]) -> str:
    answer = client.post("/v1/feedback", json={"events": [event]}).raise_for_status()
    status: str = answer.json()["events"][0]["status"]
    return status


def served(server: Server, route: str) -> Counter[str]:
    """Return how many requests each process answered."""
    return Counter(re.findall(rf" (\d+) INFO slatewise.access \S+ {route} ", server.said()))


def test_feedback_may_go_to_another_worker_than_the_one_that_served(server: Server) -> None:
    slates = by_both(
        server, "/v1/recommend", lambda client: recommend(client, user_id="anna", k=3), 24
    )

    def known() -> bool:
        visits = server.client.get("/v1/users/anna").json()["visits"]
        return {one["slate_id"] for one in visits} >= {one["slate_id"] for one in slates}

    eventually(known)  # a slate on its way is waited for, but not for long
    turns = cycle(slates[::-1])
    lock = threading.Lock()

    def answer(client: httpx.Client) -> str:
        with lock:
            slate = next(turns)
        return tell(client, {"slate_id": slate["slate_id"], "clicked": slate["items"][0]["id"]})

    told = by_both(server, "/v1/feedback", answer, len(slates))
    assert Counter(told)["recorded"] == len(slates)
    assert set(told) <= {"recorded", "duplicate"}
    assert known()


def test_duplicates_at_once_on_both_workers_count_once(server: Server) -> None:
    event = {"slate_id": "twice", "user_id": "bo", "source": "search", "items": ["a", "b"]}
    event |= {"clicked": "b", "seen": 2}
    told = everywhere(server, lambda client: tell(client, event), 24)
    assert Counter(told) == {"recorded": 1, "duplicate": 23}


def test_items_change_in_all_workers_at_once(server: Server) -> None:
    def offered(client: httpx.Client) -> bool:
        return "now-you-see-me" in [item["id"] for item in recommend(client, k=100)["items"]]

    for state in ("shown", "hidden", "shown"):
        body = {"group": "group-1", "state": state}
        server.client.put("/v1/items/now-you-see-me", json=body).raise_for_status()
        assert set(everywhere(server, offered, 12)) == {state == "shown"}
    server.client.delete("/v1/items/now-you-see-me").raise_for_status()
    assert set(everywhere(server, offered, 12)) == {False}


def test_histories_and_erasures_are_known_to_all_workers_at_once(server: Server) -> None:
    def clicked_is_shown(client: httpx.Client) -> bool:
        ids = [item["id"] for item in recommend(client, user_id="cleo", k=100)["items"]]
        return ITEMS[0]["id"] in ids

    assert set(everywhere(server, clicked_is_shown, 8)) == {True}
    event = {"slate_id": "of cleo", "user_id": "cleo", "source": "search"}
    event |= {"items": [ITEMS[0]["id"]], "clicked": ITEMS[0]["id"]}
    assert tell(server.client, event) == "recorded"
    assert set(everywhere(server, clicked_is_shown, 8)) == {False}
    assert server.client.delete("/v1/users/cleo").json()["slates"] > 0
    assert set(everywhere(server, clicked_is_shown, 8)) == {True}


def test_metrics_are_of_all_workers(server: Server) -> None:
    def count(text: str) -> float:
        return sum(
            float(line.rsplit(" ", 1)[1])
            for line in text.splitlines()
            if line.startswith("slatewise_requests_total") and "/health/live" in line
        )

    # What was counted before may come late; nobody else asks for this route now.
    before, settled = -1.0, False
    while not settled:
        time.sleep(3 * SOON)
        last, before = before, count(server.client.get("/metrics").text)
        settled = last == before
    everywhere(server, lambda client: client.get("/health/live").raise_for_status(), 24)
    eventually(lambda: count(server.client.get("/metrics").text) == before + 24)
    asked = 24 + len(by_both(server, "/health/live", lambda client: client.get("/health/live"), 1))
    eventually(lambda: count(server.client.get("/metrics").text) == before + asked)
    text = server.client.get("/metrics").text
    assert 'slatewise_model_info{arm="main",digest="",model="main"' in text
    assert "slatewise_queue_records" in text


def test_ids_in_paths_are_decoded_once(server: Server) -> None:
    name = "..%2f..%2fetc%2fpasswd"
    path = "/v1/items/" + name.replace("%", "%25")
    assert server.client.put(path, json={"group": "a"}).json()["id"] == name
    assert server.client.delete(path).json()["id"] == name


def test_a_body_in_chunks_is_bounded_too(server: Server) -> None:
    def chunks(size: int) -> Iterator[bytes]:
        for _ in range(size // 50_000):
            yield b" " * 50_000

    headers = {"Content-Type": "application/json"}
    answer = server.client.post("/v1/recommend", content=chunks(2_000_000), headers=headers)
    assert answer.status_code == 413
    assert answer.headers["content-type"] == "application/problem+json"
    assert server.client.post("/v1/recommend", json={"k": 1}).status_code == 200


def test_a_killed_worker_is_replaced_and_nothing_acknowledged_is_lost(server: Server) -> None:
    told: list[str] = []
    ended = threading.Event()

    def load() -> None:
        number = 0
        while not ended.is_set():
            number += 1
            event = {"slate_id": f"under fire {number}", "source": "search", "items": ["a"]}
            try:
                with server.connect() as client:
                    if tell(client, event | {"user_id": "dora"}) == "recorded":
                        told.append(event["slate_id"])
            except httpx.TransportError:
                pass

    thread = threading.Thread(target=load)
    thread.start()
    try:
        before = {one.pid for one in server.workers()}
        assert len(before) == 2
        eventually(lambda: len(told) > 5)
        shutil.rmtree(server.directory / FOLDER)  # nothing that a worker cannot make again
        server.workers()[0].kill()
        eventually(lambda: len({one.pid for one in server.workers()} - before) == 1)
        reached = len(told)
        eventually(lambda: len(told) > reached + 5)
    finally:
        ended.set()
        thread.join()
    metrics = partial(server.client.get, "/metrics")
    eventually(lambda: "slatewise_model_info" in metrics().raise_for_status().text)
    store = Store.open(f"sqlite:///{server.directory / 'store.sqlite'}")
    kept = {visit.slate.slate_id for visit in store.history("dora", 10_000).visits}
    store.close()
    assert kept >= set(told)


def test_no_secret_and_nobody_s_name_is_in_the_log(server: Server) -> None:
    wrong = {"Authorization": "Bearer oops!!"}
    server.client.get("/v1/users/anna?token=swordfish", headers=wrong)
    eventually(lambda: " GET /v1/users/{user_id} 401 " in server.said())
    for worker in server.workers():
        assert not set(TOKENS.values()) & set(re.split("[:,]", str(worker.environ())))
        assert "SLATEWISE_TOKENS" not in worker.environ()
    said = server.said()
    for secret in (*TOKENS.values(), "swordfish", "oops!!", "cleo", "/v1/users/anna"):
        assert secret not in said


def test_asked_to_end_it_answers_what_is_under_way_and_writes_what_waits(server: Server) -> None:
    slates: list[str] = []
    broken: list[str] = []
    started = threading.Event()

    def load(number: int) -> None:
        with server.connect() as client:
            while True:
                try:
                    slates.append(recommend(client, user_id=f"user-{number}")["slate_id"])
                    started.set()
                except httpx.ConnectError:
                    return
                except httpx.TransportError as error:
                    # A connection that was idle may be closed as the next request arrives.
                    broken.append(repr(error))
                    time.sleep(0.05)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    assert started.wait(60)
    eventually(lambda: len(slates) > 40)
    try:
        assert server.stop() == 0
    finally:
        server.kill()
        for thread in threads:
            thread.join()
    store = Store.open(f"sqlite:///{server.directory / 'store.sqlite'}")
    missing = [slate for slate in slates if store.slate(slate) is None]
    store.close()
    assert len(slates) > 4
    assert not missing
    assert len(broken) <= 8, broken
    assert "Traceback" not in server.said()
    assert "dropped" not in server.said()
