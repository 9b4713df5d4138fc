"""How models are fitted when terms are chosen."""

import pytest

from slatewise.data import SlateDataset
from slatewise.selection import VALIDATION_DRAWS, SelectionConfig, recipe_for
from slatewise.selection.config import STEPS, trial_recipe
from slatewise.training import TrainingConfig
from tests.model.terms.logs import dataset_of, rows_of


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return dataset_of(tmp_path_factory.mktemp("recipe") / "log", rows_of(0, users=100))


def test_a_short_log_gets_small_batches(dataset: SlateDataset) -> None:
    found = recipe_for(dataset, TrainingConfig(patience=3))
    assert 100 / found.batch_users >= STEPS
    assert (found.validation_draws, found.patience) == (VALIDATION_DRAWS, 3)


def test_what_the_configuration_says_stays(dataset: SlateDataset) -> None:
    asked = TrainingConfig(batch_users=50, validation_draws=0)
    assert recipe_for(dataset, asked) == asked


def test_trials_are_fitted_in_the_same_way_with_less_patience(dataset: SlateDataset) -> None:
    asked = TrainingConfig(learning_rate=0.1, max_epochs=7, validation_draws=2)
    trial = trial_recipe(dataset, asked, SelectionConfig(epochs=9))
    assert (trial.learning_rate, trial.validation_draws, trial.max_epochs) == (0.1, 2, 7)
    assert trial.patience < asked.patience
    assert trial_recipe(dataset, TrainingConfig(), SelectionConfig(epochs=9)).max_epochs == 9
