"""Token buckets: rates, bursts, and several processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from slatewise.service.http.limits import BURST, RateLimit, cost_of, costs


def test_a_burst_and_then_the_rate_is_let_through() -> None:
    limit = RateLimit.alone(10.0)
    burst = sum(limit.take(0, now=100.0) == 0 for _ in range(50))
    assert burst == 10 * BURST
    later = sum(limit.take(0, now=100.0 + n / 100) == 0 for n in range(1, 501))
    assert later == 50


def test_the_time_to_wait_is_told_and_is_enough() -> None:
    limit = RateLimit.alone(0.5)
    assert limit.take(0, now=7.0) == 0
    wait = limit.take(0, now=7.0)
    assert wait == pytest.approx(2.0)
    assert limit.take(0, now=7.0 + wait - 0.01) > 0
    assert limit.take(0, now=7.0 + wait) == 0


def test_refused_requests_cost_nothing() -> None:
    limit = RateLimit.alone(1.0)
    for _ in range(1_000):
        limit.take(0, now=1.0)
    assert limit.take(0, now=2.0 + 1e-6) == 0


def test_what_costs_more_takes_more_out_of_the_bucket() -> None:
    limit = RateLimit.alone(10.0)
    large = sum(limit.take(0, now=100.0, units=5) == 0 for _ in range(50))
    assert large == 10 * BURST / 5
    assert limit.take(0, now=1_000.0, units=30) == 0  # one may always go
    assert limit.take(0, now=1_000.0, units=99, before=30) == 0  # with its body
    assert limit.take(0, now=1_001.0) == pytest.approx(10.0)


def test_an_endpoint_declares_what_it_costs() -> None:
    @costs(20, "search")
    def listed() -> None:
        """Search, or list."""

    def usual() -> None:
        """Do what costs little."""

    assert cost_of(listed).of({"search": "lamp"}) == 20
    assert cost_of(listed).of({"search": "", "limit": "5"}) == 1
    assert cost_of(usual).of({}) == 1


def test_tokens_do_not_share_a_bucket() -> None:
    limit = RateLimit.alone(1.0, 2)
    while limit.take(0, now=5.0) == 0:
        pass
    assert limit.take(1, now=5.0) == 0


def test_processes_share_a_bucket(tmp_path: Path) -> None:
    mine = RateLimit.open(1.0, tmp_path / "rates.bin")
    assert mine.take(0, now=100.0) == 0
    code = (
        "import sys, pathlib; from slatewise.service.http.limits import RateLimit\n"
        "limit = RateLimit.open(1.0, pathlib.Path(sys.argv[1]))\n"
        "while limit.take(0, now=100.0) == 0: pass"
    )
    subprocess.run([sys.executable, "-c", code, tmp_path / "rates.bin"], check=True)
    assert mine.take(0, now=100.0) > 0
