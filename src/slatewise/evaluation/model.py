"""A fitted model as a recommender that can be judged."""

import copy
from collections.abc import Sequence
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.errors import SlatewiseError
from slatewise.evaluation.predictions import Predictions, Slates
from slatewise.evaluation.recommender import require_items, target_ranks, top_items
from slatewise.features.user_history import Histories, UserHistory
from slatewise.model.fitted import SlateModel
from slatewise.model.gaussian import keyed_noise
from slatewise.model.kernels.rows import unique_rows
from slatewise.model.parameters import Parameters
from slatewise.model.parts import refuse_device, require_device
from slatewise.model.profiles import known_profiles
from slatewise.model.steps import ClickSteps
from slatewise.model.utility import item_utilities, no_click_utilities, ranking_utilities
from slatewise.ranking.batched import BatchedTable
from slatewise.slates.second_stage import SecondStage
from slatewise.slates.terms_in_log import TermsInLog

_CELLS = {"cpu": 1 << 24, "cuda": 1 << 30}
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
        device: str = "cpu",
    ) -> None:
        """Take a model; one with popularity also needs the log, of which it reads only the past.

        On a GPU it predicts and ranks by the same draws. Features of terms come from the CPU, where
        terms that see slates also rank the best items again. Slates are those of 20 items unless
        `for_slates_of` says otherwise.
        """
        require_device(device)
        parts = model.posterior.parts
        own = parts.relevance, parts.dynamics, parts.initial_state
        refuse_device(own, device, "evaluated")
        self._model, self._log, self._device = model, log, torch.device(device)
        self._posterior = model.posterior
        if self._device.type != "cpu":
            self._posterior = copy.deepcopy(model.posterior)
            self._posterior.to_(device)
        self._cells = _CELLS[self._device.type]
        self._terms = model.terms.in_log(log)
        self._samples = samples
        self._seed = seed
        self._length = 20

    def for_slates_of(self, k: int) -> "ModelRecommender":
        """Return the same, where next clicks are ranked for slates of k items; see `SlateRanker`.

        The length matters to terms that see slates.
        """
        _ = self._ranking  # once for all lengths
        other = copy.copy(self)
        other._length = k
        return other

    @property
    def ranks_again(self) -> bool:
        """Whether terms rank the best items again, a slate at a time, which takes milliseconds."""
        return self._ranking.candidates > 0

    def predict(self, interactions: Interactions, scored: Tensor) -> Predictions:
        """Return the choice probabilities of the scored interactions; see `Predictor`.

        Without samples, by `Posterior.expected`, which knows how uncertain items are. With samples,
        probabilities are averaged over as many draws of everything uncertain.
        """
        slates = Slates.of(interactions, scored)
        described = self._terms.describe(interactions).to(self._device)
        marked = scored.to(self._device)
        with torch.no_grad():
            if not self._samples:
                cells, none = self._utilities(described, marked, 0)
                return Predictions.from_utilities(slates, cells.cpu(), none.cpu())
            offsets = torch.from_numpy(slates.offsets).to(self._device)
            cells, none = torch.full((2,), -torch.inf, device=self._device, dtype=torch.float64)
            for draw in range(self._samples):
                found = _log_probabilities(*self._utilities(described, marked, draw), offsets)
                # Probabilities are averaged, not utilities.
                cells, none = torch.logaddexp(cells, found[0]), torch.logaddexp(none, found[1])
        return Predictions.from_utilities(slates, cells.cpu(), none.cpu())

    def _utilities(
        self, interactions: Interactions, scored: Tensor, draw: int
    ) -> tuple[Tensor, Tensor]:
        """Return utilities of the items that could be chosen, and of no click: [F], [N]."""
        numbers, local, _ = unique_rows(interactions.slate_items)
        batch = interactions.with_items(local)
        parameters = self._parameters(numbers, draw)
        steps = ClickSteps.of(batch, parameters.evidence)
        profiles = known_profiles(parameters, batch, steps)
        utilities = item_utilities(parameters, profiles[steps.state_of], batch)
        no_click = no_click_utilities(parameters, batch)
        return utilities[batch.choices(scored)], no_click[scored]

    def _parameters(self, rows: Tensor, draw: int) -> Parameters:
        posterior = self._posterior
        if not self._samples:
            return posterior.expected(rows)
        # By item and not in turn, so that predictions do not depend on who else is predicted.
        noise = keyed_noise((self._seed, draw), rows, posterior.config.item_columns)
        items = posterior.items.rows(rows).sample(noise)
        # From the CPU, so that all devices have the same draws.
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + draw)
        values, ranking = self._model.posterior.draw_shared(generator)
        values = {name: value.to(self._device) for name, value in values.items()}
        return posterior.parameters(
            items, values, None if ranking is None else ranking.to(self._device)
        )

    def rank(
        self,
        interactions: Interactions,
        k: int,
        *,
        exclude: Tensor | None = None,
        times: Tensor | None = None,
    ) -> Tensor:
        """Return the k best items after all these interactions, as greedy serving ranks them.

        Where terms see whole slates, such as the network, in two stages. See `Ranker`. What is
        popular is what was known at `times` [B], or without any, after the last of all these
        interactions. Slates are for the source of most training slates.
        """
        with torch.no_grad():
            parameters, profiles, steps = self._followed(interactions)
            last = profiles[steps.last_state]  # [B, D]
            exclude = None if exclude is None else exclude.to(self._device)
            if self._table is not None:
                return _nearest(self._table, last, k, exclude).cpu()
            if times is None:
                moment = int(interactions.times.max()) + 1 if len(interactions.times) else 0
                times = torch.full((len(last),), moment)
            histories = Histories(interactions)
            best = []
            most = self._cells // len(parameters.items) or 1
            order = torch.argsort(times, stable=True)  # who asks together shares what is popular
            for rows in torch.split(order, most):
                known = histories.whole(rows) if self._ranking.need_histories else []
                scores = self._scores(parameters, last[rows], times[rows], known)
                if not self._ranking.candidates:
                    best.append(top_items(scores, k, exclude))
                    continue
                available = scores.shape[1] - (0 if exclude is None else int(exclude.sum()))
                count = max(k, min(self._ranking.candidates, available))
                found = top_items(scores, count, exclude)
                usual = torch.full((len(rows),), self._model.terms.usual_source)
                asked = last[rows], times[rows], usual, histories.whole(rows)
                best.append(self._ranked_again(found, *asked, k)[:, :k])
            return _in_place(torch.cat(best).cpu(), order)

    def target_ranks(self, interactions: Interactions, scored: Tensor) -> Tensor:
        """Return the rank of each next click among all items; see `Ranker`.

        By which greedy serving would have ranked all items then, and where terms see whole slates
        the best of them again, for the source of the slate that was shown; a click that is not
        among these keeps its rank. Of several clicks on one slate each finds the user where the
        clicks before have left her; what she met is what she had met before the slate, as in
        training.
        """
        with torch.no_grad():
            parameters, profiles, steps = self._followed(interactions)
            clicked = (scored & (interactions.clicks >= 0)).nonzero()[:, 0]  # [M]
            order = torch.argsort(interactions.times[clicked], stable=True)
            clicked = clicked[order]  # in time, as in `rank`
            states = profiles[steps.state_of[clicked.to(self._device)]]
            times, sources = interactions.times[clicked], interactions.sources[clicked]
            targets = interactions.clicked_items[clicked].long().to(self._device)
            if self._table is not None:
                return _in_place(self._table.ranks(states, targets).cpu(), order)
            histories = Histories(interactions)

            def score(rows: slice) -> Tensor:
                known = histories.before(clicked[rows]) if self._ranking.need_histories else []
                return self._scores(parameters, states[rows], times[rows], known)

            count = min(max(self._ranking.candidates, self._length), len(parameters.items))

            def again(rows: slice, scores: Tensor, ranks: Tensor) -> Tensor:
                near = (ranks <= count).nonzero()[:, 0]
                found, here = top_items(scores[near], count), near.cpu()
                known = histories.before(clicked[rows][here])
                asked = states[rows][near], times[rows][here], sources[rows][here], known
                ranked = self._ranked_again(found, *asked, self._length)
                placed = (ranked == targets[rows][near].cpu()[:, None]).nonzero()[:, 1]
                return ranks.index_copy(0, near, 1 + placed.to(ranks))

            ranks = target_ranks(
                score,
                targets,
                len(parameters.items),
                cells=self._cells,
                again=again if self._ranking.candidates else None,
            )
            return _in_place(ranks.cpu(), order)

    def _ranked_again(
        self,
        found: Tensor,
        profiles: Tensor,
        times: Tensor,
        sources: Tensor,
        histories: Sequence[UserHistory],
        length: int,
    ) -> Tensor:
        """Rank the best items [C, K] of profiles [C, D] again for slates, on the CPU: [C, K].

        The slates are shown at `sources` [C].
        """
        parameters, best = self._expected, np.empty(found.shape, np.int64)
        asked = zip(histories, sources.tolist(), times.tolist(), strict=True)
        for row, (history, source, time) in enumerate(asked):
            some, candidates = parameters.of_items(found[row]), found[row].cpu().numpy()
            own = ranking_utilities(some, profiles[row, None], 0.0)[0].double().cpu().numpy()
            terms = self._ranking.in_list(history, candidates, source, time, length)
            stage = SecondStage(terms, candidates, own, length)
            best[row] = stage.ranked(stage.mean)
        return torch.from_numpy(best)

    @cached_property
    def _ranking(self) -> TermsInLog:
        return TermsInLog(self._model.posterior, self._model.terms, self._log)

    @cached_property
    def _table(self) -> BatchedTable | None:
        """Items as a GPU ranks them tile by tile, where nothing is added to their distance."""
        by_distance = self._expected.parts.relevance.ranking == "distance"
        adds = self._ranking.rank or self._expected.biases is not None
        if self._device.type == "cpu" or not by_distance or adds:
            return None
        table = BatchedTable(self._posterior.items.mean, self._posterior.items.scale)
        return table if table.takes_tiles else None

    @cached_property
    def _expected(self) -> Parameters:
        return self._posterior.expected()

    def _followed(self, interactions: Interactions) -> tuple[Parameters, Tensor, ClickSteps]:
        """Return the closed form, and the profiles [M, D] that interactions lead to by it."""
        parameters, interactions = self._expected, interactions.to(self._device)
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
        # What terms add comes from the CPU.
        weights = parameters if self._device.type == "cpu" else self._model.posterior.mean()
        added = self._ranking.added(weights, times, histories, self._device)
        return ranking_utilities(parameters, profiles, added)


