"""Memory stays flat: what a request takes it gives back."""

import httpx
import pytest

from tests.service.live.conftest import Shop

pytestmark = pytest.mark.xdist_group("live")


def traffic(client: httpx.Client, requests: int) -> None:
    """Ask for slates and answer them, for users who come again and users who do not."""
    for number in range(requests):
        user = f"user-{number % 50}" if number % 2 else f"passer-by-{number}"
        slate = client.post("/v1/recommend", json={"user_id": user, "k": 6}).json()
        event = {"slate_id": slate["slate_id"], "clicked": slate["items"][0]["id"]}
        client.post("/v1/feedback", json={"events": [event]}).raise_for_status()


def memory(shop: Shop) -> int:
    """Bytes that the workers have to themselves, together."""
    return sum(worker.memory_full_info().uss for worker in shop.server.workers())


def test_memory_is_flat_once_the_caches_are_full(shop: Shop) -> None:
    client = shop.server.client
    traffic(client, 600)
    before = memory(shop)
    traffic(client, 600)
    grown = memory(shop) - before
    # A kept request, slate and event would be some 5 kB: 3 MB and more.
    assert grown < 1_500_000, f"{grown / 1e6:.1f} MB more after 600 slates and answers"
