"""Limits that hosts share: once on average, whatever workers come and go."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from slatewise.service.http.limits import BURST, DEBT, RateLimit
from slatewise.service.http.shared_limits import SharedLimit
from slatewise.service.store import StoreError


class TwoHosts:
    """Hosts with workers, and a store that keeps what they tell; at a time that stands still."""

    def __init__(self, folder: Path) -> None:
        self.now, self.away = 1_000.0, False
        self.published: dict[str, str] = {}
        self.limits = [RateLimit.alone(10.0, 2), RateLimit.alone(10.0, 2)]
        self._folder = folder
        self.shared = [self.worker(number) for number in range(2)]

    def worker(self, host: int) -> SharedLimit:
        file = self._folder / f"{host}.lock"
        return SharedLimit(self.limits[host], ["one", "other"], self, file)

    def published_usage(self) -> dict[str, str]:
        if self.away:
            raise StoreError("The store is away.", "Wait.")
        return dict(self.published)

    def publish_usage(self, host: str, usage: str) -> None:
        self.published[host] = usage
        if not usage:
            del self.published[host]

    def exchange(self, now: float | None = None) -> None:
        for shared in self.shared:
            shared.exchange(now)


@pytest.fixture
def hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[TwoHosts]:
    made = TwoHosts(tmp_path)
    monkeypatch.setattr(time, "monotonic", lambda: made.now)
    made.exchange()
    yield made
    for shared in made.shared:
        shared.close()


def test_hosts_that_share_a_store_give_a_token_its_rate_once(hosts: TwoHosts) -> None:
    given = []
    for _ in range(30):  # seconds
        count = 0
        for _ in range(100):
            hosts.now += 0.01
            count += sum(limit.take(0) == 0 for limit in hosts.limits)
        given.append(count)
        hosts.exchange()
    assert sum(given[10:]) == pytest.approx(10 * 20, rel=0.1)
    assert hosts.limits[0].take(1) == 0  # the other token has a bucket of its own


def test_a_worker_that_takes_over_tells_nothing_twice(hosts: TwoHosts) -> None:
    assert hosts.limits[0].take(0, units=15) == 0
    waiting = hosts.worker(0)
    waiting.exchange()
    assert len(hosts.published) == 2
    hosts.exchange()
    hosts.exchange()
    hosts.shared[0].close()
    hosts.shared[0] = waiting
    waiting.exchange()
    hosts.shared[1].exchange()
    left = sum(hosts.limits[1].take(0) == 0 for _ in range(20))
    assert left == 5  # of 20, since 15 were taken once


def test_what_a_host_told_that_is_gone_is_deleted(hosts: TwoHosts) -> None:
    hosts.publish_usage("gone", '{"at": 1000.0, "units": {"one": 7}}')
    hosts.exchange()
    assert "gone" not in hosts.published
    for shared in hosts.shared:
        shared.close()
    assert not hosts.published


def test_without_the_store_a_host_goes_by_itself_and_no_debt_is_endless(hosts: TwoHosts) -> None:
    hosts.away = True
    hosts.exchange()
    for _ in range(600):  # seconds
        hosts.now += 1
        for _ in range(10):
            assert hosts.limits[0].take(0) == 0
    assert hosts.limits[1].take(0) == 0
    hosts.away = False
    hosts.now += 2
    hosts.exchange()
    hosts.exchange()
    assert 0 < hosts.limits[1].take(0) <= DEBT + 0.1 + 1e-9
    hosts.now += BURST + DEBT
    assert hosts.limits[1].take(0) == 0
