"""A fitted model as a recommender that can be judged."""

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import target_ranks, top_items
from slatewise.model.dynamics import ClickSteps
from slatewise.model.fitted import SlateModel
from slatewise.model.kernels.rows import unique_rows
from slatewise.model.parameters import Parameters
from slatewise.model.predicting import known_profiles

_CELLS = 1 << 24
"""Scores of users x items held at once."""


class ModelRecommender:
    """Predicts and ranks by the posterior mean, or averages predictions over posterior draws."""

    def __init__(
        self,
        model: SlateModel,
        *,
        samples: int = 0,
        seed: int = 0,
        log: SlateDataset | None = None,
    ) -> None:
        """Take a model; one with popularity also needs the log, of which it reads only the past."""
        self._model = model
        self._terms = model.terms.in_log(log)
        self._samples = samples
        self._seed = seed

    def predict(self, interactions: Interactions, scored: Tensor) -> Predictions:
        """Return the choice probabilities of the scored interactions; see `Predictor`.

        With samples, probabilities are averaged over as many draws of everything uncertain.
        """
        slates = Slates.of(interactions, scored)
        interactions = self._terms.describe(interactions)
        with torch.no_grad():
            draws = [
                self._predict(interactions, scored, slates, draw)
                for draw in range(max(1, self._samples))
            ]
        if len(draws) == 1:
            return draws[0]
        # Probabilities are averaged, not utilities.
        cells = np.logaddexp.reduce([draw.log_probabilities for draw in draws])
        none = np.logaddexp.reduce([draw.no_click_log_probabilities for draw in draws])
        return Predictions.from_utilities(slates, cells, none)

    def _predict(
        self, interactions: Interactions, scored: Tensor, slates: Slates, draw: int
    ) -> Predictions:
        numbers, local, _ = unique_rows(interactions.slate_items)
        batch = interactions.with_items(local)
        parameters = self._parameters(numbers, draw)
        steps = ClickSteps.of(batch, parameters.evidence)
        profiles = known_profiles(parameters, self._model.config, batch, steps)
        lengths = batch.scroll_lengths
        states = profiles[steps.state_of[scored]]  # [n, D]
        seen = torch.repeat_interleave(scored, lengths)
        rows = batch.slate_items[seen]  # [F]
        gaps = torch.repeat_interleave(states, lengths[scored], dim=0) - parameters.vectors_of(rows)
        utilities = -torch.linalg.vector_norm(gaps, dim=1)
        if parameters.biases is not None:
            utilities = utilities + parameters.biases[rows]
        passing = parameters.passing(batch)
        if passing is not None:
            utilities = utilities + passing[seen]
        no_click = parameters.no_click_in(batch)[scored]
        return Predictions.from_utilities(slates, utilities.numpy(), no_click.numpy())

    def _parameters(self, rows: Tensor, draw: int) -> Parameters:
        posterior = self._model.posterior
        if not self._samples:
            mean = posterior.mean()
            return replace(mean, items=mean.items[rows])
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + draw)
        return posterior.sample_around(posterior.items.rows(rows).sample(generator), generator)

    def rank(self, interactions: Interactions, k: int, *, exclude: Tensor | None = None) -> Tensor:
        """Return the k most relevant items after all these interactions; see `Ranker`."""
        with torch.no_grad():
            parameters = self._model.posterior.mean()
            steps = ClickSteps.of(interactions, parameters.evidence)
            profiles = known_profiles(parameters, self._model.config, interactions, steps)
            last = profiles[steps.last_state]  # [B, D]
            chunk = max(1, _CELLS // len(parameters.items))
            return torch.cat(
                [
                    top_items(parameters.lasting(part), k, exclude)
                    for part in torch.split(last, chunk)
                ]
            )

    def target_ranks(self, interactions: Interactions, scored: Tensor) -> Tensor:
        """Return the rank of each next click among all items; see `Ranker`."""
        with torch.no_grad():
            parameters = self._model.posterior.mean()
            steps = ClickSteps.of(interactions, parameters.evidence)
            profiles = known_profiles(parameters, self._model.config, interactions, steps)
            clicked = scored & (interactions.clicks >= 0)
            states = profiles[steps.state_of[clicked]]
            return target_ranks(
                lambda rows: parameters.lasting(states[rows]),
                interactions.clicked_items[clicked].long(),
                len(parameters.items),
                cells=_CELLS,
            )


def require_same_items(model: SlateModel, dataset: SlateDataset) -> None:
    """Refuse a dataset whose items, or sources if they matter, are not those of the model."""
    if dataset.item_ids.to_list() != model.item_ids:
        raise SlatewiseError(
            f"the items of {dataset.path} are not those of the run.",
            "Evaluate on the dataset it was trained on, or on one with the same items table.",
        )
    if model.config.evidence and dataset.source_names != model.source_names:
        raise SlatewiseError(
            f"the sources of {dataset.path} are not those of the run, in the same order.",
            "A model with evidence is evaluated on a log with the sources it was trained on.",
        )
