"""Baselines of features: what they find, what they never see, and where they make no sense."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.interactions import Interactions
from slatewise.evaluation import LOGITS, evaluate, fit_baselines, fit_logits
from slatewise.evaluation.baselines.held_out import HeldOut
from slatewise.features import history_features, positions
from tests.evaluation.drawing import toy_world
from tests.model.terms.logs import ITEMS, START, Rows, dataset_of, rows_of


def choosing_rows(users: int = 500) -> Rows:
    """Draw slates of three and clicks by known utilities.

    What was clicked before is worth 1.5 · log(1 + how often), a place −.8 · log(place), clicking
    nothing .5.
    """
    rng = np.random.default_rng(5)
    rows: Rows = []
    for user in range(users):
        clicks = np.zeros(ITEMS)
        for time in np.sort(rng.integers(0, 10 * 86_400, 20)).tolist():
            slate = rng.permutation(ITEMS)[:3]
            utility = 1.5 * np.log1p(clicks[slate]) - 0.8 * np.log([1, 2, 3])
            drawn = int(np.argmax([*(utility + rng.gumbel(size=3)), 0.5 + rng.gumbel()]))
            click = int(slate[drawn]) if drawn < 3 else None
            if click is not None:
                clicks[click] += 1
            rows.append(
                {
                    "user_id": user,
                    "time": START + time,
                    "slate": slate.tolist(),
                    "click": click,
                    "source": "search",
                }
            )
    return rows


@pytest.fixture(scope="module")
def chosen(tmp_path_factory: pytest.TempPathFactory) -> SlateDataset:
    return dataset_of(tmp_path_factory.mktemp("logits") / "log", choosing_rows())


def test_known_weights_are_found(chosen: SlateDataset) -> None:
    """Within .2, four standard errors or so, from the 2,000 slates of the users held out."""
    logit = fit_logits(chosen, HeldOut.of(chosen, 0))["all features"]
    before = logit.columns.of(*everything(chosen))[0]
    plain = history_features(chosen.interactions()).numpy()
    size = plain[:, 0][before[:, 0] != 0] / before[:, 0][before[:, 0] != 0]
    assert logit.item_weights[0] / size[0] == pytest.approx(1.5, abs=0.2)
    index = before.shape[1] - 2  # then comes the click rate
    assert np.array_equal(before[:, index], np.log1p(positions(chosen.interactions()).numpy()))
    assert logit.item_weights[index] == pytest.approx(-0.8, abs=0.2)


def test_each_is_worth_something_where_its_cause_exists_alone(chosen: SlateDataset) -> None:
    judged = {name: evaluate(one, chosen) for name, one in fit_baselines(chosen).items()}
    gain = {
        name: judged[name]["log_likelihood"] - judged["base rate"]["log_likelihood"]
        for name in LOGITS
    }
    assert gain["history only"].low > 0
    assert gain["position only"].low > 0
    assert gain["decayed popularity"].low < 0.002  # no item is better than another here
    assert gain["all features"].value > max(gain["history only"].value, gain["position only"].value)
    assert "recall@20" not in judged["all features"].estimates


def everything(
    dataset: SlateDataset,
) -> tuple[Interactions, torch.Tensor]:
    batch = dataset.interactions()
    return batch, torch.ones(len(batch.clicks), dtype=torch.bool)


def test_nothing_after_a_moment_changes_a_prediction_at_it(tmp_path: Path) -> None:
    dataset = dataset_of(tmp_path / "log", rows_of(0))
    logits = fit_logits(dataset, HeldOut.of(dataset, 0))
    moment = START + 86_400
    rng = np.random.default_rng(1)
    rows = rows_of(0)
    for row in rows:
        if int(str(row["time"])) >= moment:
            slate = rng.permutation(ITEMS)[:4].tolist()
            row |= {"slate": slate, "click": slate[0]}
    other = dataset_of(tmp_path / "other", rows)
    for logit in logits.values():
        moved = replace(logit.columns, describer=logit.columns.terms.in_log(other))
        found = []
        for log, one in ((dataset, logit), (other, replace(logit, columns=moved))):
            batch, _ = everything(log)
            # All in the batch: what comes later may be seen, and must not be looked at.
            predicted = one.predict(batch, batch.times < moment * 1_000_000)
            found.append((predicted.log_probabilities, predicted.no_click_log_probabilities))
        assert np.allclose(found[0][0], found[1][0], atol=1e-6)
        assert np.allclose(found[0][1], found[1][1], atol=1e-6)


def test_what_makes_no_sense_for_a_log_is_left_out(tmp_path: Path) -> None:
    ordered = toy_world(tmp_path / "toy")
    assert not {"decayed popularity"} & fit_baselines(ordered).keys()
    assert {"history only", "position only", "all features"} <= fit_baselines(ordered).keys()
    rows = [row | {"slate": row["slate"][:1]} for row in rows_of(0)]  # type: ignore[index]
    for row in rows:
        row["click"] = row["click"] if row["click"] in row["slate"] else None  # type: ignore[operator]
    single = dataset_of(tmp_path / "log", rows)
    assert "position only" not in fit_baselines(single)
    assert "decayed popularity" in fit_baselines(single)
