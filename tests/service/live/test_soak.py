"""Memory stays flat: what a request takes it gives back."""

import pytest

from tests.service.live.conftest import Shop
from tests.service.live.harness import Entry

pytestmark = pytest.mark.xdist_group("live")


def traffic(shop: Shop, requests: int) -> None:
    """Ask for slates and answer them, for users who come again and users who do not."""
    client = shop.server.client
    for number in range(requests):
        user = f"user-{number % 50}" if number % 2 else f"passer-by-{number}"
        slate = client.post(
            "/v1/recommend", json={"user_id": user, "k": 6, "clicked": "show"}
        ).json()
        event = {"slate_id": slate["slate_id"], "seen": 3, "clicked": slate["items"][0]["id"]}
        client.post("/v1/feedback", json={"events": [event]}).raise_for_status()
        shop.ledger.entries[slate["slate_id"]] = Entry(event, recorded=1)


def memory(shop: Shop) -> int:
    """Bytes that the workers have to themselves, together."""
    return sum(worker.memory_full_info().uss for worker in shop.server.workers())


def test_memory_is_flat_once_the_caches_are_full(shop: Shop) -> None:
    """Caches are those of users, of as many visits as count, and of SQLite's pages."""
    traffic(shop, 1_200)  # 25 users come again, each 24 times: more than the 20 visits that count
    grown = []
    # What takes memory once: a thread that begins late, and the caches of the other worker when a
    # connection that was closed is made anew to it. A leak takes it each time.
    for _ in range(6):
        before = memory(shop)
        traffic(shop, 600)
        grown.append(memory(shop) - before)
        # A worker remembers whose a slate was, with 250 bytes, for the last 50,000 slates. A kept
        # request, slate and event would be some 5 kB: 3 MB and more.
        if grown[-1] < 400_000:
            return
    raise AssertionError(f"each time 600 slates and answers, and bytes more: {grown}")
