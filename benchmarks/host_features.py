"""What features of terms cost on the host before a model is trained, whatever trains it.

A log of FINN.no's kind. Each term is fitted to it, and computes its features of all items seen, as
`train` does. CPU seconds are those of one thread; all but `fit` is divided between cores. The floor
is writing as many numbers. With 36.8 M slates it is so many times as much.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from harness import Row, Target, parse, parser, report
from slatewise import ModelConfig, SlateDataset
from slatewise.data.preparation import prepare
from slatewise.model.terms import FittedTerms, feature_terms
from slatewise.simulation import load_config, write_log

SCALE = 0.025
FULL = 36_800_000
"""Slates of FINN.no's log."""
TERMS = ("bias", "co_clicks", "history", "popularity", "position", "propensity", "source")
CORES, LIMIT = 16, 60.0
"""Cores of the machine that is meant, and seconds that all terms may take there at full size."""
MINIATURE = {"SCALE": 0.0005}


def main() -> None:
    """Measure every term."""
    arguments = parser(__doc__)
    arguments.add_argument(
        "--dataset", type=Path, help="a prepared log, instead of a simulated one"
    )
    options = parse(arguments, globals())
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as made:
        log, path = Path(made) / "log", options.dataset
        if path is None:
            write_log(load_config("finn").scaled(SCALE), log)
            path = prepare(log, log, Path(made) / "dataset").path
        dataset = SlateDataset.open(path)
        rows = [_measured(name, dataset) for name in feature_terms(ModelConfig(terms=TERMS))]
    total = sum(row["fit_at_full"] + row["features_at_full"] / CORES for row in rows)
    report(
        options,
        f"Features of terms on the host, {dataset.num_interactions:,} slates",
        {
            "term": "{}",
            "columns": "{}",
            "fit_s": "{:.2f}",
            "features_s": "{:.2f}",
            "floor_s": "{:.2f}",
            "fit_at_full": "{:.0f}",
            "features_at_full": "{:.0f}",
        },
        rows,
        [Target(f"estimated seconds by the clock at full size, {CORES} cores", total, LIMIT)],
        slates=dataset.num_interactions,
    )


def _measured(name: str, dataset: SlateDataset) -> Row:
    """Fit a term and compute its features, after a first turn on few users that compiles."""
    config = ModelConfig(terms=(name,))
    warm = FittedTerms.fit(config, dataset).in_training(dataset)
    warm.describe(dataset.interactions().of_users(torch.arange(10)))
    del warm  # what it counted is counted anew
    terms, fit_s = _timed(lambda: FittedTerms.fit(config, dataset))
    made, features_s = _timed(lambda: terms.in_training(dataset).describe_all(dataset))
    features = made.step_features if made.cell_features is None else made.cell_features
    more = FULL / dataset.num_interactions
    return {
        "term": name,
        "columns": features.shape[1],
        "fit_s": fit_s,
        "features_s": features_s,
        "floor_s": _timed(features.clone)[1],
        "fit_at_full": fit_s * more,
        "features_at_full": features_s * more,
    }


def _timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """Return what some work returns, and its CPU seconds."""
    begun = time.process_time()
    return work(), time.process_time() - begun


if __name__ == "__main__":
    main()
