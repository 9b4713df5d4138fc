"""Settings of networks are fitted side by side and kept; the validation part chooses."""

import importlib
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slatewise.evaluation.baselines import sequences

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def network_trials(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.syspath_prepend(str(FOLDER))
    known = set(sys.modules)
    yield importlib.import_module("network_trials")
    for name in {"network_trials", "harness"} & (set(sys.modules) - known):
        del sys.modules[name]


@pytest.fixture
def settings(network_trials: Any, tmp_path: Path) -> list[Any]:
    """Return three settings of each network, for a tiny log and a tinier one."""
    for log, size in (("large", 900), ("small", 90)):
        (tmp_path / log / "dataset").mkdir(parents=True)
        (tmp_path / log / "dataset" / "slate_items.npy").write_bytes(bytes(size))
    return [
        network_trials.Trial(tmp_path / log, what, 0, number)
        for log in ("small", "large")
        for what in ("bpr", "gru4rec", "sasrec")
        for number in range(3)
    ]


def test_the_longest_begin_first(network_trials: Any, settings: list[Any]) -> None:
    first, *_, last = network_trials.longest_first(settings)
    assert first[1:] == ("sasrec", 0, 1)
    assert first.folder.name == "large"
    assert last[1:] == ("bpr", 0, 2)  # as 0, which stands before it; 1 has more dimensions
    assert last.folder.name == "small"


def test_the_validation_part_chooses_among_kept_settings(
    network_trials: Any, settings: list[Any]
) -> None:
    trials = settings[:3]
    for trial, score, cpu in zip(
        trials, ([0.2, 0.9], [0.3, 0.1], [0.3, 0.1]), (1, 2, 3), strict=True
    ):
        about = {"score": score, "cpu_s": cpu, "setting": trial.number}
        file = trial.folder / "rows" / f"bpr-0-setting-{trial.number}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps({"about": about, "models": {"bpr": {"value": 0.5}}}))
    row = network_trials.best_of(trials, device="cpu", epochs=1)
    assert row["about"] == {"score": [0.3, 0.1], "cpu_s": 6, "setting": 1}


def test_settings_fitted_in_two_processes_are_those_fitted_in_one(
    network_trials: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(keep: Path, *more: str) -> list[dict[str, Any]]:
        asked = ["--small", "--keep", str(keep), "--json", str(tmp_path / "rows.json"), *more]
        monkeypatch.setattr(sys, "argv", ["network_trials", *asked])
        monkeypatch.setattr(sequences, "EPOCHS", sequences.EPOCHS)  # put back in the end
        monkeypatch.setenv("OMP_NUM_THREADS", "1")
        network_trials.main()
        rows: list[dict[str, Any]] = json.loads((tmp_path / "rows.json").read_text())["rows"]
        return rows

    together, alone = run(tmp_path / "two", "--jobs", "2"), run(tmp_path / "one")
    varying = {"cpu_s", "seconds"}
    assert [{k: v for k, v in row.items() if k not in varying} for row in together] == [
        {k: v for k, v in row.items() if k not in varying} for row in alone
    ]
    assert sum(row["chosen"] for row in together) == 3
    assert run(tmp_path / "two") == together  # kept, with their times
