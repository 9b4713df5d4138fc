"""Work that no request waits for."""

import asyncio

import pytest

from slatewise.service.http import metrics
from slatewise.service.http.metrics import DeferredWork
from tests.service.http.conftest import in_a_loop


def test_work_is_done_after_a_while_all_at_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "SOON", 0.01)
    done: list[object] = []

    async def main() -> None:
        have = DeferredWork()
        for turn in range(2):
            have(done.append, f"{turn} first")
            await asyncio.sleep(0)
            have(done.append, f"{turn} second")
            done.append(f"{turn} answered")
            await asyncio.sleep(0.1)

    in_a_loop(main())
    assert done == [f"{turn} {what}" for turn in (0, 1) for what in ("answered", "first", "second")]


def test_what_waits_can_be_done_now_and_is_done_once() -> None:
    done: list[object] = []

    async def main() -> None:
        have = DeferredWork()
        have(done.append, 1)
        have.now()
        assert done == [1]
        have.now()
        have(done.append, 2)
        have.now()

    in_a_loop(main())
    assert done == [1, 2]
