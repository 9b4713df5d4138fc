"""The versions that a new model is compared with: the one that serves, and the one before it."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from slatewise.data.dataset import SlateDataset
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.selection import SELECTION
from slatewise.service.nights.item_features import NO_FEATURES, WindowFeatures
from slatewise.service.serving.learned import LearnedItems
from slatewise.service.serving.models import Models
from slatewise.slates.predictive import Predictive
from slatewise.training import runs
from slatewise.training.warm import take_over


@dataclass(frozen=True)
class Version:
    """A version of a model, and how it was made."""

    name: str
    model: SlateModel
    """with its item ids as text, as everywhere in a service"""
    path: Path

    @classmethod
    def of(cls, name: str, model: SlateModel, models: Models) -> "Version":
        """Return a version of these models."""
        text = replace(model, item_ids=[str(item) for item in model.item_ids])
        return cls(name, text, models.path(name))

    @property
    def until(self) -> int | None:
        """The time until which it has learned from the log; None if it was made elsewhere."""
        until = self._retraining.get("until")
        return None if until is None else int(until)

    @property
    def best(self) -> str | None:
        """The version that was best of those that served before it; None if that is not known."""
        best = self._retraining.get("best")
        return None if best is None else str(best)

    @property
    def config(self) -> ModelConfig:
        """What it is, with sources that it was trained without because they had no slates."""
        intended = self._retraining.get("model")
        if intended is None:
            return self.model.config
        return ModelConfig.build(intended, str(self.path / runs.RUN))

    @property
    def training(self) -> dict[str, Any]:
        """How it was fitted; empty if that is not known."""
        return dict(runs.read_run(self.path).get("training", {}))

    @property
    def selection(self) -> Path | None:
        """The record of how its terms were chosen; None if they were not."""
        file = self.path / SELECTION
        return file if file.exists() else None

    @property
    def _retraining(self) -> dict[str, Any]:
        return dict(runs.read_run(self.path).get("retraining", {}))


def as_learned(version: Version) -> SlateModel:
    """Return a version with the item vectors that it has learned from answers since training.

    The next training starts from them.
    """
    learned = LearnedItems.read(version.path)
    if learned is None:
        return version.model
    # Of an item with several rows, as it has after its group changed, the last counts.
    return version.model.with_beliefs(learned.ids, learned.means, learned.scales)


def served_versions(models: Models) -> tuple[list[Version], list[str]]:
    """Read the version that serves and the one before it, as far as they are whole.

    Also return what is wrong with those that are not.
    """
    serving = models.load()
    now = models.current()
    if now is None:
        return [], []
    if serving is None:
        return [], [f"No version is whole, neither {now.version} nor one before it."]
    found = [Version.of(serving.version, serving.model, models)]
    past = (now.version, *now.previous)
    for name in past[past.index(serving.version) + 1 :]:
        try:
            found.append(Version.of(name, runs.load(models.bring(name)), models))
        except SlatewiseError:  # it does not serve: nothing is lost yet
            continue
        break
    return found, list(serving.problems)


def best_version(models: Models, versions: list[Version], since: int) -> Version | None:
    """Read the version that was best before these, if it has learned from what came after a time.

    None where that is one of these, or is not there any more.
    """
    name = versions[0].best if versions else None
    if name is None or name in [version.name for version in versions]:
        return None
    try:
        found = Version.of(name, runs.load(models.bring(name)), models)
    except SlatewiseError:
        return None
    return found if (found.until or 0) >= since else None


def transfer(
    model: SlateModel, dataset: SlateDataset, features: WindowFeatures = NO_FEATURES
) -> SlateModel:
    """Return the model on the items of a dataset, with nothing learned from its interactions.

    Items are matched by id. Of one that the model does not know it believes what it does where it
    is served (`Predictive`), by its group, which may be new too, and its features.
    """
    groups = torch.tensor(dataset.item_groups, dtype=torch.int64)
    longest = int(np.diff(dataset.slate_offsets).max())
    # A source of which there was no slate lately is still one that the model knows.
    absent = [name for name in model.config.evidence if name not in dataset.source_names]
    sources = [*dataset.source_names, *absent]
    generator = torch.Generator().manual_seed(0)
    prior = features.prior
    matrix = None if prior is None else prior.matrix
    posterior = Posterior(
        model.config, groups, dataset.group_names, longest, generator, sources, matrix
    )
    take_over(posterior, model, dataset)
    posterior.pool, posterior.ranking = model.posterior.pool, model.posterior.ranking
    index = {item: number for number, item in enumerate(model.item_ids)}
    before = {name: number for number, name in enumerate(model.source_names)}
    known = np.array([index.get(item, -1) for item in dataset.item_ids.to_list()], np.int64)
    numbers = _groups_as_known(dataset, model)
    _set_new_items(posterior, model, np.flatnonzero(known < 0), numbers)
    return SlateModel(
        posterior,
        dataset.item_ids.to_list(),
        dataset.group_names,
        sources,
        torch.zeros(len(groups)),
        terms=model.terms.on_items(
            known,
            numbers,
            features.described,
            features.facts,
            [before.get(name, -1) for name in dataset.source_names],
        ),
        item_encoder=None if prior is None else prior.encoder,
    )


def _set_new_items(
    posterior: Posterior, model: SlateModel, items: Int64Array, groups: Int64Array
) -> None:
    """Set new items [R] to what a model believes of them where it serves, by all groups [J]."""
    predictive, features = Predictive(model), posterior.features_of(torch.from_numpy(items))
    told = None if features is None else predictive.from_features(features.numpy())
    vectors, spreads, biases, bias_scales = predictive(groups[items], told)
    columns = model.config.item_columns
    means, scales = (
        torch.from_numpy(np.column_stack(parts)[:, :columns])
        for parts in ((vectors, biases), (spreads, bias_scales))
    )
    with torch.no_grad():
        posterior.items.mean[items] = means
        posterior.items.raw[items] = posterior.items.raw_of(scales, most=0.999)


def _groups_as_known(dataset: SlateDataset, model: SlateModel) -> npt.NDArray[np.int64]:
    """Return the group of each item of a dataset as a number of the model, of new ones the next."""
    numbers = {name: number for number, name in enumerate(model.group_names)}
    known = [numbers.get(name, len(numbers)) for name in dataset.group_names]
    return np.array(known, np.int64)[dataset.item_groups]
