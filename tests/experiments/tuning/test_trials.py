import json
from pathlib import Path

import pytest

from slatewise.data.dataset import SlateDataset
from slatewise.errors import InputError, SlatewiseError
from slatewise.experiments.tuning import trials as trials_module
from slatewise.experiments.tuning.space import Space
from slatewise.experiments.tuning.trials import Trial, TrialLog, hopeless, run_trial
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.training.config import TrainingConfig
from tests.experiments.tuning.conftest import MakeTrial

RANGES = {"learning_rate": (1e-4, 1e30)}


def attempt(
    dataset: SlateDataset,
    rate: float,
    finished: list[Trial],
    *,
    scored: bool = False,
    batch_users: int = 512,
) -> Trial:
    def score(model: SlateModel) -> float:
        return 0.25

    training = TrainingConfig(max_epochs=12, patience=4, batch_users=batch_users)
    return run_trial(
        dataset,
        Space(ModelConfig(dynamics="linear"), training, RANGES),
        {"learning_rate": rate},
        number=3,
        origin="sobol",
        seed=0,
        device="cpu",
        finished=finished,
        score=score if scored else None,
        observer=lambda progress: None,
    )


@pytest.fixture
def rivals(make_trial: MakeTrial) -> list[Trial]:
    """Trials that nothing can equal."""
    return [make_trial(number, -0.5 - number) for number in range(3)]


def test_a_trial_is_hopeless_if_its_pace_cannot_bring_it_to_the_median(
    make_trial: MakeTrial,
) -> None:
    finished = [make_trial(n, value) for n, value in enumerate((-1.0, -1.5, -3.0))]
    # 0.02 an epoch over the last two, with 20 left: at best -1.9 + 0.4 = -1.5, the median.
    reaches = [[-2.5, -1.94, -1.92, -1.9]]
    assert hopeless(reaches, finished, window=2, max_epochs=24) == ""
    why = hopeless(reaches, finished, window=2, max_epochs=23)
    assert why == "after 4 epochs -1.9000, at its pace -1.5200 at most; " + (
        "the median of 3 trials is -1.5000"
    )


def test_nothing_is_hopeless_before_it_can_be_told(make_trial: MakeTrial) -> None:
    finished = [make_trial(n, -1.0) for n in range(3)]
    bad = [[-9.0, -9.0, -9.0]]
    assert hopeless(bad, finished, window=2, max_epochs=10)
    assert not hopeless([[-9.0, -9.0]], finished, window=2, max_epochs=10)
    assert not hopeless(bad, finished[:2], window=2, max_epochs=10)
    failed = [*finished[:2], make_trial(2, None)]
    assert not hopeless(bad, failed, window=2, max_epochs=10)


def test_a_stage_is_held_against_the_same_stage(make_trial: MakeTrial) -> None:
    first = make_trial(0, -1.0)
    finished = [
        Trial(n, "sobol", {}, "completed", -1.0, -1.0, [[-5.0], [-1.0]], 0.0) for n in range(3)
    ]
    assert first.epochs == 1
    assert finished[0].epochs == 2
    assert not hopeless([[-4.0, -4.0]], finished, window=1, max_epochs=9)
    assert hopeless([[-4.0], [-4.0, -4.0]], finished, window=1, max_epochs=9)


def test_a_bad_trial_is_stopped_early_and_keeps_its_best(
    tiny: SlateDataset, rivals: list[Trial]
) -> None:
    whole = attempt(tiny, 0.001, [])
    stopped = attempt(tiny, 0.001, rivals)
    assert (whole.status, whole.epochs) == ("completed", 12)
    assert (stopped.status, stopped.epochs) == ("stopped", 5)
    assert stopped.curve[0] == whole.curve[0][:5]
    assert stopped.value == stopped.validation == whole.curve[0][4]
    assert "the median of 3 trials is -1.5000" in stopped.why


def test_a_trial_with_another_objective_is_not_stopped_for_its_likelihood(
    tiny: SlateDataset, rivals: list[Trial]
) -> None:
    trial = attempt(tiny, 0.001, rivals, scored=True)
    assert (trial.status, trial.value, trial.epochs) == ("completed", 0.25, 12)
    assert trial.validation == trial.curve[0][-1]


@pytest.mark.parametrize(("batch_users", "why"), [(8, "20 steps in a row"), (512, "never finite")])
def test_training_that_fails_is_a_failed_trial(
    tiny: SlateDataset, batch_users: int, why: str
) -> None:
    trial = attempt(tiny, 1e30, [], batch_users=batch_users)
    assert (trial.status, trial.value, trial.validation) == ("failed", None, None)
    assert why in trial.why


def test_a_dataset_that_no_trial_could_use_is_no_failed_trial(
    tiny: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise SlatewiseError("the dataset has no validation interactions.")

    monkeypatch.setattr(trials_module, "fit", refuse)
    with pytest.raises(SlatewiseError, match="no validation"):
        attempt(tiny, 0.02, [])


def test_trials_are_read_back_as_they_were(make_trial: MakeTrial, tmp_path: Path) -> None:
    log = TrialLog(tmp_path / "trials.json")
    for number, value in enumerate((-1.25, None)):
        log.add(make_trial(number, value, {"sigma_max": 0.1}))
    assert TrialLog(tmp_path / "trials.json").trials == log.trials
    stored = json.loads((tmp_path / "trials.json").read_text())["trials"][0]
    assert {"parameters", "value", "seconds", "curve", "status"} <= set(stored)


def test_a_damaged_file_of_trials_is_refused(tmp_path: Path) -> None:
    (tmp_path / "trials.json").write_text('{"trials": [')
    with pytest.raises(InputError, match="damaged"):
        TrialLog(tmp_path / "trials.json")
