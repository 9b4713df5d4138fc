"""Weights of the next click among all items, after everything else is fitted."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.evaluation import ModelRecommender, evaluate
from slatewise.evaluation.parts import scored_interactions
from slatewise.features.turnover import share_still_shown
from slatewise.features.user_history import UserHistory
from slatewise.files import write_json
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.profiles import known_profiles
from slatewise.model.steps import ClickSteps
from slatewise.model.utility import ranking_utilities
from slatewise.slates import Recommender
from slatewise.training import TrainingConfig, fit, load, next_click, runs, save

ITEMS = 40
PLAIN = ModelConfig(likelihood="all-item", dimensions=3, temperature=0.1)
CONFIG = ModelConfig(
    temperature=0.1,  # one stage
    likelihood="all-item",
    dimensions=3,
    terms=("bias", "history", "co_clicks"),
    neighbours=2,
)
QUICK = TrainingConfig(max_epochs=10, batch_users=32)


def clicks_dataset(folder: Path, users: int = 150) -> SlateDataset:
    """Draw clicks that go on to the next item, back to an earlier one, or anywhere."""
    rng, rows = np.random.default_rng(1), []
    for user in range(users):
        clicks = [int(rng.integers(ITEMS))]
        while len(clicks) < 10:
            back, new = clicks[rng.integers(len(clicks))], int(rng.integers(ITEMS))
            onward, chance = (clicks[-1] + 1) % ITEMS, rng.random()
            clicks.append(onward if chance < 0.5 else back if chance < 0.8 else new)
        same = {"user_id": user, "source": "shop"}
        rows += [same | {"time": t, "slate": [i], "click": i} for t, i in enumerate(clicks)]
    pl.DataFrame(rows).write_parquet(folder / "log.parquet")
    pl.DataFrame({"item_id": range(ITEMS), "group": ["all"] * ITEMS}).write_parquet(
        folder / "items.parquet"
    )
    return prepare(
        folder / "log.parquet",
        folder / "items.parquet",
        folder / "set",
        division=SplitConfig(valid_share=0.2, test_share=0.2, prefix=3),
    )


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return clicks_dataset(tmp_path_factory.mktemp("clicks"))


@pytest.fixture(scope="module")
def model(dataset: SlateDataset) -> SlateModel:
    return fit(dataset, CONFIG, QUICK)


def slow_choices(model: SlateModel, dataset: SlateDataset) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the features [M, I, 1 + P] of all items before validation clicks, and the clicks."""
    log, mean = dataset.interactions(), model.posterior.expected()
    steps = ClickSteps.of(log, None)
    profiles = known_profiles(mean, log, steps)[steps.state_of]
    found, clicked = [], []
    for user in range(log.num_users):
        for index in range(int(log.train_end[user]), int(log.valid_end[user])):
            row = int(log.user_offsets[user]) + index
            history = UserHistory.of_log(log, user, index)
            own = [t.met(history, np.arange(ITEMS))[1] for t in model.terms.by_name.values()]
            latent = ranking_utilities(mean, profiles[row][None], 0.0)[0, :, None]
            found.append(torch.cat([latent, *map(torch.from_numpy, own)], dim=1))
            clicked.append(int(log.clicked_items[row]))
    return torch.stack(found).detach().double(), torch.tensor(clicked)


def test_the_weights_have_the_greatest_density_of_held_out_clicks(
    dataset: SlateDataset,
) -> None:
    model = fit(dataset, PLAIN.changed(terms=("bias", "history")), QUICK)
    features, clicked = slow_choices(model, dataset)
    ranking = model.posterior.ranking
    assert ranking is not None

    def log_density(weights: torch.Tensor) -> torch.Tensor:
        chances = torch.log_softmax(features @ weights, 1)[range(len(clicked)), clicked]
        prior = weights - torch.eye(len(weights), dtype=torch.double)[0]
        return chances.sum() - prior.square().sum() / 2

    best = torch.eye(features.shape[2], dtype=torch.double)[0]
    for _ in range(20):  # Newton's method, in plain torch
        slope = torch.autograd.functional.jacobian(log_density, best)
        curvature = torch.autograd.functional.hessian(log_density, best)
        best = best - torch.linalg.solve(curvature, slope)
    assert best[0] > 0.1
    covariance = torch.linalg.inv(-curvature[1:, 1:]) / best[0].square()
    torch.testing.assert_close(ranking.mean, (best[1:] / best[0]).float(), atol=1e-3, rtol=1e-3)
    found = ranking.root @ ranking.root.T
    torch.testing.assert_close(found, covariance.float(), atol=1e-3, rtol=1e-3)


