"""What it costs to keep features in one byte, as training on a GPU does with very large logs.

Models are fitted on the CPU to simulated news and to logs given by `--log`, with the features as
they are and rounded to one byte as on a GPU. Both are judged by exact features, on the same test
part. The floor of a difference is how much two seeds differ.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from harness import Row, Target, kept, parse, parser, report
from slatewise import ModelConfig, ModelRecommender, SlateDataset, TrainingConfig, evaluate
from slatewise.data.interactions import Interactions
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import calibrate
from slatewise.model.resident import in_one_byte
from slatewise.simulation import load_config, write_log
from slatewise.training import fit, trainer

USERS = 400
TERMS = ("history", "popularity", "position", "propensity")
SPLIT = SplitConfig(method="time", valid_share=0.1, test_share=0.15)
TRAINING: dict[str, Any] = {}
LOSS = 0.005
"""How much likelihood one byte may cost, in nats, before the benchmark says so."""
MINIATURE = {"USERS": 40, "TRAINING": {"max_epochs": 1}, "seeds": 1}


def main() -> None:
    """Fit and judge all."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    arguments.add_argument(
        "--log", type=Path, action="append", default=[], help="folder with a log and items"
    )
    options = parse(arguments, globals())
    logs: dict[str, Path | None] = {"news": None} | {one.name: one for one in options.log}
    rows = [
        kept(options.keep, f"{name} {seed}", partial(judged, name, log, seed))
        for name, log in logs.items()
        for seed in range(1, 1 + options.seeds)
    ]
    columns = {"log": "{}", "seed": "{}", "slates": "{:,}", "exact": "{:.4f}", "byte": "{:.4f}"}
    columns |= {"gain": "{:+.4f}", "low": "{:+.4f}", "high": "{:+.4f}", "step": "{:.3f}"}
    columns |= {"cpu_s": "{:.0f}"}
    means = {
        name: sum(row["gain"] for row in rows if row["log"] == name) / options.seeds
        for name in logs
    }
    targets = [
        Target(f"mean gain by one byte, {name}", mean, -LOSS, True) for name, mean in means.items()
    ]
    report(options, "Features in one byte", columns, rows, targets, means=means)


def judged(name: str, log: Path | None, seed: int) -> Row:
    """Fit a model with exact and with rounded features to one log."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        if log is None:
            log = folder / "log"
            write_log(load_config("news", users=USERS, seed=seed), log)
        dataset = prepare(log, log, folder / "set", division=SPLIT)
        steps: list[float] = []
        exact = _likelihood(dataset, seed)
        with _rounded(steps):
            byte = _likelihood(dataset, seed)
    gain = byte - exact
    return {
        "log": name,
        "seed": seed,
        "slates": int(dataset.train_end.sum()),
        "exact": exact.value,
        "byte": byte.value,
        "gain": gain.value,
        "low": gain.low,
        "high": gain.high,
        "step": max(steps),
        "cpu_s": time.process_time() - start,
    }


@contextmanager
def _rounded(steps: list[float]) -> Iterator[None]:
    """Let training round features as on a GPU; collect its largest steps, of the typical size."""
    before: Callable[..., Interactions] = trainer.resident

    def resident(log: Interactions, device: torch.device | str) -> Interactions:
        assert log.cell_features is not None
        kept_features, scales = in_one_byte(log.cell_features, device)
        steps.append(float(scales.max()))
        return replace(log, cell_features=kept_features * scales)

    trainer.resident = resident
    try:
        yield
    finally:
        trainer.resident = before


def _likelihood(dataset: SlateDataset, seed: int) -> Any:
    """Return the calibrated log-likelihood of the test part, with its interval over users."""
    model = fit(dataset, ModelConfig(terms=TERMS), TrainingConfig(**TRAINING), seed=seed)
    recommender = ModelRecommender(model, log=dataset)
    found = evaluate(recommender, dataset, calibration=calibrate(recommender, dataset))
    assert found.calibrated is not None
    return found.calibrated["log_likelihood"]


if __name__ == "__main__":
    main()
