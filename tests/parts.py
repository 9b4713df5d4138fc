"""Which of the registered parts some models have, to see that tests and benchmarks have all."""

from collections.abc import Iterable
from typing import Any

from slatewise.model.config import ModelConfig
from slatewise.model.registry import DYNAMICS, INITIAL_STATES, PRIORS, RELEVANCES, TERMS

ONE_OF = {
    "relevance": RELEVANCES,
    "dynamics": DYNAMICS,
    "prior": PRIORS,
    "initial_state": INITIAL_STATES,
}


def all_parts() -> set[str]:
    terms = {f"term {name}" for name in TERMS.names}
    return terms.union(*({f"{kind} {n}" for n in of.names} for kind, of in ONE_OF.items()))


def parts_of(models: Iterable[dict[str, Any]]) -> set[str]:
    """Name the parts that models of these settings have."""
    found = set()
    for config in (ModelConfig(**settings) for settings in models):
        found |= {f"term {name}" for name in config.terms}
        found |= {f"{kind} {getattr(config, kind)}" for kind in ONE_OF}
    return found
