"""Slates with several clicks: a further click is a choice among what is left, against enough."""

from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.reductions import PrepareConfig
from slatewise.evaluation import ModelRecommender, evaluate
from slatewise.evaluation.baselines import boosting, fit_baselines, sequences
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.terms.enough import Enough
from slatewise.training import TrainingConfig, fit, load, runs
from tests.model.terms.logs import ITEMS, START, Rows, dataset_of

QUALITY = np.linspace(-1.5, 1.5, ITEMS)
NO_CLICK, ENOUGH, LONG = 1.0, 0.5, 5
CONFIG = ModelConfig(dimensions=3, dynamics="linear", terms=("bias",))
QUICK = TrainingConfig(max_epochs=15, batch_users=16, learning_rate=0.1)


def clicked_slates(seed: int, users: int = 150) -> Rows:
    """Draw slates whose clicks are choices among what is left, a row for each click."""
    rng, rows = np.random.default_rng(seed), Rows()
    for user in range(users):
        for number in range(6):
            slate = rng.permutation(ITEMS)[:LONG].tolist()
            row: dict[str, object] = {"user_id": user, "time": START + 3600 * number}
            row |= {"slate": slate, "source": "search"}
            left, leave, clicks = list(slate), NO_CLICK, 0
            while left:
                worth = np.append(QUALITY[left], leave)
                chosen = int(rng.choice(len(worth), p=np.exp(worth) / np.exp(worth).sum()))
                if chosen == len(left):
                    break
                rows.append(row | {"click": left.pop(chosen)})
                clicks += 1
                leave = ENOUGH + np.log(max(1, len(left)))
            rows += [] if clicks else [row | {"click": None}]
    return rows


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return dataset_of(tmp_path_factory.mktemp("enough") / "log", clicked_slates(1))


@pytest.fixture(scope="module")
def model(several: SlateDataset) -> SlateModel:
    return fit(several, CONFIG, QUICK)


def test_rows_of_one_slate_are_one_slate_with_several_clicks(several: SlateDataset) -> None:
    further = several.further_clicks
    assert further is not None
    counts = several.meta["counts"]
    assert counts["further_clicks"] == (further > 0).sum() > 100
    assert counts["slates_with_several_clicks"] == (further == 1).sum()
    for row in np.flatnonzero(further):
        first = row - further[row]
        slates = [
            several.slate_items[several.slate_offsets[n] : several.slate_offsets[n + 1]].tolist()
            for n in (first, row)
        ]
        assert slates[0] == slates[1]
        assert several.clicks[row] not in several.clicks[first:row]


def test_a_model_of_such_a_log_knows_when_users_have_enough(
    several: SlateDataset, model: SlateModel
) -> None:
    assert model.config.terms == ("bias", "enough")
    assert Enough.obstacle(several) is None
    mean = {name: part.mean.detach() for name, part in model.posterior.shared.items()}
    # Utilities have no zero of their own: only the difference of the two ways to leave does.
    difference = mean["enough"][0] - mean["no_click"][LONG - 1]
    assert float(difference) == pytest.approx(ENOUGH - NO_CLICK, abs=0.35)
    learned = torch.from_numpy(model.item_biases)
    assert np.corrcoef(learned, QUALITY)[0, 1] > 0.95


def test_it_predicts_further_clicks_better_than_a_model_that_takes_them_for_slates(
    several: SlateDataset, model: SlateModel, tmp_path: Path
) -> None:
    rows: Rows = []
    for row in clicked_slates(1):  # the same clicks, a second apart
        again = bool(rows) and all(rows[-1][name] == row[name] for name in ("user_id", "slate"))
        later = int(str(rows[-1]["time"])) + 1 if again else row["time"]
        rows.append(row | {"time": later})
    apart = dataset_of(tmp_path / "apart", rows, PrepareConfig(same_slate=0))
    assert apart.further_clicks is None
    plain = fit(apart, CONFIG, QUICK)
    assert plain.config.terms == ("bias",)
    old = evaluate(ModelRecommender(plain), apart)["log_likelihood"].value
    found = evaluate(ModelRecommender(model), several)
    assert found["log_likelihood"].value > old + 0.1
    assert found["log_likelihood"].count == found.about["interactions"]
    slates = found["log_likelihood_per_slate"]
    first = several.interactions().first_choices
    assert slates.count < found.about["interactions"] < len(first)
    assert slates.value == pytest.approx(found["log_likelihood_sum"].value / slates.count, rel=1e-9)


def test_baselines_choose_among_what_is_left_too(
    several: SlateDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sequences, "EPOCHS", 5)
    monkeypatch.setattr(boosting, "ROUNDS", 60)
    names = ("smoothed CTR", "all features", "bpr", "lightgbm")
    for name, baseline in fit_baselines(several, names).items():
        found = evaluate(baseline, several)
        assert found["log_likelihood_per_slate"].value < found["log_likelihood"].value, name
        assert found["log_likelihood"].value > -1.6, name


def test_probabilities_of_what_is_left_and_enough_add_up_to_1(
    several: SlateDataset, model: SlateModel
) -> None:
    log = several.interactions()
    everything = torch.ones(len(log.clicks), dtype=torch.bool)
    found = ModelRecommender(model, samples=2).predict(log, everything)
    assert found.further is not None
    assert (found.scroll_lengths == log.scroll_lengths.numpy() - found.further).all()
    clicked = found.clicks >= 0
    chosen = found.items[(found.offsets[:-1] + found.clicks)[clicked]]
    assert (chosen == log.clicked_items.numpy()[clicked]).all()


def test_a_run_from_before_is_read_with_one_position_for_all_and_judged(
    several: SlateDataset, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    fit(several, CONFIG.changed(terms=("position",)), TrainingConfig(max_epochs=1), run=run)
    tensors = runs.read_tensors(run / runs.POSTERIOR)
    older = {n: t for n, t in tensors.items() if not n.startswith(("enough", "position_factor"))}
    runs.write_tensors(run / runs.POSTERIOR, older, {"format": runs.FORMAT})
    about = runs.read_run(run)
    digests = about["digests"] | {runs.POSTERIOR: runs._digest(run / runs.POSTERIOR)}
    runs.update(run, digests=digests, model=about["model"] | {"terms": ["position"]})
    found = load(run)
    factors = found.posterior.mean().position_factor(torch.zeros(1), torch.tensor([9]))
    assert factors is not None
    assert factors.tolist() == [1.0]
    assert torch.equal(found.posterior.shared["position"].mean, tensors["position.mean"])
    assert np.isfinite(evaluate(ModelRecommender(found), several)["log_likelihood"].value)