def _nearest(table: BatchedTable, profiles: Tensor, k: int, exclude: Tensor | None) -> Tensor:
    """Return the k nearest items of profiles [B, D], but those excluded [I]: [B, k]."""
    none = torch.zeros(0, dtype=torch.int64, device=profiles.device)
    if exclude is None:
        require_items(k, len(table.mean))
        return table.rank_means(profiles, k, (none, none))
    left = (~exclude).nonzero()[:, 0]
    require_items(k, len(left))
    some = BatchedTable(table.mean[left], table.scale[left])
    return left[some.rank_means(profiles, k, (none, none))]


def _in_place(rows: Tensor, order: Tensor) -> Tensor:
    """Put rows [M, …] back where they were before they were put in an order [M]."""
    return torch.empty_like(rows).index_copy_(0, order, rows)


def _log_probabilities(items: Tensor, no_click: Tensor, offsets: Tensor) -> tuple[Tensor, Tensor]:
    """Return the log of a softmax over the items of a slate [F] and no click [N], in doubles."""
    items, no_click = items.double(), no_click.double()
    row = torch.repeat_interleave(offsets.diff())  # [F]
    top = no_click.scatter_reduce(0, row, items, "amax")
    total = (no_click - top).exp().index_add(0, row, (items - top[row]).exp())
    normaliser = top + total.log()
    return items - normaliser[row], no_click - normaliser


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
