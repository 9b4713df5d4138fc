"""Evaluation as a whole: by hand, in batches, before and after calibration."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.errors import SlatewiseError
from slatewise.evaluation import (
    CoClick,
    Predictions,
    SmoothedCTR,
    calibrate,
    evaluate,
    scored_interactions,
    table,
)
from slatewise.simulation import load_config, write_log


@pytest.fixture(scope="module", params=["user", "time"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("tiny")
    write_log(load_config("tiny", users=120), path / "log")
    split = SplitConfig(method=request.param, test_share=0.2, valid_share=0.2)
    return prepare(
        path / "log" / "log.parquet", path / "log" / "items.parquet", path / "set", division=split
    )


@pytest.fixture(scope="module")
def co_click(dataset: SlateDataset) -> CoClick:
    return CoClick.fit(dataset)


def test_hitrate_by_hand(dataset: SlateDataset, co_click: CoClick) -> None:
    everything, sizes = dataset.interactions(), []
    for user in range(dataset.num_users):
        mine = everything.of_users(torch.tensor([user]))
        cut = int(dataset.valid_end[user])
        if cut == len(mine.clicks):
            continue
        best = co_click.rank(mine.of_users(torch.tensor([0]), torch.tensor([cut])), 20)
        later = {item for item in mine.clicked_items[cut:].tolist() if item >= 0}
        sizes.append(len(set(best[0].tolist()) & later))
    found = evaluate(co_click, dataset)["hitrate@20"]
    assert (found.value, found.count) == (pytest.approx(np.mean(sizes)), len(sizes))


def test_rankings_are_judged_by_as_many_users_as_asked(
    dataset: SlateDataset, co_click: CoClick
) -> None:
    whole = evaluate(co_click, dataset, batch_users=7)
    assert whole.about["ranked_users"] == whole.about["users"]
    some = evaluate(co_click, dataset, batch_users=7, ranked_users=12)
    assert some.about["ranked_users"] == 12
    assert some["hitrate@20"].count == 12
    assert some["log_likelihood"].to_json() == whole["log_likelihood"].to_json()
    again = evaluate(co_click, dataset, ranked_users=12)
    assert again["recall@20"].to_json() == some["recall@20"].to_json()
    users = np.flatnonzero(np.diff(dataset.user_offsets) > np.asarray(dataset.valid_end))
    drawn = np.random.default_rng(0).permutation(users)[:12]
    log = dataset.interactions().of_users(torch.from_numpy(np.sort(drawn)))
    ranks = co_click.target_ranks(log, scored_interactions(log, "test"))
    found = some["recall@20"]
    assert found.value == pytest.approx(float((ranks <= 20).double().mean()))
    assert found.count == len(ranks)
    with pytest.raises(SlatewiseError, match="different users"):
        found - whole["recall@20"]


@pytest.mark.parametrize("part", ["training", "validation", "test"])
def test_every_part_is_scored_whole(dataset: SlateDataset, co_click: CoClick, part: Any) -> None:
    scored = scored_interactions(dataset, part)
    predictions = co_click.predict(dataset.interactions(), scored)
    found = evaluate(co_click, dataset, part=part)
    likelihood = predictions.log_likelihood()
    assert found["log_likelihood"].value == pytest.approx(likelihood.mean())
    assert found["log_likelihood_sum"].value == pytest.approx(likelihood.sum())
    assert found.about["interactions"] == found["log_likelihood"].count == len(likelihood)
    for number, name in enumerate(dataset.source_names):
        here = predictions.sources == number
        assert found.estimates["log_likelihood"][name].value == pytest.approx(
            likelihood[here].mean()
        )
    ranks = co_click.target_ranks(dataset.interactions(), scored).numpy()
    assert found["recall@20"].value == pytest.approx((ranks <= 20).mean())
    assert found.about["clicks"] == found["recall@20"].count == len(ranks)


def test_batches_change_nothing(dataset: SlateDataset, co_click: CoClick) -> None:
    calibration = calibrate(co_click, dataset)
    seen: list[tuple[str, int, int]] = []
    whole = evaluate(co_click, dataset, calibration=calibration)
    parts = evaluate(
        co_click,
        dataset,
        calibration=calibration,
        batch_users=7,
        progress=lambda *step: seen.append(step),
    )
    for name, sources in whole.estimates.items():
        for source, estimate in sources.items():
            again = parts.estimates[name][source]
            assert again.count == estimate.count
            assert again.value == pytest.approx(estimate.value)
            assert again.low == pytest.approx(estimate.low)
    assert seen[-1] == ("evaluating", whole.about["users"], whole.about["users"])
    assert len(seen) == -(-whole.about["users"] // 7)


def test_batches_change_no_calibration(
    dataset: SlateDataset, co_click: CoClick, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["slatewise.evaluation.evaluate"], "BATCH_USERS", 5)
    drawn = {size: calibrate(co_click, dataset, most=40, batch_users=size) for size in (1, 5, 8)}
    assert drawn[1] == drawn[5] == drawn[8] != calibrate(co_click, dataset)


def test_results_are_plain_json_with_both_stages(dataset: SlateDataset, co_click: CoClick) -> None:
    calibration = calibrate(co_click, dataset)
    found = evaluate(co_click, dataset, calibration=calibration)
    data = json.loads(json.dumps(found.to_json(), allow_nan=False))
    assert data["metrics"]["log_likelihood"]["higher_is_better"] is True
    assert set(data["metrics"]["ece"]["sources"]) == set(dataset.source_names)
    assert data["metrics"]["ece"]["low"] <= data["metrics"]["ece"]["value"]
    assert sum(row["count"] for row in data["reliability"]["all sources"]) == data["interactions"]
    assert data["calibration"] == calibration.to_json()
    before, after = data["metrics"], data["calibrated"]["metrics"]
    assert after["in_slate_auc"]["value"] == before["in_slate_auc"]["value"]
    assert "hitrate@20" not in after
    rows = table({"co-click": found, "CTR": evaluate(SmoothedCTR.fit(dataset), dataset)})
    assert [row["recommender"] for row in rows] == ["co-click", "co-click, calibrated", "CTR"]
    assert rows[1]["hitrate@20"] == ""
    assert rows[0]["hitrate@20"].startswith(f"{before['hitrate@20']['value']:.3f} [")
    assert list(table({"CTR": found}, ["ece"])[0]) == ["recommender", "ece"]


def test_calibration_on_the_scored_part_cannot_hurt(
    dataset: SlateDataset, co_click: CoClick
) -> None:
    calibration = calibrate(co_click, dataset)
    found = evaluate(co_click, dataset, part="validation", calibration=calibration)
    assert found.calibrated is not None
    gain = found.calibrated["log_likelihood"] - found["log_likelihood"]
    assert gain.value >= 0


class OnlyPredicts:
    """A predictor that is no ranker, and may return what was not asked for."""

    def __init__(self, recommender: CoClick, drop: int = 0) -> None:
        self.recommender, self.drop = recommender, drop

    def predict(self, interactions: Any, scored: torch.Tensor) -> Predictions:
        if self.drop:
            scored = scored.clone()
            scored[scored.nonzero()[: self.drop]] = False
        return self.recommender.predict(interactions, scored)


class OnlyRanks:
    """A ranker that is no predictor, and may return too few ranks."""

    def __init__(self, recommender: CoClick, drop: int = 0) -> None:
        self.recommender, self.drop = recommender, drop

    def rank(
        self, interactions: Any, k: int, *, exclude: Any = None, times: Any = None
    ) -> torch.Tensor:
        return self.recommender.rank(interactions, k, exclude=exclude, times=times)

    def target_ranks(self, interactions: Any, scored: torch.Tensor) -> torch.Tensor:
        return self.recommender.target_ranks(interactions, scored)[self.drop :]


def test_a_recommender_is_judged_on_what_it_does(dataset: SlateDataset, co_click: CoClick) -> None:
    whole = evaluate(co_click, dataset)
    predicted = evaluate(OnlyPredicts(co_click), dataset)
    ranked = evaluate(OnlyRanks(co_click), dataset)
    assert not set(predicted.estimates) & set(ranked.estimates)
    assert predicted.estimates | ranked.estimates == whole.estimates
    assert ranked.reliability == {}
    with pytest.raises(SlatewiseError, match="not of the interactions"):
        evaluate(OnlyPredicts(co_click, drop=1), dataset)
    with pytest.raises(SlatewiseError, match="not those of the scored clicks"):
        evaluate(OnlyRanks(co_click, drop=1), dataset)
    with pytest.raises(SlatewiseError, match="neither predicts nor ranks"):
        evaluate(object(), dataset)  # type: ignore[arg-type]
    assert table({"a": predicted, "b": ranked})[0]["hitrate@20"] == ""


def test_an_empty_part_is_named(tmp_path: Path, dataset: SlateDataset, co_click: CoClick) -> None:
    nobody = SlateDataset(dataset.path, dataset.meta)
    nobody.valid_end = np.diff(dataset.user_offsets).astype(np.int32)
    with pytest.raises(SlatewiseError, match="no test interactions"):
        evaluate(co_click, nobody)


def test_clicks_may_all_be_missing(dataset: SlateDataset, co_click: CoClick) -> None:
    class Silent(SlateDataset):
        def interactions(self, device: Any = "cpu") -> Any:
            data = super().interactions(device)
            return replace(data, clicks=torch.full_like(data.clicks, -1))

    found = evaluate(co_click, Silent(dataset.path, dataset.meta))
    assert found.to_json()["metrics"]["recall@20"]["value"] is None
    assert found["hitrate@20"].value == 0
    assert table({"silent": found})[0]["recall@20"] == "–"


def test_importing_needs_neither_polars_nor_pydantic() -> None:
    script = (
        "import sys\n"
        "for name in ('polars', 'pyarrow', 'pydantic'): sys.modules[name] = None\n"
        "import slatewise.evaluation\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
