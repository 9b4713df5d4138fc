"""Candidates that may be added to a model: a term, item features, evidence of a source."""

from typing import Final, NamedTuple

from slatewise.data.dataset import SlateDataset
from slatewise.model.config import ModelConfig
from slatewise.model.registry import TERMS

EVIDENCE: Final = "evidence from "
FEATURES: Final = "features"


class Choice(NamedTuple):
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

    Item features are a candidate only if there are any (`described`).
    """
    terms = [term for term in TERMS if term not in model.terms]
    obstacles = {term: TERMS[term].obstacle(dataset) for term in terms}
    impossible = {term: why for term, why in obstacles.items() if why is not None}
    sources = [name for name in dataset.source_names if name not in model.evidence]
    names = [*terms, *[FEATURES] * described, *(EVIDENCE + source for source in sources)]
    return [name for name in names if name not in impossible], impossible


def added(choice: Choice, name: str) -> Choice:
    """Return a choice with one more candidate; item features also predict, and so add, biases."""
    model = choice.model
    if name.startswith(EVIDENCE):
        evidence = (*model.evidence, name.removeprefix(EVIDENCE))
        return choice._replace(model=model.model_copy(update={"evidence": evidence}))
    term = "bias" if name == FEATURES else name
    terms = model.terms if term in model.terms else (*model.terms, term)
    described = choice.described or name == FEATURES
    return Choice(model.model_copy(update={"terms": terms}), described)
