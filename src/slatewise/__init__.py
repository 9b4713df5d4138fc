"""Bayesian dynamic slate recommendation.

A dataset is opened, a model fitted, judged, saved, loaded and asked for slates:

    dataset = slatewise.SlateDataset.open("dataset")
    model = slatewise.fit(dataset, slatewise.ModelConfig(dynamics="gru"))
    slatewise.evaluate(slatewise.ModelRecommender(model), dataset)
    slatewise.Recommender(model).recommend(["some", "clicked", "items"], k=20)
"""

from typing import TYPE_CHECKING

from slatewise.lazy import exports
from slatewise.version import __version__ as __version__

if TYPE_CHECKING:
    from slatewise.data.dataset import SlateDataset as SlateDataset
    from slatewise.data.preparation import prepare as prepare
    from slatewise.evaluation import ModelRecommender as ModelRecommender
    from slatewise.evaluation import evaluate as evaluate
    from slatewise.model.config import ModelConfig as ModelConfig
    from slatewise.model.fitted import SlateModel as SlateModel
    from slatewise.slates import Recommender as Recommender
    from slatewise.training import TrainingConfig as TrainingConfig
    from slatewise.training import fit as fit
    from slatewise.training import load as load
    from slatewise.training import save as save

_HOMES = {
    "SlateDataset": "slatewise.data.dataset",
    "prepare": "slatewise.data.preparation",
    "ModelConfig": "slatewise.model.config",
    "SlateModel": "slatewise.model.fitted",
    "TrainingConfig": "slatewise.training",
    "fit": "slatewise.training",
    "save": "slatewise.training",
    "load": "slatewise.training",
    "ModelRecommender": "slatewise.evaluation",
    "evaluate": "slatewise.evaluation",
    "Recommender": "slatewise.slates",
}

__all__ = sorted(_HOMES)  # noqa: PLE0605

__getattr__ = exports(__name__, _HOMES)
