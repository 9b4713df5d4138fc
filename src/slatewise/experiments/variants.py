"""The model variants that the paper compares, and ours beside them."""

from collections.abc import Mapping
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
    name: str, settings: Mapping[str, Any], variants: Mapping[str, Variant] = VARIANTS
) -> ModelConfig:
    """Return the configuration of a variant, with settings that all variants share."""
    given = variants[name]
    if isinstance(given, str):
        found = load_object(given, "variant")
        if not isinstance(found, ModelConfig):
            raise SlatewiseError(
                f"{given} is no variant: it is a {type(found).__name__}.",
                "Give the import path of a ModelConfig, such as MINE = ModelConfig(...).",
            )
        given = found.model_dump(exclude_unset=True)
    return ModelConfig.build({**settings, **given}, f"variant {name}")


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
        config.training,
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
