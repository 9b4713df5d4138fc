"""The terms with features there are; a new one is its module, and a line here and in `Term`."""

from typing import TYPE_CHECKING, Final

from slatewise.model.terms.history import HistoryTerm
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.model.terms.propensity import PropensityTerm
from slatewise.model.terms.term import FeatureTerm

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig

TERMS: Final[dict[str, type[FeatureTerm]]] = {
    "history": HistoryTerm,
    "popularity": PopularityTerm,
    "propensity": PropensityTerm,
}
"""In the order of their columns, however a configuration names them."""


def terms_of(config: "ModelConfig", acts_on: str | None = None) -> dict[str, type[FeatureTerm]]:
    """Return the terms of a model by name; only those that act on items, or on no click."""
    return {
        name: term
        for name, term in TERMS.items()
        if name in config.terms and acts_on in (None, term.acts_on)
    }
