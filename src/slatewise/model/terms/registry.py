"""The terms of a model by name."""

from typing import TYPE_CHECKING, Any

from slatewise.model.registry import TERMS

if TYPE_CHECKING:
    from slatewise.model.config import ModelConfig


def terms_of(config: "ModelConfig", acts_on: str | None = None) -> dict[str, Any]:
    """Return the terms with features of a model; only those that act on items, or on no click."""
    loaded = {name: TERMS[name] for name in sorted(config.terms)}
    return {
        name: term
        for name, term in loaded.items()
        if term.has_features and acts_on in (None, term.acts_on)
    }
