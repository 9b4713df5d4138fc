"""Every benchmark runs with `--small`: what nothing runs stops running unnoticed."""

import json
import math
import runpy
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from slatewise.evaluation.baselines import boosting, sequences
from tests.parts import all_parts, parts_of

FOLDER = Path(__file__).parents[2] / "benchmarks"
SHARED = {"drawing", "harness", "load", "neighbours", "other_worlds", "rivals", "shop"}
"""Modules of the folder that measure nothing themselves."""
BENCHMARKS = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in SHARED)


@pytest.fixture(autouse=True)
def _as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a benchmark import its neighbours, and undo what it does to the process."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sequences, "EPOCHS", sequences.EPOCHS)  # put back in the end
    monkeypatch.setattr(boosting, "ROUNDS", boosting.ROUNDS)
    threads, known = torch.get_num_threads(), set(sys.modules)
    yield
    torch.set_num_threads(threads)
    for name in (SHARED | set(BENCHMARKS)) & (set(sys.modules) - known):
        del sys.modules[name]


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs_in_miniature_and_reports(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / "numbers.json"
    monkeypatch.setattr(sys, "argv", [name, "--small", "--json", str(file)])
    # On a thread of its own: a browser's tests leave an event loop in this one.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(runpy.run_path, str(FOLDER / f"{name}.py"), run_name="__main__").result()
    numbers = json.loads(file.read_text())
    assert numbers["rows"]
    assert numbers["targets"]
    assert {"date", "commit", "load"} <= numbers.keys()
    assert numbers["title"][:40] in capsys.readouterr().out


def test_numbers_are_written_as_valid_json() -> None:
    harness = runpy.run_path(str(FOLDER / "harness.py"))
    given = {"rows": [{"smallest": math.nan, "seeds": (1, 2)}], "live": math.inf, "value": 0.5}
    wanted = {"rows": [{"smallest": None, "seeds": [1, 2]}], "live": None, "value": 0.5}
    assert json.loads(harness["as_json"](given)) == wanted


def test_every_part_of_a_model_is_compared_with_a_gpu() -> None:
    compared = runpy.run_path(str(FOLDER / "gpu_parts.py"))["PARTS"]
    assert parts_of(compared.values()) == all_parts()


def test_a_benchmark_without_a_miniature_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "new.py"
    script.write_text("from harness import parse, parser\nparse(parser('new'), globals())\n")
    monkeypatch.setattr(sys, "argv", ["new", "--small"])
    with pytest.raises(KeyError, match="MINIATURE"):
        runpy.run_path(str(script), run_name="__main__")
