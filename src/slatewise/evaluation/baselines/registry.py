"""Baselines by name, or by import path: fitted together for one log."""

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation.baselines import boosting, sequences
from slatewise.evaluation.baselines.boosting import BoostedTrees, require_lightgbm
from slatewise.evaluation.baselines.counting import COUNTING
from slatewise.evaluation.baselines.encoders import NETWORKS
from slatewise.evaluation.baselines.held_out import HeldOut
from slatewise.evaluation.baselines.logits import LOGITS, fit_logits
from slatewise.evaluation.baselines.sequences import NextClick
from slatewise.evaluation.recommender import Predictor
from slatewise.features.threads import in_threads
from slatewise.plugins import is_import_path, load_object

BASELINES: Final = (*(kind.name for kind in COUNTING), *LOGITS)
"""The names of the built-in baselines."""
TREES: Final = "lightgbm"
COMPARATORS: Final = (*NETWORKS, TREES)
"""The names of models of others, which take minutes and are fitted only if they are asked for."""
MOST_TRIALS: Final = min(len(sequences.TRIALS), len(boosting.TRIALS))
"""How many settings of each can be tried."""
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
                f"Choose from {', '.join((*BASELINES, *COMPARATORS))}, or give an import path.",
            )


def fit_baselines(
    dataset: SlateDataset,
    against: Sequence[str] = (),
    *,
    seed: int = 0,
    trials: int = 1,
    device: str = "cpu",
    progress: Progress = lambda stage, done, total: None,
) -> dict[str, Predictor]:
    """Fit the baselines that make sense for a log, counting once: name -> recommender.

    Import paths and comparators in `against` are added to the built-in baselines; names of built-in
    ones leave out all other built-in ones. A comparator is fitted with `trials` settings, of which
    the validation part chooses; those that are networks are trained on `device`.
    """
    require_baselines(against)
    if not 1 <= trials <= MOST_TRIALS:
        raise SlatewiseError(
            f"{trials:,} settings of each comparator cannot be tried.",
            f"Ask for 1 to {MOST_TRIALS} trials.",
        )
    named = [name for name in against if name in BASELINES] or BASELINES
    held = HeldOut.of(dataset, seed)
    counting = [kind for kind in COUNTING if kind.name in named]
    counted = in_threads(lambda kind: kind.fit_on(dataset, held), counting)
    fitted: dict[str, Predictor] = {type(one).name: one for one in counted}
    fitted |= fit_logits(dataset, held, [name for name in LOGITS if name in named])
    for name in COMPARATORS:
        if name in against:
            heard = partial(progress, name)
            fitted[name] = (
                BoostedTrees.fit(dataset, seed=seed, trials=trials, progress=heard)
                if name == TREES
                else NextClick.fit(
                    NETWORKS[name], dataset, seed=seed, trials=trials, device=device, progress=heard
                )
            )
    for path in filter(is_import_path, against):
        found = load_object(path, "baseline", NEEDS)
        name = getattr(found, "name", path.rpartition(":")[2])
        if name in BASELINES or name in fitted:
            raise SlatewiseError(
                f"two baselines are called '{name}'.", f"Give that of {path} another `name`."
            )
        fitted[name] = _fit(path, found, dataset)
    return fitted


def _fit(path: str, found: Any, dataset: SlateDataset) -> Predictor:
    """Fit a baseline: a class method returns it, another method may change the object itself."""
    if not inspect.ismethod(found.fit):
        found = load_object(path, "baseline", NEEDS, instance=True)
    fitted: Predictor | None = found.fit(dataset)
    unchanged: Predictor = found
    return unchanged if fitted is None else fitted
