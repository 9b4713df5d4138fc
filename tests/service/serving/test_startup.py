"""The first slate is as quick as any: nothing is left to be compiled when it is asked for."""

import subprocess
import sys

PROGRAM = """
import tempfile, time
from pathlib import Path
from slatewise.service.settings import ServiceConfig
from slatewise.service.store.records import ItemState
from slatewise.service.serving import Request, Service, warm_up
from slatewise.service.store import Store

with tempfile.TemporaryDirectory() as name:
    config = ServiceConfig()
    store = Store.open(f"sqlite:///{name}/store.sqlite")
    warm_up(config)
    service = Service.open(Path(name), config, store)
    store.put_items([(str(n), "g", ItemState.SHOWN) for n in range(30)])
    service.changed_items()
    start = time.process_time()
    record, _, _ = service.recommend(Request(k=5))
    print(len(record.items), time.process_time() - start)
    store.close()
"""


def test_the_first_slate_of_a_process_compiles_nothing() -> None:
    # Not even loaded code is left, which takes a second and a half.
    run = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True
    )
    items, seconds = run.stdout.split()
    assert items == "5"
    assert float(seconds) < 0.3