def test_a_sample_of_a_large_catalogue_gives_nearly_the_same_weights(
    model: SlateModel, dataset: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    exact = model.posterior.ranking
    for name, value in {"_ALL": 1, "_NEAREST": 5, "_POPULAR": 5, "_SAMPLED": 20}.items():
        monkeypatch.setattr(next_click, name, value)
    sampled = next_click.fit_ranking(model.posterior, model.terms, dataset, 0)
    assert exact is not None
    assert sampled is not None
    sd = (exact.root @ exact.root.T).diagonal().sqrt()
    assert ((sampled.mean - exact.mean).abs() < 0.5 * sd).all()
    assert not torch.equal(sampled.mean, exact.mean)


def test_they_rank_better_than_the_latent_model_alone(
    model: SlateModel, dataset: SlateDataset
) -> None:
    alone = fit(dataset, PLAIN.changed(terms=("bias",)), QUICK)
    found, without = (
        evaluate(ModelRecommender(one, log=dataset), dataset, k=5, resamples=20)["recall@5"].value
        for one in (model, alone)
    )
    assert found > without + 0.1


def test_they_are_saved_and_a_run_without_them_ranks_by_slates(
    model: SlateModel, tmp_path: Path
) -> None:
    save(model, tmp_path / "run")
    loaded, kept = load(tmp_path / "run").posterior.ranking, model.posterior.ranking
    assert loaded is not None
    assert kept is not None
    assert torch.equal(loaded.mean, kept.mean)
    assert torch.equal(loaded.root, kept.root)
    before = replace(model, posterior=load(tmp_path / "run").posterior)
    before.posterior.ranking = None
    save(before, tmp_path / "old")
    description = runs.read_run(tmp_path / "old")
    write_json(
        tmp_path / "old" / "run.json", {k: v for k, v in description.items() if k != "ranking"}
    )
    assert load(tmp_path / "old").posterior.ranking is None


def test_thompson_slates_draw_them(model: SlateModel) -> None:
    ranking = model.posterior.ranking
    assert ranking is not None
    drawn = Recommender(model).ranker.terms.draws(
        UserHistory.of_clicks(np.array([3, 10])), 4_000, 1
    )
    offsets = np.asarray(drawn.offsets)  # [J, m]
    items = np.asarray(drawn.items)
    terms = model.terms.by_name.values()
    x = np.concatenate(
        [t.met(UserHistory.of_clicks(np.array([3, 10])), items)[1] for t in terms], axis=1
    )
    assert offsets.mean(0) == pytest.approx(x @ ranking.mean.numpy(), abs=0.1)
    wanted = np.linalg.norm(x @ ranking.root.numpy(), axis=1)
    assert offsets.std(0) == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "fitted"),
    [
        ({"likelihood": "slate"}, True),
        ({"ranking": "slate"}, False),
        ({"terms": ("bias",)}, False),
    ],
)
def test_who_ranks_by_the_next_click(
    settings: dict[str, object], fitted: bool, dataset: SlateDataset
) -> None:
    asked = PLAIN.changed(**{"terms": CONFIG.terms} | settings)
    found = fit(dataset, asked, TrainingConfig(max_epochs=1))
    assert (found.posterior.ranking is not None) == fitted


def news_dataset(folder: Path) -> SlateDataset:
    """Draw a front page whose items live for six hours; people click what is new."""
    rng, rows = np.random.default_rng(2), []
    born = np.linspace(-6, 42, 160)
    for user in range(60):
        for hour in np.sort(rng.random(12) * 42).tolist():
            alive = np.flatnonzero((born < hour) & (hour < born + 6))
            slate = rng.permutation(alive)[:6]
            chances = np.exp(-(hour - born[slate]) / 1.5)
            click = int(rng.choice(slate, p=chances / chances.sum()))
            same = {"user_id": user, "time": 1_700_000_000 + int(3_600 * hour), "source": "page"}
            rows.append(same | {"slate": slate.tolist(), "click": click})
    pl.DataFrame(rows).write_parquet(folder / "log.parquet")
    pl.DataFrame({"item_id": range(160), "group": ["news"] * 160}).write_parquet(
        folder / "items.parquet"
    )
    return prepare(
        folder / "log.parquet",
        folder / "items.parquet",
        folder / "set",
        log_format=LogFormat(time_unit="s"),
        division=SplitConfig(method="time", valid_share=0.2, test_share=0.2),
    )


def test_news_are_ranked_at_least_as_well_as_by_what_is_clicked_lately(tmp_path: Path) -> None:
    news = news_dataset(tmp_path)
    assert share_still_shown(news) < 0.1
    config = ModelConfig(dimensions=3, terms=("popularity",), half_lives=(2.0, 24.0))
    model = fit(news, config, TrainingConfig(max_epochs=3))
    served = evaluate(ModelRecommender(model, log=news), news, k=10, resamples=20)["recall@10"]
    model.posterior.ranking = None
    in_slate = evaluate(ModelRecommender(model, log=news), news, k=10, resamples=20)["recall@10"]
    lately = recall_by_recent_clicks(model, news, k=10)
    assert lately > 0.3
    assert served.value >= lately
    assert served.value > in_slate.value


def recall_by_recent_clicks(model: SlateModel, dataset: SlateDataset, k: int) -> float:
    """Return the recall of the items with most clicks lately, each click counting half in 2 h."""
    term = model.terms.by_name["popularity"]
    column = term.columns(model.config).index("clicks_2h")
    lookup, log, items = term.at_times(dataset), dataset.interactions(), np.arange(160)
    hits = []
    for row in scored_interactions(log, "test").nonzero()[:, 0].tolist():
        clicks = lookup(items, np.full(160, int(log.times[row])))[:, column]
        hits.append(int(log.clicked_items[row]) in np.argsort(-clicks, kind="stable")[:k])
    return float(np.mean(hits))
