"""How recall of the next click goes with the dimensions of a model, and with its temperature.

A log of clicks alone: one that was prepared (`--dataset`), or a simulated one of 300 users who rate
800 films. All is as `slatewise train` takes it by default but dimensions and temperature. At
temperature 1, where the prior counts in full, more dimensions should not cost recall.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

import ratings
from harness import Row, Target, kept, parse, parser, report
from slatewise import ModelConfig, ModelRecommender, SlateDataset, TrainingConfig, evaluate, fit

DIMENSIONS = (16, 32, 64)
TEMPERATURES = (0.1, 1.0)
FILMS, RATERS, MOST_RATINGS = 800, 300, 400
TRAINING: dict[str, Any] = {}
LOSS = 0.015
"""How much recall more dimensions may cost before the benchmark says so: about what a seed does."""
MINIATURE = {
    **{"DIMENSIONS": (2, 3), "TRAINING": {"max_epochs": 1}, "seeds": 1},
    **{"FILMS": 40, "RATERS": 40, "MOST_RATINGS": 25},
}


def main() -> None:
    """Fit and judge all."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=2)
    arguments.add_argument("--dataset", type=Path, help="a prepared log of clicks alone")
    options = parse(arguments, globals())
    ratings.FILMS, ratings.RATERS, ratings.MOST_RATINGS = FILMS, RATERS, MOST_RATINGS
    with tempfile.TemporaryDirectory() as folder:
        dataset = (
            ratings.dataset_of("films", 1, Path(folder) / "films")
            if options.dataset is None
            else SlateDataset.open(options.dataset)
        )
        rows = [
            kept(
                options.keep,
                f"temperature {temperature} dimensions {dimensions} seed {seed}",
                lambda t=temperature, d=dimensions, s=seed: _judged(dataset, t, d, s),
            )
            for temperature in TEMPERATURES
            for dimensions in DIMENSIONS
            for seed in range(options.seeds)
        ]
    columns = dict.fromkeys(("temperature", "dimensions", "seed", "epochs"), "{}")
    columns |= {"validation": "{:.4f}", "recall": "{:.4f}", "mrr": "{:.4f}", "cpu_s": "{:.0f}"}
    report(options, "Recall by dimensions", columns, rows, list(_targets(rows)))


def _judged(dataset: SlateDataset, temperature: float, dimensions: int, seed: int) -> Row:
    start = time.process_time()
    settings = {"temperature": temperature, "dimensions": dimensions}
    model = ModelConfig.build(settings, "benchmark")
    fitted = fit(dataset, model, TrainingConfig(**TRAINING), seed=seed)
    seconds = time.process_time() - start
    found = evaluate(ModelRecommender(fitted, log=dataset), dataset, resamples=2)
    return {
        **{"temperature": temperature, "dimensions": dimensions, "seed": seed},
        "epochs": fitted.metrics["epochs"],
        "validation": fitted.metrics["validation_log_likelihood"],
        "recall": found["recall@20"].value,
        "mrr": found["mrr@20"].value,
        "cpu_s": seconds,
    }


def _targets(rows: list[Row]) -> list[Target]:
    mean = {
        d: sum(row["recall"] for row in own) / len(own)
        for d in DIMENSIONS
        if (own := [row for row in rows if row["temperature"] == 1 and row["dimensions"] == d])
    }
    least = mean[DIMENSIONS[0]]
    return [
        Target(f"recall gained at temperature 1 by {d} dimensions", mean[d] - least, -LOSS, True)
        for d in DIMENSIONS[1:]
    ]


if __name__ == "__main__":
    main()
