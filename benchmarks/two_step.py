"""What two-step optimisation brings over fitting a GRU and its items together, on large logs.

Logs of FINN.no's kind, each from a world of its own, and slate-gru-hier with D = 25 fitted to
each by both. Both end by the same rule; where epochs run out (`--epochs`, in each stage), two-step
has had more of them. The floor of a difference is what seeds differ by. Seconds are those of one
CPU thread.
"""

import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch

from harness import Row, Target, kept, parse, parser, report
from slatewise import ModelConfig, ModelRecommender, SlateDataset, TrainingConfig
from slatewise.data.preparation import prepare
from slatewise.evaluation.evaluate import predict_part
from slatewise.simulation import load_config, write_log
from slatewise.training import fit

WORLDS: tuple[tuple[float, int], ...] = ((0.025, 1), (0.025, 2), (0.025, 3), (0.05, 4))
"""Scale of the preset, and seed of the world and of the fit."""
DIMENSIONS = 25
WAYS: tuple[Literal["joint", "two-step"], ...] = ("joint", "two-step")
MINIATURE = {"WORLDS": ((0.0005, 1),), "DIMENSIONS": 3, "epochs": 1}


def main() -> None:
    """Fit all worlds in both ways."""
    arguments = parser(__doc__)
    arguments.add_argument("--epochs", type=int, default=45, help="at most, in each stage")
    arguments.add_argument("--worlds", type=int, default=len(WORLDS), help="the first so many")
    options = parse(arguments, globals())
    torch.set_num_threads(1)
    rows = [
        kept(options.keep, f"world {scale} {seed}", partial(_judged, scale, seed, options.epochs))
        for scale, seed in WORLDS[: options.worlds]
    ]
    columns = {"scale": "{}", "seed": "{}", "interactions": "{:,}"}
    for way in WAYS:
        columns |= {f"{way} {part}": "{:.4f}" for part in ("validation", "test")}
        columns |= {f"{way} epochs": "{}", f"{way} cpu_s": "{:.0f}"}
    columns["gain"] = "{:+.4f}"
    report(
        options,
        "Log-likelihood of a slate, joint and two-step",
        columns,
        rows,
        [
            Target(
                "least gain of joint over two-step on a test part",
                min(row["gain"] for row in rows),
                0.0,
                at_least=True,
            )
        ],
        cpu_minutes=sum(row["cpu_s"] for row in rows) / 60,
    )


def _judged(scale: float, seed: int, epochs: int) -> Row:
    """Fit one world in both ways."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as made:
        log = Path(made) / "log"
        write_log(load_config("finn", seed=seed).scaled(scale), log)
        dataset = prepare(log, log, Path(made) / "dataset")
        row: Row = {"scale": scale, "seed": seed, "interactions": int(dataset.train_end.sum())}
        for way in WAYS:
            row |= {f"{way} {key}": value for key, value in _fitted(dataset, way, seed, epochs)}
    gain = row["joint test"] - row["two-step test"]
    return row | {"gain": gain, "cpu_s": time.process_time() - start}


def _fitted(
    dataset: SlateDataset, way: Literal["joint", "two-step"], seed: int, epochs: int
) -> list[tuple[str, Any]]:
    """Fit a model in one way; return its likelihoods, its epochs and its seconds."""
    begun = time.process_time()
    training = TrainingConfig(optimisation=way, max_epochs=epochs)
    model = fit(dataset, ModelConfig(dimensions=DIMENSIONS), training, seed=seed)
    seconds = time.process_time() - begun
    predicted = predict_part(ModelRecommender(model, log=dataset), dataset, "test")
    return [
        ("validation", model.metrics["validation_log_likelihood"]),
        ("test", float(np.mean(predicted.log_likelihood()))),
        ("epochs", model.metrics["epochs"]),
        ("cpu_s", seconds),
    ]


if __name__ == "__main__":
    main()
