"""All predictions of one part of a dataset, where that fits in memory."""

from slatewise.data import SlateDataset
from slatewise.evaluation.evaluate import BATCH_USERS, batches, checked, scored_users
from slatewise.evaluation.parts import Part, scored_interactions
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import Predictor


def predict_part(recommender: Predictor, dataset: SlateDataset, part: Part) -> Predictions:
    """Predict every interaction of a part, one step ahead; users are those of the dataset."""
    parts = []
    for here, batch in batches(dataset, scored_users(dataset, part), part, BATCH_USERS):
        scored = scored_interactions(batch, part)
        predictions = checked(recommender.predict(batch, scored), Slates.of(batch, scored))
        parts.append(predictions.of_users(here))
    return Predictions.concatenate(parts)
