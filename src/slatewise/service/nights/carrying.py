"""A model on the items of another log: its own by id, others as predicted, no training."""

from dataclasses import replace

import numpy as np
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.model.fitted import SlateModel
from slatewise.model.item_features import ItemFeatures
from slatewise.model.posterior import Posterior
from slatewise.training.warm import take_over


def by_text(model: SlateModel) -> SlateModel:
    """Return the model with its items known by text, as everything in a service is."""
    return replace(model, item_ids=[str(item) for item in model.item_ids])


def carried_to(
    model: SlateModel, dataset: SlateDataset, features: ItemFeatures | None = None
) -> SlateModel:
    """Return what the model would say of a dataset's items, knowing nothing of its interactions.

    An item that it does not know gets what its group predicts, and its features for a model that
    was trained with features, as it does when it is served.
    """
    groups = torch.tensor(dataset.item_groups, dtype=torch.int64)
    longest = int(np.diff(dataset.slate_offsets).max())
    # A source of which there was no slate lately is still one that the model knows.
    gone = [name for name in model.config.evidence if name not in dataset.source_names]
    sources = [*dataset.source_names, *gone]
    generator = torch.Generator().manual_seed(0)
    matrix = None if features is None else features.matrix
    posterior = Posterior(
        model.config, groups, dataset.group_names, longest, generator, sources, matrix
    )
    take_over(posterior, model, dataset)
    return SlateModel(
        posterior,
        dataset.item_ids.to_list(),
        dataset.group_names,
        sources,
        torch.zeros(len(groups)),
        terms=model.terms,
        item_encoder=None if features is None else features.encoder,
    )
