"""A store that goes away under load, and comes back."""

from pathlib import Path

import pytest

from tests.service.conftest import new_schema
from tests.service.live.conftest import CONFIG
from tests.service.live.harness import Ledger, Load, Server, settle
from tests.service.postgres import Postgres

pytestmark = pytest.mark.xdist_group("postgresql")


def test_postgresql_may_stop_and_start_under_load(postgres: Postgres, tmp_path: Path) -> None:
    url, ledger = new_schema(postgres), Ledger()
    server = Server(tmp_path / "service", "--config", str(CONFIG), "--store", url, workers=1)
    try:
        server.start().put_items()
        with Load(server.port, ledger, seed=8) as load:
            load.goes_on()
            for _ in range(2):
                postgres.stop()
                load.is_refused()
                load.is_served()
                postgres.start()
                load.goes_on()
    finally:
        server.stop()
    settle(ledger, url)
