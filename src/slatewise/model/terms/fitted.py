"""The terms of a model, fitted to the log it was trained on and saved with it."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from slatewise.data.dataset import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.data.ragged import Int64Array
from slatewise.errors import SlatewiseError
from slatewise.features.showings import training_counts
from slatewise.model.registry import TERMS
from slatewise.model.terms.features import Describer
from slatewise.model.terms.known import NO_FACTS, NOBODY, Facts
from slatewise.model.terms.term import Describe, FeatureTerm, Ranks

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


@dataclass(frozen=True)
class FittedTerms:
    """What the features of a model are computed with."""

    by_name: dict[str, FeatureTerm] = field(default_factory=dict)
    """in the order of their columns"""
    usual_source: int = 0
    """where most training slates were shown: slates are made for it unless another is named"""
    sources: tuple[int, ...] = ()
    """for another log, the number that each of its sources had in training; else none"""

    @classmethod
    def fit(
        cls,
        config: "ModelConfig",
        dataset: SlateDataset,
        device: str = "cpu",
        doing: Callable[[str], None] = lambda what: None,
    ) -> "FittedTerms":
        """Fit those that the configuration names; none for the paper's model.

        `doing` is called with each that is about to be fitted, in words: networks take minutes.
        """
        terms = {}
        for name, term in feature_terms(config).items():
            doing(f"fitting the term {name}")
            terms[name] = term.fit_on(config, dataset, device)
        usual = int(training_counts(dataset)[:, 0].argmax())
        return cls(terms, usual)

    def in_log(self, log: SlateDataset | None) -> Describer:
        """Return what computes features in a log, of which only some terms need to know."""
        return _describer(
            self.by_name.values(), lambda term: self._in_own_sources(term.describe_in(log))
        )

    def _in_own_sources(self, describe: Describe) -> Describe:
        """Return what computes features of interactions whose sources have other numbers."""
        if not self.sources:
            return describe

        def renumbered(interactions: Interactions) -> Tensor:
            numbers = torch.tensor(self.sources, dtype=interactions.sources.dtype)
            own = numbers.to(interactions.sources.device)[interactions.sources.long()]
            return describe(replace(interactions, sources=own))

        return renumbered

    def in_training(self, log: SlateDataset) -> Describer:
        """Return what computes features of the log that the terms were fitted to, to train on."""
        there = [term for term in self.by_name.values() if not term.waits]
        return _describer(there, lambda term: term.describe_training(log))

    def on_items(
        self,
        known: Int64Array,
        groups: npt.NDArray[np.integer[Any]],
        described: Int64Array = NOBODY,
        facts: Mapping[str, Facts] | None = None,
        sources: Sequence[int] = (),
    ) -> "FittedTerms":
        """Return the terms for other items; of those `described`, facts by term say more.

        `sources` are the numbers that the sources of the other log had, −1 for new ones: these are
        taken for the usual one, as where slates are made.
        """
        moved = {
            name: term.on_items(known, groups, described, (facts or {}).get(name, NO_FACTS))
            for name, term in self.by_name.items()
        }
        numbers = tuple(self.usual_source if source < 0 else source for source in sources)
        return replace(self, by_name=moved, sources=numbers)

    def that_rank(self, ranks: Ranks) -> dict[str, FeatureTerm]:
        """Return the terms that rank in one way, by name and in the order of their columns."""
        return {name: term for name, term in self.by_name.items() if term.ranks == ranks}

    @property
    def with_state(self) -> dict[str, FeatureTerm]:
        """The terms that know what happens to items: those that rank all, or act in lists."""
        return {
            name: term
            for name, term in self.by_name.items()
            if term.ranks == "all items" or term.in_lists
        }

    @property
    def tensors(self) -> dict[str, Tensor]:
        """The arrays of all terms, as `term.array`, to be saved."""
        return {
            f"{name}.{key}": torch.from_numpy(array)
            for name, term in self.by_name.items()
            for key, array in term.arrays.items()
        }

    def to_json(self) -> dict[str, Any]:
        """Return plain values, to be saved."""
        return {name: term.model_dump() for name, term in self.by_name.items()}

    @classmethod
    def from_json(
        cls,
        stored: Mapping[str, Any],
        config: "ModelConfig",
        where: str,
        tensors: Mapping[str, Tensor],
        usual_source: int = 0,
    ) -> "FittedTerms":
        """Take over `to_json` and `tensors`, refusing terms that are not those of the model."""
        wanted = feature_terms(config)
        if stored.keys() != wanted.keys():
            raise SlatewiseError(
                f"{where}: the terms are not those of the model.",
                "The files of a run belong together: copy the whole directory.",
            )
        terms = {}
        for name, term in wanted.items():
            own = {key: t.numpy() for key, t in tensors.items() if key.startswith(f"{name}.")}
            arrays = {key.removeprefix(f"{name}."): array for key, array in own.items()}
            terms[name] = term.restore(stored[name], arrays, f"{where}, terms.{name}")
        return cls(terms, usual_source)


def _describer(
    terms: Collection[FeatureTerm], describe: Callable[[FeatureTerm], Describe]
) -> Describer:
    of_items, of_no_click = (
        [describe(term) for term in terms if term.acts_on == target]
        for target in ("items", "no click")
    )
    return Describer(of_items, of_no_click)


def feature_terms(config: "ModelConfig") -> dict[str, type[FeatureTerm]]:
    """Return the terms of a model that have features, in the order of their columns."""
    return {name: term for name, term in named_terms(config).items() if term.has_features}


def with_automatic_terms(config: "ModelConfig", dataset: SlateDataset) -> "ModelConfig":
    """Add the terms that a model of this log has without being asked for."""
    named = named_terms(config)
    added = tuple(
        name
        for name in TERMS.names
        if TERMS[name].automatic and name not in named and TERMS[name].obstacle(dataset) is None
    )
    return config.model_copy(update={"terms": (*config.terms, *added)}) if added else config


def named_terms(config: "ModelConfig") -> dict[str, Any]:
    """Return the terms of a model by their own names, which import paths are not, in order."""
    terms = [TERMS[name] for name in config.terms]
    return {term.name: term for term in sorted(terms, key=lambda term: str(term.name))}
