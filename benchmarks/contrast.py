"""What the contrast within slates adds to a model without a network.

Simulated news split by time, with the terms that small logs get: log-likelihood of the test part
with `contrast` and without it, and its gain. `train --auto` tries the term on logs that are too
small for the network, so it must not cost much.
"""

import tempfile
import time
from pathlib import Path
from typing import Any

from harness import Row, Target, kept, parse, parser, report
from slatewise import ModelConfig, ModelRecommender, SlateDataset, TrainingConfig, evaluate
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import calibrate
from slatewise.simulation import load_config, write_log
from slatewise.training import fit

USERS = (60, 400)
TERMS = ("history", "popularity", "position", "propensity")
SPLIT = SplitConfig(method="time", valid_share=0.1, test_share=0.15)
TRAINING: dict[str, Any] = {}
LOSS = 0.01
"""How much likelihood the term may cost, in nats, before the benchmark says so."""
MINIATURE = {"USERS": (40,), "TRAINING": {"max_epochs": 1}, "seeds": 1}


def main() -> None:
    """Fit and judge all."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, default=3)
    options = parse(arguments, globals())
    rows = [
        kept(
            options.keep, f"news {users} {seed}", lambda users=users, seed=seed: judged(users, seed)
        )
        for users in USERS
        for seed in range(1, 1 + options.seeds)
    ]
    columns = {"users": "{}", "seed": "{}", "slates": "{:,}", "without": "{:.4f}", "with": "{:.4f}"}
    columns |= {"gain": "{:+.4f}", "cpu_s": "{:.0f}"}
    targets = [
        Target(
            f"gain by contrast, {row['users']} users, seed {row['seed']}", row["gain"], -LOSS, True
        )
        for row in rows
    ]
    report(options, "Contrast within slates, news without a network", columns, rows, targets)


def judged(users: int, seed: int) -> Row:
    """Fit a model with and without the term to one log."""
    start = time.process_time()
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        write_log(load_config("news", users=users, seed=seed), folder / "log")
        dataset = prepare(folder / "log", folder / "log", folder / "set", division=SPLIT)
        found = [likelihood(dataset, terms, seed) for terms in (TERMS, (*TERMS, "contrast"))]
    return {
        "users": users,
        "seed": seed,
        "slates": int(dataset.train_end.sum()),
        "without": found[0],
        "with": found[1],
        "gain": found[1] - found[0],
        "cpu_s": time.process_time() - start,
    }


def likelihood(dataset: SlateDataset, terms: tuple[str, ...], seed: int) -> float:
    """Return the calibrated log-likelihood of the test part."""
    model = fit(dataset, ModelConfig(terms=terms), TrainingConfig(**TRAINING), seed=seed)
    recommender = ModelRecommender(model, log=dataset)
    judged = evaluate(
        recommender, dataset, resamples=2, calibration=calibrate(recommender, dataset)
    )
    return float(judged["log_likelihood"].value)


if __name__ == "__main__":
    main()
