"""A model with terms is judged like any other, and never reads the future."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import slatewise
from slatewise.data import SlateDataset
from slatewise.errors import SlatewiseError
from slatewise.evaluation import ModelRecommender, calibrate, evaluate
from slatewise.features import PopularityIndex
from slatewise.features.user_history import Histories
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.slates import terms_in_log
from slatewise.slates.term_weights import weights_by_term
from slatewise.training import TrainingConfig, fit
from tests.model.terms.logs import ITEMS, START, Rows, dataset_of, rows_of

ALL = ("bias", "history", "popularity", "propensity", "position")
D = 3
CONFIG = ModelConfig(dimensions=D, terms=ALL, half_lives=(2.0,))


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> tuple[SlateDataset, SlateModel]:
    dataset = dataset_of(tmp_path_factory.mktemp("terms") / "log", rows_of(0))
    return dataset, fit(dataset, CONFIG, TrainingConfig(batch_users=8, max_epochs=5))


def everything(
    dataset: SlateDataset,
) -> tuple[slatewise.data.interactions.Interactions, torch.Tensor]:
    batch = dataset.interactions()
    return batch, torch.ones(len(batch.clicks), dtype=torch.bool)


def test_predictions_follow_the_equations(world: tuple[SlateDataset, SlateModel]) -> None:
    dataset, model = world
    batch, scored = everything(dataset)
    bare = ModelConfig(dimensions=D)
    found = ModelRecommender(model, log=dataset).predict(batch, scored)
    described = model.terms.in_log(dataset).describe(batch)
    # The same model with all terms taken out, and their sum added by hand.
    mean = model.posterior.mean()
    without = SlateModel(
        type(model.posterior)(bare, model.posterior.item_groups, range(2), len(mean.no_click)),
        model.item_ids,
        model.group_names,
        model.source_names,
        model.views,
    )
    kept = model.posterior.tensors()
    columns = {name: t.shape[-1] for name, t in without.posterior.tensors().items() if t.ndim}
    without.posterior.load(
        {name: kept[name][..., : columns[name]] for name in without.posterior.tensors()}
    )
    plain = ModelRecommender(without).predict(batch, scored)
    for n in range(0, len(batch.clicks), 7):
        cells = slice(int(batch.slate_offsets[n]), int(batch.slate_offsets[n + 1]))
        positions = range(cells.stop - cells.start)
        utility = plain.log_probabilities[cells].copy()
        utility += model.item_biases[batch.slate_items[cells]]
        utility += (described.cell_features[cells] @ mean.cell_weights).detach().numpy()
        assert mean.position_factors is not None
        *of_source, returning, regular = mean.position_factors.tolist()
        before = n - int(batch.user_offsets[batch.user_offsets <= n].max())
        factor = of_source[batch.sources[n]] + returning * (before > 0) + regular * (before > 4)
        utility += np.exp(factor) * mean.positions[list(positions)].detach().numpy()
        nothing = plain.no_click_log_probabilities[n]
        nothing += float((described.step_features[n] @ mean.step_weights).detach())
        whole = np.logaddexp(np.logaddexp.reduce(utility), nothing)
        assert found.log_probabilities[cells] == pytest.approx(utility - whole, abs=1e-5)
        assert found.no_click_log_probabilities[n] == pytest.approx(nothing - whole, abs=1e-5)


def changed_after(rows: Rows, moment: int) -> Rows:
    """Replace slates and clicks of everybody from a moment on."""
    rng = np.random.default_rng(1)
    out: Rows = []
    for row in rows:
        slate = rng.permutation(ITEMS)[: rng.integers(1, 6)].tolist()
        later = {"slate": slate, "click": slate[0] if rng.random() < 0.7 else None}
        out.append(row | (later if int(str(row["time"])) >= moment else {}))
    return out


@pytest.mark.parametrize("samples", [0, 3])
def test_nothing_after_a_moment_changes_a_prediction_at_it(
    world: tuple[SlateDataset, SlateModel], tmp_path: Path, samples: int
) -> None:
    dataset, model = world
    moment = START + 86_400
    other = dataset_of(tmp_path / "log", changed_after(rows_of(0), moment))
    assert other.item_ids.to_list() == dataset.item_ids.to_list()
    assert other.source_names == dataset.source_names
    found = []
    for log in (dataset, other):
        batch, _ = everything(log)
        before = batch.times < moment * 1_000_000
        # All in the batch: what comes later may be seen, and must not be looked at.
        predicted = ModelRecommender(model, samples=samples, log=log).predict(batch, before)
        found.append((predicted.log_probabilities, predicted.no_click_log_probabilities))
    assert not torch.equal(dataset.interactions().slate_items, other.interactions().slate_items)
    for one, two in zip(*found, strict=True):
        assert one == pytest.approx(two, abs=1e-5)


def test_a_saved_model_predicts_the_same(
    world: tuple[SlateDataset, SlateModel], tmp_path: Path
) -> None:
    dataset, model = world
    slatewise.save(model, tmp_path / "run")
    loaded = slatewise.load(tmp_path / "run")
    assert loaded.terms == model.terms
    assert loaded.term_weights == model.term_weights
    one, two = (
        ModelRecommender(each, log=dataset).predict(*everything(dataset))
        for each in (model, loaded)
    )
    assert np.array_equal(one.log_probabilities, two.log_probabilities)


def test_a_model_with_terms_is_evaluated_and_calibrated(
    world: tuple[SlateDataset, SlateModel],
) -> None:
    dataset, model = world
    recommender = ModelRecommender(model, log=dataset)
    judged = evaluate(recommender, dataset, k=5, calibration=calibrate(recommender, dataset))
    assert judged.calibrated is not None
    assert np.isfinite(judged["log_likelihood"].value)
    assert len(model.term_weights) == 3 + 5 + 1


def test_all_that_serving_ranks_by_ranks_and_nothing_else(
    world: tuple[SlateDataset, SlateModel],
) -> None:
    dataset, model = world
    batch = dataset.interactions()

    def ranked() -> torch.Tensor:
        return ModelRecommender(model, log=dataset).rank(batch, ITEMS)

    first, shared = ranked(), model.posterior.shared
    for name, ranks in {
        "history": True,
        "popularity": True,
        "propensity": False,
        "position": False,
    }.items():
        shared[name].mean.data += 3
        assert torch.equal(first, ranked()) != ranks
        shared[name].mean.data -= 3
    model.posterior.items.mean.data[5, D] += 50
    assert (ranked()[:, 0] == 5).all()
    model.posterior.items.mean.data[5, D] -= 50


@pytest.mark.parametrize("kept", [1, 1 << 26])
def test_what_is_popular_is_looked_up_for_all_who_ask_at_a_time(
    kept: int, world: tuple[SlateDataset, SlateModel], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each user alone, in steps, and with little memory: the same to the bit."""
    dataset, model = world
    batch, scored = everything(dataset)
    histories, (term,) = Histories(batch), model.terms.that_rank("all items").values()
    times = batch.times[:10].repeat(4)
    with torch.no_grad():
        mean = model.posterior.mean()
        weights = weights_by_term(model.posterior, mean)
    tick = round(term.refresh * 1e6)
    known = histories.before(torch.arange(40).flip(0))
    asked: list[int] = []
    honest = PopularityIndex.features

    def counted(self: PopularityIndex, items: Any, moments: Any) -> Any:
        asked.append(int(moments[0]))
        return honest(self, items, moments)

    monkeypatch.setattr(PopularityIndex, "features", counted)
    monkeypatch.setattr(terms_in_log, "_KEPT", kept)
    ranking = terms_in_log.TermsInLog(model.posterior, model.terms, dataset)
    with torch.no_grad():
        found = ranking.added(mean, times, known)
        assert asked == (torch.unique(times // tick) * tick).tolist()
        ones = [ranking.added(mean, times[i : i + 1], known[i : i + 1]) for i in range(40)]
    assert isinstance(found, torch.Tensor)
    again = torch.cat([one for one in ones if isinstance(one, torch.Tensor)])
    assert torch.equal(found, again)
    assert (len(asked) > 2 * len(set(asked))) == (kept == 1)
    for row, (time, history) in enumerate(zip(times.tolist(), known, strict=True)):
        moments = np.full(ITEMS, time // tick * tick)
        popular = (
            term.at_times(dataset)(np.arange(ITEMS), moments)
            @ weights["popularity"].detach().numpy()
        )
        items, features = model.terms.by_name["history"].met(history)
        popular[items] += features @ weights["history"].detach().numpy()
        np.testing.assert_allclose(found[row].numpy(), popular, rtol=1e-5, atol=1e-6)
    recommender = ModelRecommender(model, log=dataset)
    ranks = recommender.target_ranks(batch, scored)
    best = recommender.rank(batch, 5, times=torch.arange(batch.num_users).flip(0) * tick + START)
    recommender._cells = 3 * ITEMS
    assert torch.equal(recommender.target_ranks(batch, scored), ranks)
    some = recommender.rank(batch, 5, times=torch.arange(batch.num_users).flip(0) * tick + START)
    assert torch.equal(some, best)
    user = torch.tensor([3])
    alone = batch.of_users(user)
    at = torch.tensor([(batch.num_users - 4) * tick + START])
    assert torch.equal(recommender.rank(alone, 5, times=at), best[3:4])


def test_a_model_with_popularity_needs_its_log(world: tuple[SlateDataset, SlateModel]) -> None:
    with pytest.raises(SlatewiseError, match="log=dataset"):
        ModelRecommender(world[1])
