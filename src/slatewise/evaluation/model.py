"""A fitted model as a recommender that can be judged."""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import target_ranks, top_items
from slatewise.features.user_history import Histories, UserHistory
from slatewise.model.fitted import SlateModel
from slatewise.model.gaussian import keyed_noise
from slatewise.model.kernels.rows import unique_rows
from slatewise.model.parameters import Parameters
from slatewise.model.profiles import known_profiles
from slatewise.model.steps import ClickSteps
from slatewise.model.utility import item_utilities, no_click_utilities, ranking_utilities
from slatewise.slates.additions import TermsInLog

_CELLS = 1 << 24
"""Scores of users x items held at once."""


class ModelRecommender:
    """Predicts in closed form or averages over posterior draws, and ranks in closed form."""

    def __init__(
        self,
        model: SlateModel,
        *,
        samples: int = 0,
        seed: int = 0,
        log: SlateDataset | None = None,
    ) -> None:
        """Take a model; one with popularity also needs the log, of which it reads only the past."""
        self._model, self._log = model, log
        self._terms = model.terms.in_log(log)
        self._samples = samples
        self._seed = seed

    def predict(self, interactions: Interactions, scored: Tensor) -> Predictions:
        """Return the choice probabilities of the scored interactions; see `Predictor`.

        Without samples, by `Posterior.expected`, which knows how uncertain items are. With samples,
        probabilities are averaged over as many draws of everything uncertain.
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
        profiles = known_profiles(parameters, batch, steps)
        seen = batch.choices(scored)
        utilities = item_utilities(parameters, profiles[steps.state_of], batch)[seen]
        no_click = no_click_utilities(parameters, batch)[scored]
        return Predictions.from_utilities(slates, utilities.numpy(), no_click.numpy())

    def _parameters(self, rows: Tensor, draw: int) -> Parameters:
        posterior = self._model.posterior
        if not self._samples:
            return posterior.expected(rows)
        # By item and not in turn, so that predictions do not depend on who else is predicted.
        noise = keyed_noise((self._seed, draw), rows, posterior.config.item_columns)
        items = posterior.items.rows(rows).sample(noise)
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + draw)
        return posterior.sample_around(items, generator)

    def rank(
        self,
        interactions: Interactions,
        k: int,
        *,
        exclude: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Return the k best items after all these interactions, as greedy serving would show them.

        See `Ranker`. What is popular is what was known at `times` [B], or without any, after the
        last of all these interactions.
        """
        with torch.no_grad():
            parameters, profiles, steps = self._followed(interactions)
            last = profiles[steps.last_state]  # [B, D]
            if times is None:
                moment = int(interactions.times.max()) + 1 if len(interactions.times) else 0
                times = torch.full((len(last),), moment)
            histories = Histories(interactions)
            best = []
            for rows in torch.split(torch.arange(len(last)), _CELLS // len(parameters.items) or 1):
                known = histories.whole(rows) if self._ranking.need_histories else []
                scores = self._scores(parameters, last[rows], times[rows], known)
                best.append(top_items(scores, k, exclude))
            return torch.cat(best)

    def target_ranks(self, interactions: Interactions, scored: Tensor) -> Tensor:
        """Return the rank of each next click among all items; see `Ranker`.

        Of utilities as greedy serving would have had them at that moment. Of several clicks on one
        slate each finds the user where the clicks before have left her; what she met is what she
        had met before the slate, as in training.
        """
        with torch.no_grad():
            parameters, profiles, steps = self._followed(interactions)
            clicked = (scored & (interactions.clicks >= 0)).nonzero()[:, 0]  # [M]
            states, times = profiles[steps.state_of[clicked]], interactions.times[clicked]
            histories = Histories(interactions)

            def score(rows: slice) -> Tensor:
                known = histories.before(clicked[rows]) if self._ranking.need_histories else []
                return self._scores(parameters, states[rows], times[rows], known)

            targets = interactions.clicked_items[clicked].long()
            return target_ranks(score, targets, len(parameters.items), cells=_CELLS)

    @cached_property
    def _ranking(self) -> TermsInLog:
        return TermsInLog(self._model.posterior, self._model.terms, self._log)

    def _followed(self, interactions: Interactions) -> tuple[Parameters, Tensor, ClickSteps]:
        """Return the closed form, and the profiles [M, D] that interactions lead to by it."""
        parameters = self._model.posterior.expected()
        steps = ClickSteps.of(interactions, parameters.evidence)
        profiles = known_profiles(parameters, interactions, steps)
        return parameters, profiles, steps

    def _scores(
        self,
        parameters: Parameters,
        profiles: Tensor,
        times: Tensor,
        histories: Sequence[UserHistory],
    ) -> Tensor:
        """Return the utilities of all items to profiles [C, D] at times [C]: [C, I]."""
        added = self._ranking.added(parameters, times, histories)
        return ranking_utilities(parameters, profiles, added)


def require_same_items(model: SlateModel, dataset: SlateDataset) -> None:
    """Refuse a dataset whose items, or sources if they matter, are not those of the model."""
    if dataset.item_ids.to_list() != model.item_ids:
        raise SlatewiseError(
            f"the items of {dataset.path} are not those of the run.",
            "Evaluate on the dataset it was trained on, or on one with the same items table.",
        )
    by_source = bool(model.config.evidence) or model.posterior.parts.by_source
    if by_source and dataset.source_names != model.source_names:
        raise SlatewiseError(
            f"the sources of {dataset.path} are not those of the run, in the same order.",
            "A model with evidence, or with a term that has numbers for each source, is evaluated "
            "on a log with the sources it was trained on.",
        )
