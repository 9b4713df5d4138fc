"""Settings that change nothing are refused where they were given."""

from pathlib import Path
from typing import Any

import pytest

from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.simulation import load_config, write_log
from slatewise.training import TrainingConfig, fit
from slatewise.training.unused import (
    as_if_given,
    matters,
    refuse_unused,
    training_of,
    unused_settings,
    without_unused,
)

UNUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"dynamics": "linear", "sigma_rnn": 2.0}, "sigma_rnn", 'dynamics = "gru"'),
    ({"prior": "flat", "kappa_mu": 2.0}, "kappa_mu", 'prior = "hierarchical"'),
    ({"sigma_v": 0.4}, "sigma_v", 'prior = "flat"'),
    ({"exposure": {"search": 1.0}}, "exposure", 'likelihood = "source-aware"'),
    ({"likelihood": "all-item", "sharpness": 3.0}, "sharpness", 'likelihood = "source-aware"'),
    ({"negatives": 100}, "negatives", 'likelihood = "all-item" or "source-aware"'),
    ({"terms": ["bias"], "network_units": 8}, "network_units", "the term network"),
    ({"terms": ["bias"], "half_lives": [1.0]}, "half_lives", "the term popularity"),
    ({"terms": ["bias"], "sigma_bias": 0.2}, "sigma_bias", 'prior = "flat"'),
    ({"terms": ["bias"], "sigma_weights": 2.0}, "sigma_weights", "terms with features"),
    ({"memory": 0.5}, "memory", 'initial_state = "amortised"'),
    ({"ranking": "next-click", "terms": ["position"]}, "ranking", "terms that rank"),
    ({"sigma_evidence": 0.5}, "sigma_evidence", "evidence"),
    ({"sigma_features": 0.5}, "sigma_features", "features of items"),
]


@pytest.mark.parametrize(("given", "name", "what_for"), UNUSED)
def test_a_setting_that_changes_nothing_is_refused_with_what_it_is_for(
    given: dict[str, Any], name: str, what_for: str
) -> None:
    model = ModelConfig.build(given, "the test")
    with pytest.raises(SlatewiseError, match=f"'{name}' changes nothing") as error:
        refuse_unused(model, TrainingConfig(), item_features=False)
    assert what_for in str(error.value)
    kept = without_unused(model, item_features=False)
    assert not kept.is_given(name)
    assert kept.name == model.name
    refuse_unused(kept, TrainingConfig(), item_features=False)


def test_a_model_whose_file_holds_all_settings_may_be_fitted_again() -> None:
    model = ModelConfig.build(ModelConfig(prior="flat", dimensions=3).model_dump(), "a file")
    with pytest.raises(SlatewiseError, match="changes nothing"):
        refuse_unused(model, TrainingConfig(), item_features=False)
    again = as_if_given(model, item_features=False)
    assert again == model
    refuse_unused(again, TrainingConfig(), item_features=False)


def test_settings_that_matter_are_kept() -> None:
    model = ModelConfig.build(
        {
            "likelihood": "source-aware",
            "exposure": {"search": 1.0},
            "negatives": 10,
            "terms": ["bias", "popularity"],
            "kappa_bias": 0.2,
            "half_lives": [1.0],
            "sigma_weights": 2.0,
            "ranking": "slate",
            "evidence": ["search"],
            "sigma_evidence": 0.5,
            "sigma_rnn": 2.0,
        },
        "the test",
    )
    assert unused_settings(model) == {}
    assert without_unused(model) is model
    assert matters(model, "kappa_mu")
    assert not matters(model, "sigma_v")


@pytest.mark.parametrize(
    ("optimisation", "dynamics"), [("two-step", "linear"), ("terms-last", "gru")]
)
def test_an_optimisation_for_other_models_is_refused(optimisation: str, dynamics: str) -> None:
    model = ModelConfig(dynamics=dynamics)
    training = TrainingConfig.build({"optimisation": optimisation}, "the test")
    with pytest.raises(SlatewiseError, match=f"optimisation '{optimisation}' changes nothing"):
        refuse_unused(model, training, item_features=False)
    refuse_unused(model, training_of(model, training), item_features=False)


def test_fit_refuses_before_it_learns(tmp_path: Path) -> None:
    write_log(load_config("tiny"), tmp_path / "log")
    dataset = prepare(tmp_path / "log", tmp_path / "log", tmp_path / "set")
    with pytest.raises(SlatewiseError, match="'sigma_rnn' changes nothing"):
        fit(dataset, ModelConfig.build({"dynamics": "linear", "sigma_rnn": 2.0}, "the test"))
