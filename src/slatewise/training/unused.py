"""Settings that were given and would change nothing: training refuses them, with the remedy.

Only what was given counts. Where one file of settings serves several models, as in studies, trials
of a selection and nights, each takes what matters to it (`without_unused`).
"""

from collections.abc import Iterator

from slatewise.errors import SlatewiseError
from slatewise.model.config import ONE_OF, ModelConfig
from slatewise.model.registry import DYNAMICS, TERMS
from slatewise.training.config import TrainingConfig


def matters(model: ModelConfig, name: str, *, item_features: bool = True) -> bool:
    """Return whether a setting, given or not, changes anything in a model."""
    return not _missing(model, name, item_features=item_features)


def unused_settings(model: ModelConfig, *, item_features: bool = True) -> dict[str, str]:
    """Return the given settings that change nothing in a model, each with what it is for."""
    missing = {
        name: _missing(model, name, item_features=item_features)
        for name in ModelConfig.settings()
        if model.is_given(name)
    }
    return {name: what for name, what in missing.items() if what}


def without_unused(model: ModelConfig, *, item_features: bool = True) -> ModelConfig:
    """Return the same model without given settings that change nothing."""
    return _without(model, list(unused_settings(model, item_features=item_features)))


def as_if_given(model: ModelConfig, *, item_features: bool) -> ModelConfig:
    """Return a model whose file holds all settings, defaults too, without defaults of no use."""
    defaults = ModelConfig.settings()
    unused = unused_settings(model, item_features=item_features)
    return _without(model, [n for n in unused if getattr(model, n) == defaults[n].get_default()])


def _without(model: ModelConfig, names: list[str]) -> ModelConfig:
    """Return the same model with some settings at their defaults, as if not given."""
    if not names:
        return model
    given = model.model_dump(exclude_unset=True)
    kept = {name: value for name, value in given.items() if name not in names}
    return ModelConfig.build(kept, "the model")


def training_of(model: ModelConfig, training: TrainingConfig) -> TrainingConfig:
    """Return how a model is trained, without an optimisation that is for other models."""
    if _other_optimisation(model, training) is None:
        return training
    return training.model_copy(update={"optimisation": "auto"})


def refuse_unused(model: ModelConfig, training: TrainingConfig, *, item_features: bool) -> None:
    """Refuse settings that were given and change nothing."""
    for name, what in unused_settings(model, item_features=item_features).items():
        raise SlatewiseError(
            f"the setting '{name}' changes nothing in this model, {model.name}: it is for {what}.",
            f"Leave it out, or train a model with {what}.",
        )
    what_for = _other_optimisation(model, training)
    if what_for is not None:
        raise SlatewiseError(
            f"the optimisation '{training.optimisation}' changes nothing in this model, "
            f"{model.name}: it is for {what_for}.",
            "Leave it out, or choose joint.",
        )


def _other_optimisation(model: ModelConfig, training: TrainingConfig) -> str | None:
    """Return what the optimisation is for, if it is not for this model."""
    if training.optimisation == "two-step" and DYNAMICS[model.dynamics].first_stage is None:
        return "dynamics whose items are learned under others first, such as gru"
    if training.optimisation == "terms-last" and not model.terms:
        return "models with terms"
    return None


def _missing(model: ModelConfig, name: str, *, item_features: bool) -> str:
    """Return what a model lacks for a setting to matter; empty if it matters."""
    if name in ModelConfig.model_fields:
        return _missing_beside(model, name)
    if name == "sigma_features":
        return "" if item_features else "features of items"
    if name == "sigma_evidence":
        return "" if model.evidence else "evidence"
    own = [part for part in model.part_classes() if name in part.Settings.model_fields]
    if not own:
        return " or ".join(_owners(name))
    reasons = [part.unused(model).get(name, "") for part in own]
    return "" if "" in reasons else reasons[0]


def _missing_beside(model: ModelConfig, name: str) -> str:
    """Return the same for a setting of the model itself, which depends on other settings."""
    terms = [TERMS[term] for term in model.terms]
    if name in ("exposure", "sharpness") and model.likelihood != "source-aware":
        return 'likelihood = "source-aware"'
    if name == "negatives" and model.likelihood == "slate":
        return 'likelihood = "all-item" or "source-aware"'
    if name == "sigma_weights" and not any(term.has_features for term in terms):
        return "terms with features, such as popularity"
    if name == "ranking" and model.ranking != "auto":
        ranked = any(term.has_features and term.ranks != "never" for term in terms)
        return "" if ranked else "terms that rank, such as popularity"
    return ""


def _owners(name: str) -> Iterator[str]:
    """Yield the choices of parts that have a setting."""
    for field, registry in ONE_OF.items():
        for part in registry:
            if name in registry[part].Settings.model_fields:
                yield f'{field} = "{part}"'
    for part in TERMS:
        if name in TERMS[part].Settings.model_fields:
            yield f"the term {part}"
