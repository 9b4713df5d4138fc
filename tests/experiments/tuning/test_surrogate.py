import math
from collections.abc import Sequence

import pytest
import torch

from slatewise.errors import SlatewiseError, install_remedy
from slatewise.experiments.tuning import surrogate
from slatewise.experiments.tuning.space import Point, Space
from slatewise.experiments.tuning.surrogate import contours, predict, propose, require_ax
from slatewise.experiments.tuning.trials import Trial
from slatewise.model.config import ModelConfig
from slatewise.training.config import TrainingConfig
from tests.experiments.tuning.conftest import MakeTrial

SPACE = Space(
    ModelConfig(),
    TrainingConfig(),
    {"temperature": (0.01, 1.0), "learning_rate": (1e-4, 1e-1)},
)
TOP: Point = {"temperature": 0.1, "learning_rate": 0.01}


def value(point: Point) -> float:
    """A hill that is quadratic in the logarithms, -1.6 at its top."""
    return -1.6 - sum(0.05 * math.log10(point[name] / TOP[name]) ** 2 for name in TOP)


def far_from_top(point: Point) -> float:
    return max(abs(math.log10(point[name] / TOP[name])) for name in TOP)


@pytest.fixture
def trials(make_trial: MakeTrial) -> list[Trial]:
    points = [SPACE.sobol(number, seed=0) for number in range(6)]
    return [make_trial(number, value(point), point) for number, point in enumerate(points)]


def test_proposals_climb_to_the_top_of_a_hill(trials: list[Trial], make_trial: MakeTrial) -> None:
    before = min(far_from_top(trial.parameters) for trial in trials)
    for number in range(6, 10):
        point = propose(SPACE, trials, seed=number)
        trials.append(make_trial(number, value(point), point))
    best = max(trials, key=lambda trial: trial.value or 0.0)
    assert before > 0.2
    assert best.number >= 6
    assert far_from_top(best.parameters) < 0.1


def test_a_proposal_depends_on_the_trials_and_the_seed_alone(trials: list[Trial]) -> None:
    first = propose(SPACE, trials, seed=1)
    torch.rand(3)
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    assert propose(SPACE, trials, seed=1) == first
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.get_num_threads() == threads
    for name, (low, high) in SPACE.ranges.items():
        assert low <= first[name] <= high


def test_failed_trials_teach_nothing_and_are_not_proposed_again(
    trials: list[Trial], make_trial: MakeTrial
) -> None:
    wanted = propose(SPACE, trials, seed=1)
    failed = make_trial(6, None, wanted)
    again = propose(SPACE, [*trials, failed], seed=1)
    assert again != wanted
    there, with_failure = (predict(SPACE, known, [TOP], 0) for known in (trials, [*trials, failed]))
    assert with_failure[0] == pytest.approx(there[0], rel=1e-3)


def test_the_surrogate_knows_the_trials_and_is_less_sure_elsewhere(trials: list[Trial]) -> None:
    points = [trial.parameters for trial in trials]
    for trial, (mean, deviation) in zip(trials, predict(SPACE, trials, points, 0), strict=True):
        assert mean == pytest.approx(trial.value, abs=0.01)
        assert deviation < 0.02
    corner = {"temperature": 0.01, "learning_rate": 1e-4}
    at_trials, at_corner = predict(SPACE, trials, [points[0], corner], 0)
    assert at_corner[1] > at_trials[1]


def test_contours_leave_the_other_settings_as_in_the_best_trial(
    monkeypatch: pytest.MonkeyPatch, make_trial: MakeTrial
) -> None:
    full = Space(
        ModelConfig(prior="flat"),
        TrainingConfig(),
        {"sigma_max": (0.1, 10.0), "sigma_v": (0.01, 1.0), **SPACE.ranges},
    )
    asked: list[Point] = []

    def remember(
        space: Space, trials: Sequence[Trial], points: Sequence[Point], seed: int
    ) -> list[tuple[float, float]]:
        asked.extend(points)
        return [(point["learning_rate"], point["sigma_v"]) for point in points]

    monkeypatch.setattr(surrogate, "predict", remember)
    known = [make_trial(n, -1.0, full.sobol(n, seed=0)) for n in range(3)]
    rows = list(contours(full, known, known[1], seed=0))
    assert len(rows) == len(asked) == 2 * 25 * 25
    sixth, seventh = ([row for row in rows if row["figure"] == figure] for figure in (6, 7))
    assert {(row["across"], row["up"]) for row in sixth} == {("temperature", "sigma_v")}
    assert {(row["across"], row["up"]) for row in seventh} == {("sigma_max", "learning_rate")}
    best = known[1].parameters
    assert {row["mean"] for row in sixth} == {best["learning_rate"]}
    assert all(row["deviation"] == row["y"] for row in sixth)
    assert all(row["mean"] == row["y"] for row in seventh)
    assert {row["deviation"] for row in seventh} == {best["sigma_v"]}
    assert not list(contours(full, known[:2], known[1], seed=0))


def test_without_ax_it_is_said_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    require_ax()
    monkeypatch.setattr(surrogate, "find_spec", lambda name: None)
    with pytest.raises(SlatewiseError, match="not installed") as caught:
        require_ax()
    assert caught.value.remedy == install_remedy("tune")


def test_a_point_that_is_being_tried_is_not_proposed_again(trials: list[Trial]) -> None:
    first = propose(SPACE, trials, seed=7)
    beside = propose(SPACE, trials, seed=7, pending=[first])
    apart = max(abs(math.log10(beside[name] / first[name])) for name in first)
    assert apart > 0.01
