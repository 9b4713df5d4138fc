"""All baselines of a log, fitted together: the floor of every table."""

from slatewise.data import SlateDataset
from slatewise.evaluation.baselines import BASELINES
from slatewise.evaluation.held_out import HeldOut
from slatewise.evaluation.logits import fit_logits
from slatewise.evaluation.recommender import Predictor


def fit_baselines(dataset: SlateDataset, *, seed: int = 0) -> dict[str, Predictor]:
    """Fit all baselines that make sense for a log, counting once: name -> recommender."""
    held = HeldOut.of(dataset, seed)
    counting = {kind.name: kind.fit_on(dataset, held) for kind in BASELINES}
    return {**counting, **fit_logits(dataset, held)}
