"""Logs and datasets that the tests share."""

import gc
import os
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, settings

from slatewise.model.registry import DYNAMICS, INITIAL_STATES, PRIORS, RELEVANCES, TERMS
from tests.browser import browser

__all__ = ["browser"]  # here, so that there is one for all tests of a process

settings.register_profile(
    "default",
    deadline=None,
    max_examples=40,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("default")
os.environ["NO_COLOR"] = "1"
os.environ["COLUMNS"] = "200"


SLOW = ("tests.test_site", "tests.benchmarks.test_miniatures", "tests.test_docs")
"""Modules of slow single tests: begun last, one of them would keep one worker busy by itself."""
LIVE = (
    *("tests.service", "tests.cluster", "tests.cli", "tests.report.test_browser"),
    *("tests.training.test_peers", "tests.test_docs", "tests.benchmarks.test_miniatures"),
)
"""Tests with processes and browsers of their own, which a busy machine may upset: one that fails is
tried once more, and the summary names it."""
ONCE = {"studies": "report"}
"""Slow fixtures of several modules, and the group of tests whose worker makes them once."""


@pytest.hookimpl(tryfirst=True)  # before xdist reads the marks
def pytest_collection_modifyitems(items: list[pytest.Function]) -> None:
    """Keep tests that share a fixture of their module or class on one worker: it is made once."""
    items.sort(key=lambda item: item.module.__name__ not in SLOW)
    for item in items:
        if item.module.__name__.startswith(LIVE):
            item.add_marker(pytest.mark.flaky(reruns=1))
        fixtures = item._fixtureinfo.name2fixturedefs.values()
        shared = any(found[-1].scope in ("class", "module") for found in fixtures)
        groups = [ONCE[name] for name in item.fixturenames if name in ONCE]
        groups += [item.module.__name__] if shared else []
        if groups and item.get_closest_marker("xdist_group") is None:
            item.add_marker(pytest.mark.xdist_group(groups[0]))


def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what was imported: a tenth of what kernels compile in."""
    gc.collect()
    gc.freeze()


LogFiles = tuple[Path, Path]
Write = Callable[[str], str]
_NUMBERS = count()


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., LogFiles]:
    """Write rows as a log and groups as an items table; return their paths."""

    def write(
        rows: list[dict[str, Any]],
        groups: dict[Any, str | None] | None = None,
        schema: dict[str, Any] | None = None,
    ) -> LogFiles:
        log, items = tmp_path / "log.parquet", tmp_path / "items.parquet"
        pl.DataFrame(rows, schema_overrides=schema, infer_schema_length=None).write_parquet(log)
        if groups is None:
            groups = {item: "g" for row in rows for item in row["slate"] or () if item is not None}
        table = {"item_id": list(groups), "group": list(groups.values())}
        pl.DataFrame(table, schema_overrides={"group": pl.String}).write_parquet(items)
        return log, items

    return write


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Write]:
    """Write text as a module in the current directory; return its name, which no other has."""
    made = []
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str) -> str:
        made.append(f"written_{next(_NUMBERS)}")
        (tmp_path / f"{made[-1]}.py").write_text(text, encoding="utf-8")
        return made[-1]

    yield write
    for name in made:
        sys.modules.pop(name, None)


@pytest.fixture(autouse=True)
def parts_of_this_test() -> Iterator[None]:
    """Forget afterwards which parts were registered, or named by an import path."""
    registries = (DYNAMICS, INITIAL_STATES, PRIORS, RELEVANCES, TERMS)
    before = [dict(registry._loaded) for registry in registries]
    yield
    for registry, loaded in zip(registries, before, strict=True):
        registry._loaded = loaded
