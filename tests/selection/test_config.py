"""How models are fitted when terms are chosen."""

from pathlib import Path

from slatewise.selection import SelectionConfig
from slatewise.selection.config import trial_recipe
from slatewise.training import TrainingConfig
from slatewise.training.config import STEPS
from tests.model.terms.logs import dataset_of, rows_of


def test_trials_are_fitted_in_the_same_way_with_less_patience(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "log", rows_of(0, users=100))
    asked = TrainingConfig(learning_rate=0.1, max_epochs=7, validation_draws=2, batch_users=80)
    trial = trial_recipe(dataset, asked, SelectionConfig(epochs=9))
    assert (trial.learning_rate, trial.validation_draws, trial.max_epochs) == (0.1, 2, 7)
    assert trial.patience < asked.patience
    assert trial.batch_users is not None
    assert 100 / trial.batch_users >= STEPS
    assert trial_recipe(dataset, TrainingConfig(), SelectionConfig(epochs=9)).max_epochs == 9
