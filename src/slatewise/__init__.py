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
    from slatewise import plot as plot
    from slatewise.data.dataset import SlateDataset as SlateDataset
    from slatewise.data.preparation import prepare as prepare
    from slatewise.evaluation import ModelRecommender as ModelRecommender
    from slatewise.evaluation import evaluate as evaluate
    from slatewise.model.config import ModelConfig as ModelConfig
    from slatewise.model.fitted import SlateModel as SlateModel
    from slatewise.selection import fit as fit
    from slatewise.slates import Recommender as Recommender
    from slatewise.training import TrainingConfig as TrainingConfig
    from slatewise.training import load as load
    from slatewise.training import save as save

__all__, __dir__, __getattr__ = exports(
    __name__,
    {
        "data.dataset": "SlateDataset",
        "data.preparation": "prepare",
        "evaluation": "ModelRecommender evaluate",
        "model.config": "ModelConfig",
        "model.fitted": "SlateModel",
        "selection": "fit",
        "slates": "Recommender",
        "training": "TrainingConfig load save",
    },
    modules="plot",
)
