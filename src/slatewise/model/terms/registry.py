"""The terms with features there are; a new one is its module, and a line here and in `Term`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from slatewise.model.terms.term import FeatureTerm

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

TERMS: Final = {
    "history": "HistoryTerm",
    "popularity": "PopularityTerm",
    "propensity": "PropensityTerm",
}
"""Module and class of each, in the order of their columns, however a configuration names them.
A module is loaded for a model that has the term: others do without what it needs."""


def terms_of(config: "ModelConfig", acts_on: str | None = None) -> dict[str, type[FeatureTerm]]:
    """Return the terms of a model by name; only those that act on items, or on no click."""
    loaded = {name: _load(name) for name in TERMS if name in config.terms}
    return {name: term for name, term in loaded.items() if acts_on in (None, term.acts_on)}


def _load(name: str) -> Any:
    return getattr(import_module(f"slatewise.model.terms.{name}"), TERMS[name])
