"""Networks of others, one setting at a time: what `real_logs.py` takes its tuned rows from.

`--keep` is the folder of `real_logs.py`, with the datasets that it prepared there. For every
network, log and seed the first `--trials` settings are fitted, `--jobs` of them side by side, each
in a process with one thread; the longest begin first. Every setting is kept as soon as it is
fitted, so that the command can be stopped and resumed. It needs torch, numpy and scipy alone.

Of the settings of a row counts the one with the most recall of validation clicks. The bare minimum
is chance: 20 of all items.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from harness import Row, Target, circumstances, kept, parse, parser, report, slatewise
from slatewise import SlateDataset, evaluate
from slatewise.evaluation import Estimate
from slatewise.evaluation.baselines import sequences
from slatewise.evaluation.baselines.encoders import NETWORKS
from slatewise.experiments.workers import run_in_processes

MEASURE = "recall@20"
SLOWEST = ("sasrec", "gru4rec", "bpr")
"""The networks, in the order in which they begin."""
MINIATURE = {"EPOCHS": 1, "seeds": [0], "trials": 2, "logs": ["tiny"]}
EPOCHS = sequences.EPOCHS


class Trial(NamedTuple):
    """A network with one of its settings, and the dataset that it is fitted to."""

    folder: Path
    """of the log, with its dataset and its rows"""
    what: str
    seed: int
    number: int
    """of the setting"""


def main() -> None:
    """Fit what is not kept yet; show all that was asked for."""
    arguments = parser(__doc__)
    arguments.add_argument("--logs", nargs="+", default=["retailrocket", "tafeng"])
    arguments.add_argument("--what", nargs="+", default=SLOWEST, choices=SLOWEST)
    arguments.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    arguments.add_argument("--trials", type=int, default=len(sequences.TRIALS))
    arguments.add_argument("--jobs", type=int, default=1, help="settings fitted side by side")
    arguments.add_argument("--device", default="cpu", help="what they are trained on")
    options = parse(arguments, globals())
    with tempfile.TemporaryDirectory() as scratch:
        home = options.keep or Path(scratch)
        if options.small and not (home / "tiny").exists():
            _prepare_tiny(home / "tiny")
        trials = [
            Trial(home / log, what, seed, number)
            for log in options.logs
            for what in options.what
            for seed in options.seeds
            for number in range(options.trials)
        ]
        work = partial(fit, device=options.device, epochs=EPOCHS)
        if options.jobs > 1:
            os.environ["OMP_NUM_THREADS"] = "1"  # a process reads it when it loads torch
            run_in_processes(work, longest_first(trials), options.jobs, _count(len(trials)))
        rows = list(_rows(trials, work))
    least = min(row["times_chance"] for row in rows if row["chosen"])
    report(
        options,
        "Settings of networks of others",
        {
            **dict.fromkeys(("log", "network", "seed", "setting"), "{}"),
            **{"validation": "{:.4f}", "test": "{:.4f}", "chosen": "{}"},
            **{"cpu_s": "{:.0f}", "seconds": "{:.0f}"},
        },
        rows,
        [Target("test clicks found by a chosen setting, times chance", least, 1, at_least=True)],
    )


def longest_first(trials: Sequence[Trial]) -> list[Trial]:
    """Sort trials by the time that they will take, guessed: network, log, dimensions and pace."""

    def length(trial: Trial) -> tuple[int, int, float, float]:
        settings = sequences.TRIALS[trial.number]
        size = (trial.folder / "dataset" / "slate_items.npy").stat().st_size
        return (-SLOWEST.index(trial.what), size, settings.dimensions, -settings.pace)

    return sorted(trials, key=length, reverse=True)


def fit(trial: Trial, *, device: str, epochs: int) -> Row:
    """Return what a setting of a network finds, kept in the folder of its log."""
    title = f"{trial.what} {trial.seed} setting {trial.number}"
    return kept(trial.folder / "rows", title, partial(_fitted, trial, device, epochs))


def best_of(trials: Sequence[Trial], **how: Any) -> Row:
    """Return the row of the setting that the validation part chooses, with the time of all."""
    tried = [fit(trial, **how) for trial in trials]
    best = max(tried, key=lambda row: row["about"]["score"])  # the first of equals
    together = sum(row["about"]["cpu_s"] for row in tried)
    return best | {"about": best["about"] | {"cpu_s": together}}


def _fitted(trial: Trial, device: str, epochs: int) -> Row:
    sequences.EPOCHS = epochs
    log, settings = SlateDataset.open(trial.folder / "dataset"), sequences.TRIALS[trial.number]
    start, clock = time.process_time(), time.perf_counter()
    network = sequences.NextClick.with_settings(
        NETWORKS[trial.what], log, settings, seed=trial.seed, device=device
    )
    found = evaluate(network, log)
    where = circumstances()
    about = {
        "measure": MEASURE,
        "cpu_s": time.process_time() - start,
        "seconds": time.perf_counter() - clock,
        "device": device,
        "setting": trial.number,
        "score": network.score,
        "chance": 20 / log.num_items,
    }
    about |= {name: where[name] for name in ("commit", "date")}
    return {"about": about, "models": {trial.what: as_kept(found[MEASURE])}}


def as_kept(one: Estimate) -> Row:
    """Return an estimate with its resamples, of which paired differences are made later."""
    about = {"value": one.value, "count": one.count, "sample": one.sample}
    return about | {"replicates": one.replicates.tolist()}


def _rows(trials: Sequence[Trial], work: Callable[[Trial], Row]) -> Iterator[Row]:
    rows = {trial: work(trial) for trial in trials}
    scores = {trial: tuple(row["about"]["score"]) for trial, row in rows.items()}
    for trial, row in rows.items():
        about, value = row["about"], row["models"][trial.what]["value"]
        beside = [one for one in trials if one[:3] == trial[:3]]
        yield {
            "log": trial.folder.name,
            "network": trial.what,
            "seed": trial.seed,
            "setting": trial.number,
            "validation": about["score"][0],
            "test": value,
            "times_chance": value / about["chance"],
            "chosen": trial == max(beside, key=scores.__getitem__),
            **{name: about[name] for name in ("cpu_s", "seconds", "device", "commit")},
        }


def _count(total: int) -> Callable[[], None]:
    """Return what says how many settings are done each time that one is."""
    done = iter(range(1, total + 1))
    return lambda: print(f"{next(done)} of {total}", flush=True)


def _prepare_tiny(folder: Path) -> None:
    slatewise("simulate", f"{folder}/log", "--preset", "tiny", "--users", "60")
    slatewise("prepare", f"{folder}/log", f"{folder}/log", f"{folder}/dataset")


if __name__ == "__main__":
    main()
