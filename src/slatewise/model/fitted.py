"""A fitted model: the posterior, and what its numbers stand for."""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.errors import SlatewiseError
from slatewise.model.gaussian import Gaussian
from slatewise.model.kernels.slate import split_bias
from slatewise.model.posterior import Posterior
from slatewise.model.terms import FittedTerms
from slatewise.notebook import html_table
from slatewise.words import counted

if TYPE_CHECKING:
    from slatewise.features.item_features import ItemEncoder
    from slatewise.model.config import ModelConfig

FloatArray = npt.NDArray[np.float32]
ItemId = int | str


@dataclass(repr=False)
class SlateModel:
    """What training leaves: look at it, evaluate it, recommend with it."""

    posterior: Posterior
    item_ids: list[ItemId]
    """[I] the ids people know items by"""
    group_names: list[str]
    """[G]"""
    source_names: list[str]
    """where slates come from"""
    views: Tensor
    """[I] how often each item was seen in training; if never, in that of the model it began from"""
    calibration: dict[str, Any] | None = None
    """temperature and no-click offset of each source, fitted on validation users"""
    metrics: dict[str, Any] = field(default_factory=dict)
    """what training measured"""
    terms: FittedTerms = field(default_factory=FittedTerms)
    """what the features of the utility's terms are computed with"""
    item_encoder: "ItemEncoder | None" = None
    """how features of items are made of their columns, where the model has any"""
    history: list[dict[str, Any]] = field(default_factory=list)
    """one record per epoch of training: stage, epoch, validation likelihood, rate; or none"""

    def __repr__(self) -> str:
        """Return what kind of model it is, and of how many items and groups."""
        return (
            f"SlateModel({self.config.name}; {self.config.dimensions} dimensions, "
            f"{counted(len(self.item_ids), 'item')} in {counted(len(self.group_names), 'group')})"
        )

    def _repr_html_(self) -> str:
        facts: dict[str, object] = {
            "model": self.config.name,
            "terms": ", ".join(self.config.terms) or "none",
            "evidence": ", ".join(self.config.evidence) or "none",
            "dimensions": self.config.dimensions,
            "items": f"{len(self.item_ids):,}",
            "groups": f"{len(self.group_names):,}",
            "sources": ", ".join(self.source_names),
            **{
                name.replace("_", " "): f"{value:.4f}" if isinstance(value, float) else value
                for name, value in self.metrics.items()
                if value is not None
            },
        }
        return html_table("SlateModel", ("", ""), [*facts.items()])

    @property
    def config(self) -> "ModelConfig":
        """What kind of model this is."""
        return self.posterior.config

    def with_beliefs(
        self, ids: Sequence[ItemId], means: FloatArray, scales: FloatArray
    ) -> "SlateModel":
        """Return the model with other beliefs about items, [R, D + 1] each, biases last.

        Of an id that is given twice, the last counts. Items that the model does not know come last,
        without a group, which a warm start does not need.
        """
        index = {item: number for number, item in enumerate(self.item_ids)}
        new = [item for item in dict.fromkeys(ids) if item not in index]
        index |= {item: len(index) + number for number, item in enumerate(new)}
        posterior, items = copy(self.posterior), self.posterior.items
        added = items.mean.new_zeros(len(new), items.mean.shape[1])
        mean, raw = torch.cat([items.mean, added]), torch.cat([items.raw, added])
        vectors, spreads = (
            torch.from_numpy(part)[:, : mean.shape[1]].to(mean) for part in (means, scales)
        )
        moved = items.raw_of(spreads, least=1e-4, most=0.999)
        for item, vector, one in zip(ids, vectors, moved, strict=True):
            mean[index[item]], raw[index[item]] = vector, one
        posterior.items = Gaussian(mean, raw, items.sigma_max)
        views = torch.cat([self.views, self.views.new_zeros(len(new))])
        return replace(self, posterior=posterior, item_ids=[*self.item_ids, *new], views=views)

    @property
    def exploration_note(self) -> str | None:
        """Why draws of this model explore too little, or None if they do not."""
        return self.config.exploration_note

    @property
    def item_vectors(self) -> FloatArray:
        """[I, D] posterior means of the item vectors."""
        return self._columns(self.posterior.items.mean)

    @property
    def item_scales(self) -> FloatArray:
        """[I, D] posterior standard deviations of the item vectors."""
        return self._columns(self.posterior.items.scale)

    @property
    def item_biases(self) -> FloatArray:
        """[I] posterior means of the item biases; 0 where the model has none."""
        return self._bias(self.posterior.items.mean)

    @property
    def bias_scales(self) -> FloatArray:
        """[I] posterior standard deviations of the item biases; 0 where the model has none."""
        return self._bias(self.posterior.items.scale)

    @property
    def evidence(self) -> dict[str, tuple[float, float, float]]:
        """ρ by source, with the ends of its central 90 %.

        It is how far a slate without a click moves the user towards its items, or away from them.
        """
        if not self.config.evidence:
            return {}
        raw = self.posterior.shared["evidence"]
        middle, reach = raw.mean.detach(), 1.6449 * raw.scale.detach()
        ends = (torch.tanh(part).tolist() for part in (middle, middle - reach, middle + reach))
        return dict(zip(self.config.evidence, zip(*ends, strict=True), strict=True))

    @property
    def term_weights(self) -> list[dict[str, Any]]:
        """What each feature adds to a utility where it has its typical size, most first.

        One record per feature: its `term`, `feature`, meaning in `words`, what it `acts_on`, the
        posterior `mean` and `scale` of its weight, and the weight by which it `ranks` the
        catalogue, None if it does not.
        """
        posterior, names = self.posterior, self.posterior.parts.ranking_names
        ranks = {name: posterior.shared[name].mean for name in names}
        if posterior.ranking is not None:
            ranks = posterior.by_term(names, posterior.ranking.mean)
        rows = [
            {
                "term": name,
                "feature": column,
                "words": term.words(column),
                "acts_on": term.acts_on,
                "mean": posterior.shared[name].mean[index].item(),
                "scale": posterior.shared[name].scale[index].item(),
                "ranks": ranks[name][index].item() if name in ranks else None,
            }
            for name, term in self.terms.by_name.items()
            for index, column in enumerate(term.columns(self.config))
        ]
        return sorted(rows, key=lambda row: -abs(row["mean"]))

    def _columns(self, items: Tensor) -> FloatArray:
        vectors, _ = split_bias(items.detach().cpu(), self.config.dimensions)
        return np.ascontiguousarray(vectors.numpy())

    def _bias(self, items: Tensor) -> FloatArray:
        _, biases = split_bias(items.detach().cpu(), self.config.dimensions)
        return np.zeros(len(items), np.float32) if biases is None else biases.numpy().copy()

    @cached_property
    def _numbers(self) -> dict[ItemId, int]:
        return {item: number for number, item in enumerate(self.item_ids)}

    def number_of(self, item: ItemId) -> int:
        """Return the row of an item in every array over items."""
        try:
            return self._numbers[item]
        except KeyError:
            raise SlatewiseError(
                f"the model knows no item {item!r}.",
                f"Item ids are {type(self.item_ids[0]).__name__}, such as {self.item_ids[0]!r}.",
            ) from None

    def group_of(self, item: ItemId) -> str:
        """Return the group of an item."""
        return self.group_names[int(self.posterior.item_groups[self.number_of(item)])]

    def similar_items(self, item: ItemId, k: int = 10) -> list[tuple[ItemId, float]]:
        """Return the k most relevant other items to a user who is where an item is, best first.

        By posterior means, with the relevance: of a distance model, the nearest, with −distance.
        """
        number = self.number_of(item)
        vectors = split_bias(self.posterior.items.mean.detach(), self.config.dimensions)[0]
        relevance = self.posterior.parts.relevance.exact(vectors[number, None], vectors)[0]
        relevance[number] = -torch.inf
        best = torch.topk(relevance, min(k, len(relevance) - 1))
        return [
            (self.item_ids[n], value)
            for n, value in zip(best.indices.tolist(), best.values.tolist(), strict=True)
        ]
