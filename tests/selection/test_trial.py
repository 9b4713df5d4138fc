"""Who is fitted to and who judges: never the same interactions, never the future."""

from pathlib import Path

import numpy as np
import pytest

from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import scored_interactions
from slatewise.selection import SelectionConfig
from slatewise.selection.trial import trial_of
from tests.model.terms.logs import dataset_of, rows_of


@pytest.fixture(scope="module", params=[True, False], ids=["clock", "order"])
def dataset(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> SlateDataset:
    folder = tmp_path_factory.mktemp("trial") / "log"
    return dataset_of(folder, rows_of(0, users=200), clock=request.param)


def parts(dataset: SlateDataset, config: SelectionConfig, seed: int = 0) -> dict[str, np.ndarray]:
    trial = trial_of(dataset, config, seed)
    return {
        "fitted": scored_interactions(trial.fitting, "training").numpy(),
        "ending": scored_interactions(trial.fitting, "validation").numpy(),
        "judged": scored_interactions(trial.judging, "validation").numpy(),
        "test": scored_interactions(dataset, "test").numpy(),
    }


def test_no_interaction_has_two_parts_in_it(dataset: SlateDataset) -> None:
    found = parts(dataset, SelectionConfig())
    assert np.sum(list(found.values()), axis=0).max() == 1
    assert all(part.sum() > 50 for part in found.values())


def test_what_is_judged_comes_after_all_that_is_fitted_to(dataset: SlateDataset) -> None:
    found = parts(dataset, SelectionConfig())
    if dataset.meta["clock_times"]:
        assert dataset.times[found["judged"]].min() >= dataset.times[found["fitted"]].max()
        assert 0.2 < (found["judged"] | found["ending"]).sum() / (~found["test"]).sum() < 0.3


def test_users_judged_without_clock_times_are_unknown_to_the_fit(dataset: SlateDataset) -> None:
    found = parts(dataset, SelectionConfig())
    users = np.repeat(np.arange(dataset.num_users), np.diff(dataset.user_offsets))
    assert not {*users[found["judged"]]} & {*users[found["ending"]]}
    if not dataset.meta["clock_times"]:
        assert not {*users[found["judged"]]} & {*users[found["fitted"]]}


def test_the_budget_is_kept_by_leaving_out_whole_users(dataset: SlateDataset) -> None:
    found = parts(dataset, SelectionConfig(interactions=300, judged=40))
    assert 250 < found["fitted"].sum() <= 300
    assert 25 < found["judged"].sum() <= 40
    whole = parts(dataset, SelectionConfig())
    assert not (found["judged"] & ~(whole["judged"] | whole["ending"])).any()


def test_the_seed_draws_users(dataset: SlateDataset) -> None:
    small = SelectionConfig(interactions=300)
    first, again, other = (parts(dataset, small, seed)["fitted"] for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


def test_a_log_of_hardly_anybody_is_refused(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "log", rows_of(0, users=5), clock=False)
    with pytest.raises(SlatewiseError, match="too few to select terms"):
        trial_of(dataset, SelectionConfig(judged_share=0.2), 0)
