"""Baselines by name, or by import path: fitted together for one log."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation.baselines.boosting import BoostedTrees, require_lightgbm
from slatewise.evaluation.baselines.counting import COUNTING
from slatewise.evaluation.baselines.held_out import HeldOut
from slatewise.evaluation.baselines.logits import LOGITS, fit_logits
from slatewise.evaluation.baselines.sequences import NETWORKS, NextClick
from slatewise.evaluation.recommender import Predictor
from slatewise.plugins import is_import_path, load_object

BASELINES: Final = (*(kind.name for kind in COUNTING), *LOGITS)
"""The names of the built-in baselines."""
TREES: Final = "lightgbm"
COMPARATORS: Final = (*NETWORKS, TREES)
"""The names of models of others, which take minutes and are fitted only if they are asked for."""
Progress = Callable[[str, int, int], None]
"""Called with what is fitted, how much of it is done, and how much there is."""

NEEDS: Final = ("fit(dataset)", "predict(interactions, scored)")
"""What an object must have to be a baseline."""


def require_baselines(against: Sequence[str]) -> None:
    """Refuse names of no baseline, missing libraries, and import paths of other objects."""
    if TREES in against:
        require_lightgbm()
    for name in against:
        if is_import_path(name):
            load_object(name, "baseline", NEEDS)
        elif name not in (*BASELINES, *COMPARATORS):
            raise SlatewiseError(
                f"there is no baseline '{name}'.",
                f"Choose of {', '.join((*BASELINES, *COMPARATORS))}, or give an import path.",
            )


def fit_baselines(
    dataset: SlateDataset,
    against: Sequence[str] = (),
    *,
    seed: int = 0,
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, Predictor]:
    """Fit the baselines that make sense for a log, counting once: name -> recommender.

    Import paths and comparators in `against` are added to the built-in baselines; names of built-in
    ones leave out all other built-in ones.
    """
    require_baselines(against)
    named = [name for name in against if name in BASELINES] or BASELINES
    held = HeldOut.of(dataset, seed)
    fitted: dict[str, Predictor] = {
        kind.name: kind.fit_on(dataset, held) for kind in COUNTING if kind.name in named
    }
    fitted |= fit_logits(dataset, held, [name for name in LOGITS if name in named])
    for name in COMPARATORS:
        if name in against:
            fitted[name] = _comparator(name, dataset, seed, partial(progress, name))
    for path in filter(is_import_path, against):
        found = load_object(path, "baseline", NEEDS)
        name = getattr(found, "name", path.rpartition(":")[2])
        if name in BASELINES or name in fitted:
            raise SlatewiseError(
                f"two baselines are called '{name}'.", f"Give that of {path} another `name`."
            )
        fitted[name] = _fit(path, found, dataset)
    return fitted


def _comparator(
    name: str, dataset: SlateDataset, seed: int, progress: Callable[[int, int], None]
) -> Predictor:
    if name == TREES:
        return BoostedTrees.fit(dataset, seed=seed, progress=progress)
    return NextClick.fit(NETWORKS[name], dataset, seed=seed, progress=progress)


def _fit(path: str, found: Any, dataset: SlateDataset) -> Predictor:
    """Fit a baseline: a class method returns it, another method may change the object itself."""
    if not inspect.ismethod(found.fit):
        found = load_object(path, "baseline", NEEDS, instance=True)
    fitted: Predictor | None = found.fit(dataset)
    unchanged: Predictor = found
    return unchanged if fitted is None else fitted
