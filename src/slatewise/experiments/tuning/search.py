"""`tune`: settings searched by Bayesian optimisation (Appendix A, Figures 6 and 7).

A search is a unit: one variant in one world, with as many trials and at most as many epochs on the
same data as any other variant has. Trial 0 has the defaults, the next are from a Sobol sequence,
all others maximise the expected gain under a Gaussian process fitted to the trials before; with
`at_once`, that many are chosen together, each beside those that are not known yet. All
trials start training from the same seed. The best trial is then held against the defaults on test
interactions, both trained from fresh seeds: what was lucky once is not lucky again.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Final

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import ModelRecommender, evaluate, settle_candidates
from slatewise.experiments.store import Row, Tables
from slatewise.experiments.study import Bench, Study, Unit
from slatewise.experiments.tuning.config import TuneConfig
from slatewise.experiments.tuning.scoring import hitrate_name, judged
from slatewise.experiments.tuning.space import PAPER_FOUND, PAPER_RANGES, Point, Space
from slatewise.experiments.tuning.summary import summarise
from slatewise.experiments.tuning.surrogate import TO_LEARN_FROM, contours, propose, require_ax
from slatewise.experiments.tuning.trials import Origin, Trial, TrialLog, run_trial, shown
from slatewise.experiments.variants import unknown_exposure
from slatewise.experiments.worlds import dataset_of, dataset_row
from slatewise.model.fitted import SlateModel


def units(config: TuneConfig) -> list[Unit]:
    """One search for each seed and variant."""
    return [Unit(seed, variant) for seed in config.seeds for variant in config.variants]


def run(config: TuneConfig, unit: Unit, bench: Bench) -> Tables:
    """Search, or resume a search; then judge the best trial and compute surfaces."""
    require_ax()
    dataset, space = dataset_of(config, unit.seed, bench), config.space(unit.part)
    if unknown := unknown_exposure(space.model, dataset):
        why = f"no slate comes from {' or '.join(map(repr, unknown))}"
        return {"left_out": [{"seed": unit.seed, "variant": unit.part, "why": why}]}
    log = TrialLog(bench.scratch / "trials.json")
    while len(log.trials) < config.trials:
        for trial in _next_trials(config, unit, bench, dataset.path, space, log.trials):
            log.add(trial)
    head = {"seed": unit.seed, "variant": unit.part}
    best = best_trial(log.trials)
    first = unit.part == config.variants[0]
    rows = {
        "dataset": [dataset_row(dataset, unit.seed)] if first else [],
        "trials": [head | _trial_row(trial) for trial in log.trials],
        "settings": [head | row for row in _settings(space, unit.part, best)],
        "judged": [
            head | row for row in judged(config, unit, bench, dataset, space, best.parameters)
        ],
        "contours": [head | row for row in contours(space, log.trials, best, unit.seed)],
    }
    return {name: table for name, table in rows.items() if table}


def _next_trials(
    config: TuneConfig, unit: Unit, bench: Bench, dataset: Path, space: Space, trials: list[Trial]
) -> list[Trial]:
    """Choose the next trials, and run them."""
    first = len(trials)
    chosen: list[tuple[int, Point, Origin]] = []
    for number in range(first, min(first + config.at_once, config.trials)):
        bench.progress(f"{unit.part}, choosing trial {number}", number, config.trials)
        pending = [point for _, point, _ in chosen]
        point, origin = next_point(
            space, trials, first=config.first, seed=unit.seed, pending=pending
        )
        chosen.append((number, point, origin))
    run = partial(_run_chosen, config, unit, bench, dataset, space, list(trials))
    return bench.each(run, chosen)


def _run_chosen(
    config: TuneConfig,
    unit: Unit,
    bench: Bench,
    path: Path,
    space: Space,
    finished: Sequence[Trial],
    chosen: tuple[int, Point, Origin],
) -> Trial:
    (number, point, origin), dataset = chosen, SlateDataset.open(path)
    by_hitrate = config.objective == "hitrate"
    return run_trial(
        dataset,
        space,
        point,
        number=number,
        origin=origin,
        seed=unit.seed,
        device=config.device,
        finished=finished,
        score=(lambda model: _hitrate(model, dataset, config.k)) if by_hitrate else None,
        observer=shown(f"{unit.part}, trial {number}", bench),
    )


def next_point(
    space: Space,
    trials: Sequence[Trial],
    *,
    first: int,
    seed: int,
    pending: Sequence[Point] = (),
) -> tuple[Point, Origin]:
    """Return what to try after these trials, and where it is from; it depends on nothing else.

    The `pending` points are being tried: the next is chosen beside them.
    """
    number = len(trials) + len(pending)
    if number == 0:
        return space.rounded(space.defaults()), "defaults"
    if number < first or sum(trial.value is not None for trial in trials) < TO_LEARN_FROM:
        return space.sobol(number - 1, seed), "sobol"
    return propose(space, trials, seed * 1_000 + number, pending), "model"


def best_trial(trials: Sequence[Trial]) -> Trial:
    """Return the completed trial with the highest value, of equals the first."""
    completed = [trial for trial in trials if trial.status == "completed"]
    if not completed:
        raise SlatewiseError(
            f"no trial came to its end: {trials[-1].why}.",
            "Search other ranges, or change the settings that are not searched.",
        )
    return max(completed, key=lambda trial: trial.value or 0.0)


def _hitrate(model: SlateModel, dataset: SlateDataset, k: int) -> float:
    settle_candidates(model, dataset)
    recommender = ModelRecommender(model, log=dataset)
    found = evaluate(recommender, dataset, part="validation", k=k, resamples=1)
    value = found[hitrate_name(dataset, k)].value
    if not isfinite(value):
        raise SlatewiseError(
            "there is no hitrate: no validation interaction has a click.",
            "Prepare the dataset with a larger validation part, or choose by likelihood.",
        )
    return value


def _trial_row(trial: Trial) -> Row:
    """One row of the table; seconds are left out, which are not the same twice."""
    return {
        "trial": trial.number,
        "origin": trial.origin,
        "status": trial.status,
        "value": trial.value,
        "validation": trial.validation,
        "epochs": trial.epochs,
        **trial.parameters,
        "why": trial.why,
        "curve": [value for stage in trial.curve for value in stage],
    }


def _settings(space: Space, variant: str, best: Trial) -> Iterator[Row]:
    """One row for each setting: where it was searched, and what was found, here and there."""
    defaults = space.defaults()
    for name, (low, high) in space.ranges.items():
        yield {
            "setting": name,
            "low": low,
            "high": high,
            "default": defaults[name],
            "found": best.parameters[name],
            "paper: range": PAPER_RANGES[name],
            "paper: found": PAPER_FOUND.get(variant, {}).get(name),
        }


STUDY: Final = Study(
    "tune", "Tuning: settings found by Bayesian optimisation", TuneConfig, units, run, summarise
)
