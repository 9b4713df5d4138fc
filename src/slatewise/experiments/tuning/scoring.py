"""The best settings of a search against the defaults, on interactions the search never saw."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.evaluation import ModelRecommender, calibrate, evaluate, settle_candidates
from slatewise.experiments.pooling import PooledEstimate, pool
from slatewise.experiments.store import Row
from slatewise.experiments.study import Bench, Unit
from slatewise.experiments.tuning.config import TuneConfig
from slatewise.experiments.tuning.space import Point, Space
from slatewise.experiments.tuning.trials import shown
from slatewise.model.fitted import SlateModel
from slatewise.training import fit

METRICS: Final = ("log_likelihood", "hitrate")


def judged(
    config: TuneConfig,
    unit: Unit,
    bench: Bench,
    dataset: SlateDataset,
    space: Space,
    best: Point,
) -> Iterator[Row]:
    """Train the best settings and the defaults from fresh seeds, and judge both on test users."""
    for start in range(config.starts):
        for name, point in (("found", best), ("defaults", space.defaults())):
            model, training = space.configs(point)
            fitted = fit(
                dataset,
                model,
                training,
                seed=unit.seed + 1_000 * (start + 1),
                device=config.device,
                observer=shown(f"{unit.part}, {name}, start {start}", bench),
            )
            for metric, values in _test_values(config, unit, dataset, fitted).items():
                yield {"start": start, "settings": name, "metric": metric} | values


def _test_values(
    config: TuneConfig, unit: Unit, dataset: SlateDataset, model: SlateModel
) -> dict[str, Row]:
    settle_candidates(model, dataset)
    recommender = ModelRecommender(model, log=dataset)
    # All-item has no P(click) of a slate before calibration.
    calibrated = model.config.likelihood == "all-item"
    found = evaluate(
        recommender,
        dataset,
        k=config.k,
        # Worlds are independent, and so must be their resamples; one dataset has one sample.
        seed=unit.seed if config.dataset is None else 0,
        resamples=config.resamples,
        calibration=calibrate(recommender, dataset) if calibrated else None,
    )
    estimates = {
        "log_likelihood": (found.calibrated or found)["log_likelihood"],
        "hitrate": found[hitrate_name(dataset, config.k)],
    }
    return {
        metric: {"value": estimate.value, "values": estimate.replicates.tolist()}
        for metric, estimate in estimates.items()
    }


def hitrate_name(dataset: SlateDataset, k: int) -> str:
    """Return what `evaluate` calls the hitrate of k items."""
    return f"hitrate@{min(k, dataset.num_items)}"


def difference(
    config: TuneConfig, judged: Sequence[Row], variant: str, metric: str
) -> PooledEstimate | None:
    """Pool what was found minus the defaults: over starts in one world, else over worlds."""
    rows = [row for row in judged if row["variant"] == variant and row["metric"] == metric]
    sides: dict[tuple[int, int], dict[str, Row]] = {}
    for row in rows:
        sides.setdefault((row["seed"], row["start"]), {})[row["settings"]] = row
    if not sides:
        return None
    seeds = [seed for seed, _ in sides]
    values = np.array([_minus(pair, "value") for pair in sides.values()])
    resampled = np.array([_minus(pair, "values") for pair in sides.values()])
    same_users = config.dataset is not None or len(set(seeds)) == 1
    if not same_users:
        values, resampled = _by_seed(values, seeds), _by_seed(resampled, seeds)
    return pool(values.tolist(), list(resampled), same_users=same_users)


def _minus(pair: dict[str, Row], column: str) -> Any:
    found, default = (
        np.array(pair[name][column], dtype=np.float64) for name in ("found", "defaults")
    )
    return found - default


def _by_seed(values: Any, seeds: Sequence[int]) -> Any:
    """Average over the starts of each seed."""
    return np.array([values[np.array(seeds) == seed].mean(axis=0) for seed in dict.fromkeys(seeds)])
