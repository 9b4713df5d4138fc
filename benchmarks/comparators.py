"""The model out of the box beside models of others: GRU4Rec, SASRec, BPR and LightGBM.

A log of clicks alone is fitted by `train --likelihood all-item` and judged by how often the next
click of test users is among the first 20 of all items. A log with slates is fitted by
`train --auto` and judged by the log-likelihood of what test users did, after calibration.
Comparators have the same split and see the same past. Each is fitted with `--trials` settings, of
which the validation part chooses; the model has one, its defaults, or what `--auto` tries. `gain`
is the model minus the other, paired by user, with its 95 % interval. Logs are a demo world, or
folders with log.parquet and items.parquet (`--log DIR`, as often as you like), split by user, a
tenth each for validation and test, after five interactions, or by time (`--by-time`).
"""

import io
import tempfile
import time
from argparse import Namespace
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path

import numpy as np

from harness import Row, Target, kept, parse, parser, report
from slatewise import ModelRecommender, SlateDataset, evaluate, load
from slatewise.cli import app
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import COMPARATORS, Calibration, Evaluation, fit_baselines, judge
from slatewise.evaluation.baselines import boosting, sequences
from slatewise.simulation import load_config, write_log

PRESET, TRAINING = "demo", ""
"""The world, and settings of training in TOML."""
AUTO: tuple[str, ...] = ("--auto",)
EPOCHS, ROUNDS = sequences.EPOCHS, boosting.ROUNDS
LOSS = 0.02
"""How much worse than another the model may be before the benchmark says so."""
SPLIT = SplitConfig(valid_share=0.1, test_share=0.1, prefix=5)
MINIATURE = {
    "PRESET": "tiny",
    "TRAINING": "[training]\nmax_epochs = 1\n",
    "AUTO": (),
    "EPOCHS": 1,
    "ROUNDS": 5,
    "seeds": [0],
    "trials": 2,
}


def main() -> None:
    """Compare on every log, with every seed."""
    arguments = parser(__doc__)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--trials", type=int, default=8)
    arguments.add_argument("--log", type=Path, action="append", default=[])
    arguments.add_argument("--by-time", action="store_true")
    arguments.add_argument("--device", default="cpu", help="where the networks of others train")
    options = parse(arguments, globals())
    sequences.EPOCHS, boosting.ROUNDS = EPOCHS, ROUNDS
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        logs = options.log or [_world(folder)]
        for number, log in enumerate(logs):
            method = "time" if options.by_time else "user"
            split = SPLIT.model_copy(update={"method": method})
            dataset = prepare(log, log, folder / f"dataset-{number}", division=split)
            for seed in options.seeds:
                run = folder / f"run-{number}-{seed}"
                one = partial(_compared, log.name, dataset, run, seed, options)
                rows += kept(options.keep, f"{log.name} by {method}, {seed}", one)["rows"]
    report(
        options,
        "The model beside models of others, test users",
        {
            "log": "{}",
            "seed": "{}",
            "measure": "{}",
            "against": "{}",
            "trials": "{}",
            "model": "{:.4f}",
            "other": "{:.4f}",
            "gain": "{}",
            "seconds": "{}",
        },
        rows,
        [
            Target(
                f"gained over {row['against']}, {row['log']} {row['seed']}",
                *(row["difference"], -LOSS),
                at_least=True,
            )
            for row in rows
        ],
    )


def _world(folder: Path) -> Path:
    log = folder / PRESET
    write_log(load_config(PRESET), log)
    return log


def _compared(name: str, dataset: SlateDataset, run: Path, seed: int, options: Namespace) -> Row:
    clicks_only = bool((np.diff(dataset.slate_offsets) == 1).all() and (dataset.clicks >= 0).all())
    measure = "recall@20" if clicks_only else "log_likelihood"
    settings = run.with_suffix(".toml")
    settings.write_text(TRAINING)
    chosen = ("--likelihood", "all-item") if clicks_only else AUTO
    chosen += ("--config", str(settings), "--seed", str(seed))
    start = time.perf_counter()
    with redirect_stdout(io.StringIO()):
        app(["train", str(dataset.path), str(run), *chosen], standalone_mode=False)
    seconds, model = {"model": time.perf_counter() - start}, load(run)
    calibration = None if clicks_only else Calibration.from_json(model.calibration or {})
    recommender = ModelRecommender(model, log=dataset)
    judged = evaluate(recommender, dataset, calibration=calibration)
    others: dict[str, Evaluation] = {}
    for other in COMPARATORS:
        start = time.perf_counter()
        # A built-in baseline has to be named, too, or all of them would be fitted.
        others[other] = evaluate(
            fit_baselines(
                *(dataset, ["base rate", other]),
                seed=seed,
                trials=options.trials,
                device=options.device,
            )[other],
            dataset,
        )
        seconds[other] = time.perf_counter() - start
    simple = {one: evaluate(fitted, dataset) for one, fitted in fit_baselines(dataset).items()}
    best = judge("model", judged, simple, measure).baseline
    others[best], seconds[best] = simple[best], 0.0
    rows = []
    for other, found in others.items():
        if measure in found.estimates:
            gain = judge("model", judged, {other: found}, measure).difference
            rows.append(
                {
                    "log": name,
                    "seed": seed,
                    "measure": measure,
                    "against": other,
                    "trials": options.trials if other in COMPARATORS else 1,
                    "model": found[measure].value + gain.value,
                    "other": found[measure].value,
                    "gain": f"{gain.value:+.4f} [{gain.low:+.4f}, {gain.high:+.4f}]",
                    "difference": gain.value,
                    "low": gain.low,
                    "high": gain.high,
                    "seconds": f"{seconds['model']:.0f} / {seconds[other]:.0f}",
                }
            )
    return {"rows": rows}


if __name__ == "__main__":
    main()
