"""Slates of many users at once: the same law as one by one."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.features.user_history import UserHistory
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.simulation import load_config, write_log
from slatewise.slates import Recommender, bulk
from slatewise.slates.batched import BatchRanker
from slatewise.slates.exact import ExactRanker
from slatewise.slates.strategies import EpsilonMix, Greedy, InSlateThompson, PosteriorMean, Thompson
from slatewise.slates.users import Users
from slatewise.training import fit, runs
from slatewise.training.config import TrainingConfig
from tests.ranking.laws import assert_same_counts

K, TIMES = 5, 1_500
QUICK = TrainingConfig(max_epochs=3)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    folder = tmp_path_factory.mktemp("batched")
    write_log(load_config("tiny", users=200), folder / "log")
    return prepare(folder / "log", folder / "log", folder / "dataset")


@pytest.fixture(scope="module", params=["gru", "linear"])
def model(request: pytest.FixtureRequest, dataset: SlateDataset) -> SlateModel:
    return fit(dataset, ModelConfig(dimensions=3, dynamics=request.param), QUICK)


def users_of(clicks: list[int], times: int, seed: int) -> Users:
    histories = [UserHistory.of_clicks(np.array(clicks, np.int64)) for _ in range(times)]
    return Users.of_histories(histories, seed, show_clicked=False)


def test_greedy_slates_are_the_same(model: SlateModel) -> None:
    clicks = [np.arange(n, dtype=np.int64) * 7 for n in range(6)]
    users = Users.of_clicks(clicks, 0, show_clicked=False)
    expected = Greedy().slates(Recommender(model).ranker, users, K)
    np.testing.assert_array_equal(Greedy().slates(BatchRanker(model, "cpu"), users, K), expected)


@pytest.mark.parametrize("clicks", [[], [3, 50, 120, 9]], ids=["new", "known"])
def test_in_slate_thompson_has_the_same_law(
    model: SlateModel, clicks: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Users drawn together share some draws: here each is drawn alone, for independent slates."""
    monkeypatch.setattr("slatewise.slates.batched._TOGETHER", 1)
    monkeypatch.setattr("slatewise.ranking.batched.PILOT", 8)
    strategy, users = InSlateThompson(draws=3), users_of(clicks, TIMES, 11)
    found = strategy.slates(BatchRanker(model, "cpu"), users, K)
    expected = strategy.slates(Recommender(model).ranker, users_of(clicks, TIMES, 90_000), K)
    assert not np.isin(found, clicks).any()
    assert_same_counts(found, expected)
    assert_same_counts(found[:, 0], expected[:, 0])


def test_users_drawn_together_have_slates_of_their_own(model: SlateModel) -> None:
    ranker, users = BatchRanker(model, "cpu"), users_of([4, 8], 40, 5)
    found = Thompson().slates(ranker, users, K)
    assert len(np.unique(found, axis=0)) > 20
    np.testing.assert_array_equal(Thompson().slates(ranker, users, K), found)


def test_what_it_cannot_rank_is_refused(model: SlateModel) -> None:
    ranker, users = BatchRanker(model, "cpu"), users_of([4], 2, 0)
    for strategy in (PosteriorMean(), EpsilonMix()):
        with pytest.raises(SlatewiseError, match="on the CPU"):
            strategy.slates(ranker, users, K)
    shown = Users.of_histories(users.histories, 0, show_clicked=True)
    with pytest.raises(SlatewiseError, match="own clicks"):
        Thompson().slates(ranker, shown, K)


def test_terms_rank_by_the_mean_and_not_by_draws(
    dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slatewise.ranking.batched._CELLS", {"cpu": 3 * dataset.num_items})
    config = ModelConfig(dimensions=3, terms=("bias", "history", "popularity", "co_clicks"))
    biased = fit(dataset, config, TrainingConfig(max_epochs=2))
    recommender = Recommender(biased)
    state = biased.terms.by_name["popularity"].state_after(dataset)
    recommender.refresh(state, state.newest)
    log = dataset.interactions()
    histories = [UserHistory.of_log(log, user) for user in range(8)]
    histories.append(UserHistory.of_clicks(np.empty(0, np.int64)))
    users = Users.of_histories(histories, 0, show_clicked=True)
    ranker = BatchRanker(biased, "cpu", recommender.ranker)
    expected = Greedy().slates(recommender.ranker, users, 20)
    np.testing.assert_array_equal(Greedy().slates(ranker, users, 20), expected)
    own = biased.posterior.items.mean
    with torch.no_grad():
        own[:, 3:] += 2 * torch.randn(own[:, 3:].shape, generator=torch.Generator().manual_seed(0))
    other = Recommender(biased)  # the same without features, of other biases
    ranker = BatchRanker(biased, "cpu", other.ranker)
    found = Greedy().slates(ranker, users, 20)
    np.testing.assert_array_equal(found, Greedy().slates(other.ranker, users, 20))
    assert (found != expected).any()
    with pytest.raises(SlatewiseError, match="draws of a model with co_clicks, history, popu"):
        Thompson().slates(ranker, users, K)
    with pytest.raises(SlatewiseError, match="a model with co_clicks"):
        BatchRanker(biased, "cpu")


def test_a_file_of_users_is_ranked_by_it(
    model: SlateModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the command with `--device cuda`, for which the CPU stands in here."""
    runs.save(model, tmp_path / "run")
    rows = {"user_id": [1, 1, 2, 3], "item_id": [5, 9, 5, None]}
    pl.DataFrame(rows).write_parquet(tmp_path / "users.parquet")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    used: list[str] = []

    class OnCpu(BatchRanker):
        def __init__(self, model: SlateModel, device: str, exact: ExactRanker) -> None:
            used.append(device)
            super().__init__(model, "cpu", exact)

    monkeypatch.setattr("slatewise.slates.batched.BatchRanker", OnCpu)
    monkeypatch.setattr(bulk, "PART_USERS", 2)
    files = ["--users", str(tmp_path / "users.parquet"), "--out", str(tmp_path / "s.parquet")]
    command = ["recommend", str(tmp_path / "run"), *files, "--k", "4", "--device", "cuda"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert used == ["cuda"]
    slates = pl.read_parquet(tmp_path / "s.parquet")
    assert slates["user_id"].to_list() == [1] * 4 + [2] * 4 + [3] * 4
    assert 5 not in slates.filter(user_id=1)["item_id"].to_list()
    alone = CliRunner().invoke(
        app, ["recommend", str(tmp_path / "run"), "--clicks", "", "--device", "cuda"]
    )
    assert isinstance(alone.exception, SlatewiseError)
    ordered = [*command[:2], "--clicks", "", "--candidates", "5,9", "--device", "cuda"]
    refused = CliRunner().invoke(app, ordered)
    assert "--device has no effect" in str(refused.exception)
