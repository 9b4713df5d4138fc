from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.special import expit, logsumexp

from slatewise.errors import SlatewiseError
from slatewise.features.user_history import NO_HISTORY
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.slates import Greedy, Recommender, SlateOutcome
from slatewise.slates import learning as module
from slatewise.slates.learning import Answer, ItemLearner
from slatewise.slates.shown import ShownSlate
from tests.slates.conftest import a_model

ITEMS, D = 40, 3


def biased_model(relevance: str = "distance", scale: float = 0.4) -> SlateModel:
    """Items 0 … 39 with uncertain vectors and biases, in one group, of one source."""
    config = ModelConfig(dimensions=D, relevance=relevance, terms=("bias",), sigma_max=3.0)
    seeded = torch.Generator().manual_seed(2)
    groups = torch.zeros(ITEMS, dtype=torch.long)
    posterior = Posterior(config, groups, ["all"], 10, seeded, ["page"])
    with torch.no_grad():
        posterior.items.mean.copy_(0.5 * torch.randn(ITEMS, D + 1, generator=seeded))
        posterior.items.raw.fill_(float(torch.logit(torch.tensor(scale / 3.0))))
        posterior.shared["no_click"].mean.fill_(0.3)
    return SlateModel(posterior, list(range(ITEMS)), ["all"], ["page"], torch.ones(ITEMS))


def table_of(recommender: Recommender) -> np.ndarray:
    table, rows = recommender.ranker.table, np.arange(ITEMS)
    return np.concatenate(
        [
            table.means_of(rows),
            table.scales_of(rows),
            table.biases_of(rows)[:, None],
            table.bias_scales_of(rows)[:, None],
        ],
        axis=1,
    )


def some_outcomes(recommender: Recommender, count: int) -> list[SlateOutcome]:
    rng = np.random.default_rng(0)
    outcomes = []
    for seed in range(count):
        clicks = rng.permutation(ITEMS)[:2].tolist()
        slate = recommender.recommend(clicks, 5, seed=seed)
        clicked = [slate.items[int(rng.integers(5))]] if rng.random() < 0.5 else []
        outcomes.append(SlateOutcome(slate, clicked))
    return outcomes


@pytest.mark.parametrize("relevance", ["distance", "dot"])
def test_a_choice_moves_vectors_and_biases_as_weighted_draws_of_them_say(relevance: str) -> None:
    model = biased_model(relevance, scale=0.15)
    recommender = Recommender(model)
    table, rows = recommender.ranker.table, np.array([3, 7, 11, 20])
    shown = recommender.view.of(NO_HISTORY, rows, 0)
    shown = shown._replace(offsets=np.array([0.2, 0.0, -0.4, 0.0], np.float32))
    rng = np.random.default_rng(1)
    noise = rng.standard_normal((300_000, 4, D + 1))
    vectors = table.means_of(rows) + table.scales_of(rows) * noise[..., :-1]
    biases = table.biases_of(rows) + table.bias_scales_of(rows) * noise[..., -1]
    gaps = shown.profile - vectors
    drawn = (
        -np.sqrt(np.square(gaps).sum(-1)) if relevance == "distance" else vectors @ shown.profile
    )
    utilities = drawn + biases + shown.offsets
    none = np.full((len(utilities), 1), 0.3)
    chance = np.exp(utilities[:, 1] - logsumexp(np.concatenate([none, utilities], 1), axis=1))
    wanted = np.average(np.concatenate([vectors, biases[..., None]], 2), axis=0, weights=chance)
    before = table.means_of(rows), table.biases_of(rows)
    ItemLearner(model, table).observe([Answer(shown, 4, (1,))])
    found = np.concatenate([table.means_of(rows), table.biases_of(rows)[:, None]], axis=1)
    moved = np.abs(wanted - np.concatenate([before[0], before[1][:, None]], axis=1))
    np.testing.assert_allclose(found, wanted, atol=0.002)
    assert moved.max() > 0.012


def test_a_new_item_has_beliefs_of_its_own_after_a_hundred_impressions() -> None:
    recommender = Recommender(biased_model())
    recommender.add_items([100], ["all"])
    (row,) = recommender.items.numbers([100])
    table = recommender.ranker.table
    prior = float(table.biases_of([row])[0]), float(table.bias_scales_of([row])[0])
    # At its own place, and with a certain vector, only the bias is left to learn.
    table.put([row], np.zeros((1, D)), np.zeros((1, D)), [prior[0]], [prior[1]])
    shown = ShownSlate(np.array([row]), np.zeros(D, np.float32), 0.0, np.zeros(1, np.float32))
    rng = np.random.default_rng(4)
    clicks = rng.random(100) < 0.8
    learner = ItemLearner(recommender.model, table)
    learner.observe([Answer(shown, 1, (0,) if click else ()) for click in clicks])
    grid = np.linspace(-6, 6, 4_001)
    posterior = -0.5 * ((grid - prior[0]) / prior[1]) ** 2
    posterior += clicks.sum() * np.log(expit(grid - 0.3))
    posterior += (~clicks).sum() * np.log(expit(0.3 - grid))
    weights = np.exp(posterior - posterior.max())
    mean = np.average(grid, weights=weights)
    scale = np.sqrt(np.average(np.square(grid - mean), weights=weights))
    assert float(table.biases_of([row])[0]) == pytest.approx(mean, abs=0.02)
    # A hundred steps, each with the moments right, end a little too certain.
    assert float(table.bias_scales_of([row])[0]) == pytest.approx(scale, rel=0.08)
    assert scale < prior[1] / 2


