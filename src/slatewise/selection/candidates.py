"""What may be added to a model, each by a name: a term, features of items, evidence of a source."""

from typing import Final, NamedTuple, cast, get_args

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.model.config import ModelConfig, Term

EVIDENCE: Final = "evidence from "
FEATURES: Final = "features"


class Choice(NamedTuple):
    """A model that a selection may come to."""

    model: ModelConfig
    described: bool = False
    """whether the features of items are in it"""

    @property
    def name(self) -> str:
        """What it is called in tables and files."""
        return self.model.name + f"+{FEATURES}" * self.described


def candidates_of(
    model: ModelConfig, dataset: SlateDataset, *, described: bool = False
) -> tuple[list[str], dict[str, str]]:
    """Return what can be added, and what cannot with the reason; `described`: items have features.

    Without any, features are not among the candidates: nobody asked for them.
    """
    impossible = {}
    if not dataset.meta["clock_times"]:
        impossible["popularity"] = "the times of the log are only an order"
    if not (np.diff(dataset.slate_offsets) > 1).any():
        impossible["position"] = "every slate has one item"
    terms = [term for term in get_args(Term) if term not in model.terms]
    sources = [name for name in dataset.source_names if name not in model.evidence]
    names = [*terms, *[FEATURES] * described, *(EVIDENCE + source for source in sources)]
    return [name for name in names if name not in impossible], impossible


def added(choice: Choice, name: str) -> Choice:
    """Return a choice with a candidate more; features speak of biases too, and bring them along."""
    model = choice.model
    if name.startswith(EVIDENCE):
        evidence = (*model.evidence, name.removeprefix(EVIDENCE))
        return choice._replace(model=model.model_copy(update={"evidence": evidence}))
    term = cast("Term", "bias" if name == FEATURES else name)
    terms = model.terms if term in model.terms else (*model.terms, term)
    described = choice.described or name == FEATURES
    return Choice(model.model_copy(update={"terms": terms}), described)
