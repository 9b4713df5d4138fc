"""Candidates that may be added to a model: a term, item features, evidence of a source."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from slatewise.data.dataset import SlateDataset
from slatewise.model.config import ModelConfig
from slatewise.model.registry import TERMS

EVIDENCE: Final = "evidence from "
FEATURES: Final = "features"


class ModelChoice(NamedTuple):
    """A model that a selection may choose."""

    model: ModelConfig
    described: bool = False
    """whether it has item features"""

    @property
    def name(self) -> str:
        """Name in tables and files."""
        return self.model.name + f"+{FEATURES}" * self.described


def candidates_of(
    model: ModelConfig, dataset: SlateDataset, *, described: bool = False
) -> tuple[list[str], dict[str, str]]:
    """Return the names of the candidates, and of those that are impossible with the reason.

    Item features are a candidate only if there are any (`described`). A term named by its import
    path belongs to the model that names it, and is no candidate for others.
    """
    others = [term for term in TERMS if ":" not in term and term not in model.terms]
    terms = [t for t in others if not (TERMS[t].automatic or TERMS[t].first_stage)]
    obstacles = {term: TERMS[term].obstacle(dataset) for term in terms}
    impossible = {term: why for term, why in obstacles.items() if why is not None}
    sources = [name for name in dataset.source_names if name not in model.evidence]
    names = [*terms, *[FEATURES] * described, *(EVIDENCE + source for source in sources)]
    return [name for name in names if name not in impossible], impossible


def first_stage_of(model: ModelConfig, dataset: SlateDataset) -> tuple[list[str], dict[str, str]]:
    """Return the terms of the first stage that a model has or should have, and why not others.

    Slates say nothing of these: held-out clicks weigh them in the training of the chosen model.
    """
    terms = [term for term in TERMS if ":" not in term and TERMS[term].first_stage]
    obstacles = {t: TERMS[t].default_obstacle(dataset) for t in terms if t not in model.terms}
    unfit = {term: why for term, why in obstacles.items() if why is not None}
    return [term for term in terms if term not in unfit], unfit


def with_all(choice: ModelChoice, names: Sequence[str]) -> ModelChoice:
    """Return a choice with candidates added; item features also predict, and so add, biases."""
    terms = [name for name in names if name in TERMS]
    terms += ["bias"] * (FEATURES in names)
    sources = [name.removeprefix(EVIDENCE) for name in names if name.startswith(EVIDENCE)]
    update = {
        "terms": tuple(dict.fromkeys([*choice.model.terms, *terms])),
        "evidence": (*choice.model.evidence, *sources),
    }
    return ModelChoice(
        choice.model.model_copy(update=update), choice.described or FEATURES in names
    )


def without(choice: ModelChoice, name: str) -> ModelChoice:
    """Return a choice without one of its candidates; without biases, it has no features either."""
    model = choice.model
    update = {
        "terms": tuple(term for term in model.terms if term != name),
        "evidence": tuple(one for one in model.evidence if EVIDENCE + one != name),
    }
    described = choice.described and name not in {FEATURES, "bias"}
    return ModelChoice(model.model_copy(update=update), described)
