"""What may be added to a model, each by a name: a term, or evidence from a source."""

from typing import Final, cast, get_args

import numpy as np

from slatewise.data.dataset import SlateDataset
from slatewise.model.config import ModelConfig, Term

EVIDENCE: Final = "evidence from "


def candidates_of(model: ModelConfig, dataset: SlateDataset) -> tuple[list[str], dict[str, str]]:
    """Return what can be added, and what cannot with the reason."""
    impossible = {}
    if not dataset.meta["clock_times"]:
        impossible["popularity"] = "the times of the log are only an order"
    if not (np.diff(dataset.slate_offsets) > 1).any():
        impossible["position"] = "every slate has one item"
    terms = [term for term in get_args(Term) if term not in model.terms]
    sources = [name for name in dataset.source_names if name not in model.evidence]
    names = [*terms, *(EVIDENCE + source for source in sources)]
    return [name for name in names if name not in impossible], impossible


def added(model: ModelConfig, name: str) -> ModelConfig:
    """Return the configuration with a candidate more."""
    if name.startswith(EVIDENCE):
        evidence = (*model.evidence, name.removeprefix(EVIDENCE))
        return model.model_copy(update={"evidence": evidence})
    return model.model_copy(update={"terms": (*model.terms, cast("Term", name))})
