"""The model variants that the paper compares, and ours beside them."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from slatewise.data.dataset import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import settle_candidates
from slatewise.experiments.study import Bench, StudyConfig
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.plugins import load_object
from slatewise.training import fit
from slatewise.training.loop import Progress as State
from slatewise.training.unused import training_of, unused_settings, without_unused

PAPER_VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "slate-gru-hier": {"likelihood": "slate", "dynamics": "gru", "prior": "hierarchical"},
    "slate-linear-hier": {"likelihood": "slate", "dynamics": "linear", "prior": "hierarchical"},
    "slate-gru-flat": {"likelihood": "slate", "dynamics": "gru", "prior": "flat"},
    "all-item-gru-hier": {"likelihood": "all-item", "dynamics": "gru", "prior": "hierarchical"},
}
"""The four of Table 1."""

VARIANTS: Final[Mapping[str, Mapping[str, Any]]] = {
    **PAPER_VARIANTS,
    "source-aware-gru-hier": {
        "likelihood": "source-aware",
        "dynamics": "gru",
        "prior": "hierarchical",
    },
}


Variant = Mapping[str, Any] | str
"""What makes a variant: settings of its model, or the import path of a ModelConfig."""


def variant_config(
    name: str,
    settings: Mapping[str, Any],
    variants: Mapping[str, Variant] = VARIANTS,
    *,
    item_features: bool = False,
) -> ModelConfig:
    """Return the configuration of a variant, with those shared settings that matter to it."""
    own = _own_settings(variants[name])
    model = ModelConfig.build({**settings, **own}, f"variant {name}")
    unused = unused_settings(model, item_features=item_features)
    for setting in unused.keys() & own.keys():
        raise SlatewiseError(
            f"variant {name}: the setting '{setting}' changes nothing: it is for "
            f"{unused[setting]}.",
            "Leave it out.",
        )
    return without_unused(model, item_features=item_features)


def require_use(
    settings: Mapping[str, Any],
    names: Iterable[str],
    variants: Mapping[str, Variant] = VARIANTS,
    *,
    item_features: bool = False,
) -> None:
    """Refuse shared settings that matter to no variant of a study."""
    unused: list[dict[str, str]] = []
    for name in names:
        model = ModelConfig.build({**settings, **_own_settings(variants[name])}, f"variant {name}")
        unused.append(unused_settings(model, item_features=item_features))
    for setting in settings:
        if unused and all(setting in each for each in unused):
            raise ValueError(
                f"the setting '{setting}' of the models changes nothing in any of them: it is for "
                f"{unused[0][setting]}"
            )


def _own_settings(given: Variant) -> Mapping[str, Any]:
    """Return the settings that make a variant."""
    if isinstance(given, str):
        found = load_object(given, "variant")
        if not isinstance(found, ModelConfig):
            raise SlatewiseError(
                f"{given} is no variant: it is a {type(found).__name__}.",
                "Give the import path of a ModelConfig, such as MINE = ModelConfig(...).",
            )
        return found.model_dump(exclude_unset=True)
    return given


def fit_variant(
    name: str,
    model: ModelConfig,
    config: StudyConfig,
    dataset: SlateDataset,
    seed: int,
    bench: Bench,
) -> SlateModel:
    """Fit a variant to a dataset, showing the epochs."""

    def observe(at: State) -> None:
        bench.progress(f"{name}, epoch {at.epoch + 1}", at.step, at.steps)

    fitted = fit(
        dataset,
        model,
        training_of(model, config.training),
        seed=seed,
        device=config.device,
        observer=observe,
    )
    settle_candidates(fitted, dataset, seed=seed)
    return fitted


def unknown_exposure(model: ModelConfig, dataset: SlateDataset) -> list[str]:
    """Return the sources that a source-aware model weighs and the dataset does not have."""
    if model.likelihood != "source-aware":
        return []
    return sorted(set(model.exposure or ()) - set(dataset.source_names))
