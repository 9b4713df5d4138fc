"""Work that no request waits for."""

import asyncio
import json
from pathlib import Path

import pytest
from prometheus_client.mmap_dict import MmapedDict, mmap_key

from slatewise.service.http import metrics
from slatewise.service.http.metrics import DeferredWork
from tests.service.http.conftest import in_a_loop


def test_work_is_done_after_a_while_all_at_once_and_in_order(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics, "SOON", 0.5)
    done: list[object] = []

    async def main() -> None:
        have = DeferredWork()
        for turn in range(2):
            have(done.append, f"{turn} first")
            await asyncio.sleep(0)
            have(done.append, f"{turn} second")
            done.append(f"{turn} answered")
            async with asyncio.timeout(60):
                while len(done) < 3 * (turn + 1):
                    await asyncio.sleep(0.01)

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


def test_what_dead_workers_counted_is_kept_in_one_file_of_each_kind(tmp_path: Path) -> None:
    for pid in range(1, 4):
        for kind in ("counter", "histogram", "gauge_livesum"):
            values = MmapedDict(tmp_path / f"{kind}_{pid}.db")
            for name in (f"own {pid}", "common"):
                values.write_value(mmap_key(name, name, [], [], "help"), float(pid), 1.0)
            values.close()
        metrics.retire_worker(tmp_path, pid)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "counter_dead.db",
        "histogram_dead.db",
    ]
    found = {
        json.loads(key)[0]: value
        for key, value, *_ in MmapedDict.read_all_values_from_file(tmp_path / "counter_dead.db")
    }
    assert found == {"own 1": 1, "own 2": 2, "own 3": 3, "common": 6}
    assert (tmp_path / "counter_dead.db").stat().st_size < 2_000
