"""Distance beside dot product: the same model, fitted and judged both ways on the same log.

Each log is fitted with both relevances, by the slate and by the all-item likelihood, with default
settings otherwise. The slate models are judged by the log-likelihood of what test users did, after
calibration; the all-item ones by how often the next click is among their first 20 of all items.
`gain` is dot minus distance, paired by user, with its 95 % interval. Logs are demo worlds of some
seeds, and datasets of your own (`--dataset DIR`, as often as you like).
"""

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness import Row, Target, parse, parser, report, slatewise
from slatewise import ModelConfig, ModelRecommender, SlateDataset, TrainingConfig, evaluate
from slatewise.evaluation import Evaluation, calibrate
from slatewise.training import fit

MEASURES = {"slate": "log_likelihood", "all-item": "recall@20"}
PRESET, EPOCHS = "demo", 200
MODEL: dict[str, Any] = {}
"""Settings of both models; of what is not here, the defaults."""
LOSS = 0.02
"""Nats that either may lose on a log: more would be a fault, not a matter of taste."""
MINIATURE = {"PRESET": "tiny", "EPOCHS": 1, "seeds": 1, "MODEL": {"dimensions": 3}}


def main() -> None:
    """Fit and judge all, log by log."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3, help="demo worlds")
    arguments.add_argument("--dataset", type=Path, action="append", default=[])
    options = parse(arguments, globals())
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(options.seeds):
            rows += _compared(f"{PRESET} {seed}", _world(Path(folder), seed), seed)
    for path in options.dataset:
        rows += _compared(path.name, SlateDataset.open(path), 0)
    report(
        options,
        "Dot product beside distance, test users",
        {
            "log": "{}",
            "likelihood": "{}",
            "measure": "{}",
            "distance": "{:.4f}",
            "dot": "{:.4f}",
            "gain": "{}",
            "cpu_s": "{}",
        },
        rows,
        [
            Target(f"nats gained by dot, {row['log']}", row["difference"], -LOSS, at_least=True)
            for row in rows
            if row["likelihood"] == "slate"
        ],
    )


def _world(folder: Path, seed: int) -> SlateDataset:
    log, out = folder / f"log-{seed}", folder / f"dataset-{seed}"
    slatewise("simulate", str(log), "--preset", PRESET, "--seed", str(seed))
    slatewise("prepare", str(log), str(log), str(out))
    return SlateDataset.open(out)


def _compared(name: str, dataset: SlateDataset, seed: int) -> Iterator[Row]:
    for likelihood, measure in MEASURES.items():
        found, spent = {}, []
        for relevance in ("distance", "dot"):
            start = time.process_time()
            found[relevance] = _judged(dataset, likelihood, relevance, seed)[measure]
            spent.append(f"{time.process_time() - start:.0f}")
        gain = found["dot"] - found["distance"]
        yield {
            "log": name,
            "likelihood": likelihood,
            "measure": measure,
            "distance": found["distance"].value,
            "dot": found["dot"].value,
            "difference": gain.value,
            "gain": f"{gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]",
            "cpu_s": " / ".join(spent),
        }


def _judged(dataset: SlateDataset, likelihood: str, relevance: str, seed: int) -> Evaluation:
    model = ModelConfig.build(
        {"likelihood": likelihood, "relevance": relevance} | MODEL, "benchmark"
    )
    fitted = fit(dataset, model, TrainingConfig(max_epochs=EPOCHS), seed=seed)
    recommender = ModelRecommender(fitted, log=dataset)
    calibration = calibrate(recommender, dataset) if likelihood == "slate" else None
    found = evaluate(recommender, dataset, calibration=calibration)
    return found if found.calibrated is None else found.calibrated


if __name__ == "__main__":
    main()