def test_pages_of_answers_do_not_matter_to_the_last_bit() -> None:
    one, other, third = (Recommender(biased_model()) for _ in range(3))
    outcomes = some_outcomes(Recommender(biased_model()), 60)
    answers = [one._answer(outcome) for outcome in outcomes]
    before = table_of(one)
    ItemLearner(one.model, one.ranker.table).observe(answers)
    for answer in answers:
        ItemLearner(other.model, other.ranker.table).observe([answer])
    assert np.array_equal(table_of(one), table_of(other))
    assert not np.array_equal(table_of(one), before)
    ItemLearner(third.model, third.ranker.table).observe(answers[::-1])
    assert not np.array_equal(table_of(one), table_of(third))


def test_what_was_learned_ranks_the_next_slate_and_moves_users() -> None:
    recommender = Recommender(biased_model())
    slate = recommender.recommend([5], 6, strategy=Greedy(), seed=0)
    told = recommender.ranker.mean_profile(slate.history)
    last = slate.items[-1]
    for _ in range(30):
        recommender.observe([SlateOutcome(slate, [last])])
    again = recommender.recommend([5], 6, strategy=Greedy(), seed=0)
    assert again.items[0] == last
    assert again.uncertainty[0] / again.relevance[0] < slate.uncertainty[-1] / slate.relevance[-1]
    # The item that she clicked stood in no slate: she is where she was.
    assert np.array_equal(recommender.ranker.mean_profile(slate.history), told)
    recommender.observe([SlateOutcome(recommender.recommend([], 30, seed=1, allow=[5]), [5])])
    assert not np.array_equal(recommender.ranker.mean_profile(slate.history), told)
    assert recommender.ranker.table.available.all()


@pytest.mark.parametrize("relevance", ["distance", "dot"])
def test_compiled_loops_learn_as_the_plain_equations_do(
    relevance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(3)
    answers = []
    for seen in (0, 1, *rng.integers(2, 9, 60).tolist()):
        shown = ShownSlate(
            rng.permutation(ITEMS)[:9],
            rng.standard_normal(D).astype(np.float32),
            float(rng.normal()),
            rng.standard_normal(9).astype(np.float32),
        )
        made = rng.permutation(seen)[: rng.integers(4)].tolist()
        split = int(rng.integers(len(made) + 1))
        answers.append(Answer(shown, seen, tuple(made[split:]), tuple(made[:split])))
    enough = np.array([0.4, -0.2])
    moved = []
    for compiled in (True, False):
        model = biased_model(relevance)
        learner = ItemLearner(model, Recommender(model).ranker.table)
        learner._enough, learner._sharpness, learner._added_no_click = enough, 0.7, 0.1
        monkeypatch.setattr(module, "is_compiled", lambda _, answer=compiled: answer)
        moved.append(learner.moved(answers))
    for one, other in zip(*moved, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-6, atol=2e-6)
    assert np.array_equal(moved[0].rows, np.arange(ITEMS))


def test_what_was_not_seen_stays_and_hidden_items_stay_hidden() -> None:
    recommender = Recommender(biased_model())
    slate = recommender.recommend([], 6, seed=0)
    recommender.hide_items([slate.items[0]])
    before = table_of(recommender)
    recommender.observe([SlateOutcome(slate, seen=0)])
    assert np.array_equal(table_of(recommender), before)
    recommender.observe([SlateOutcome(slate, seen=2)])
    changed = np.flatnonzero((table_of(recommender) != before).any(axis=1))
    assert sorted(changed.tolist()) == sorted(slate.numbers[:2].tolist())
    assert not recommender.ranker.table.available[slate.numbers[0]]


def test_a_second_click_is_a_choice_among_what_is_left() -> None:
    recommender = Recommender(biased_model())
    slate = recommender.recommend([], 4, seed=0)
    recommender.observe([SlateOutcome(slate, [slate.items[2], slate.items[0]])])
    one = Recommender(biased_model())
    shown = one.view.of(slate.history, slate.numbers, 0)
    learner = ItemLearner(one.model, one.ranker.table)
    learner.observe([Answer(shown, 4, (2,)), Answer(shown, 4, (0,), before=(2,))])
    assert np.array_equal(table_of(one), table_of(recommender))


def test_slates_without_a_probability_of_a_click_teach_nothing() -> None:
    model = a_model()
    config = model.config.model_copy(update={"likelihood": "all-item"})
    model.posterior.config = config
    with pytest.raises(SlatewiseError, match="all-item likelihood has no probability"):
        Recommender(replace(model)).observe([])


def test_outcomes_that_cannot_be_are_refused() -> None:
    recommender = Recommender(biased_model())
    slate = recommender.recommend([], 4, seed=0, allow=[1, 2, 3, 4])
    for outcome, message in (
        (SlateOutcome(slate, [30]), "clicked on a slate without it"),
        (SlateOutcome(slate, seen=9), "9 items of a slate of 4"),
        (SlateOutcome(slate, source="mail"), "knows no slates from 'mail'"),
    ):
        with pytest.raises(SlatewiseError, match=message):
            recommender.observe([outcome])


def test_a_slate_is_packed_and_unpacked() -> None:
    rng = np.random.default_rng(0)
    shown = ShownSlate(
        np.array([4, 1_300_000]), rng.random(D, np.float32), -0.25, rng.random(2, np.float32)
    )
    again = ShownSlate.unpacked(shown.packed(), D)
    for one, other in zip(map(np.asarray, shown), map(np.asarray, again), strict=True):
        assert np.array_equal(one, other)
    with pytest.raises(ValueError, match="not the numbers of a slate"):
        ShownSlate.unpacked(shown.packed(), D + 1)
