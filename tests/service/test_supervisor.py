"""Taking a port, and what workers are started with; their lives are in http/test_server."""

import pickle
import socket
from functools import partial
from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.config import ServiceConfig
from slatewise.service.http.security import read_tokens
from slatewise.service.http.setup import Setup, worker
from slatewise.service.supervisor import listen


def test_a_port_is_taken_and_a_taken_one_is_refused_in_words() -> None:
    with listen("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        assert port > 0
        with pytest.raises(SlatewiseError, match="cannot be listened on") as refusal:
            listen("127.0.0.1", port)
        assert "--port" in refusal.value.remedy


def test_a_host_that_is_not_this_one_is_refused_in_words() -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        with pytest.raises(SlatewiseError, match="cannot be listened on"):
            listen(host, 0)


def test_addresses_of_both_kinds_are_taken() -> None:
    if socket.has_ipv6:
        with listen("::1", 0) as six:
            assert six.family is socket.AF_INET6
    with listen("localhost", 0) as four:
        assert four.family is socket.AF_INET


def test_what_a_worker_is_started_with_travels_without_tokens(tmp_path: Path) -> None:
    secret = "swordfish-swordfish"
    tokens = read_tokens(None, {"SLATEWISE_TOKENS": f"read:{secret}"})
    setup = Setup(tmp_path, ServiceConfig(), tokens, tmp_path / "rates")
    sent = pickle.dumps(partial(worker, setup))
    assert secret.encode() not in sent
    assert pickle.loads(sent).args == (setup,)
