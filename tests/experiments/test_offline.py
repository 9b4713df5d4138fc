import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch

from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.data.split import SplitConfig
from slatewise.errors import SlatewiseError
from slatewise.evaluation import LOGITS, ModelRecommender, evaluate, scored_interactions
from slatewise.experiments.offline import BASELINES, STUDY, OfflineConfig
from slatewise.experiments.offline_summary import Key, Scores
from slatewise.experiments.store import StudyResult
from slatewise.experiments.study import run_study
from slatewise.experiments.variants import VARIANTS, variant_config
from slatewise.features.popularity_state import CountedEvents
from slatewise.features.user_history import UserHistory
from slatewise.model.fitted import SlateModel
from slatewise.simulation import load_config, write_log
from slatewise.slates import Recommender, Users
from slatewise.training import fit
from tests.experiments.conftest import QUICK
from tests.model.terms.logs import dataset_of, rows_of


def config(**values: Any) -> OfflineConfig:
    quick = {"seeds": (0, 1), "preset": "tiny", "training": QUICK, "resamples": 200}
    return OfflineConfig.build(quick | values, "test")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("studies")


@pytest.fixture(scope="module")
def result(folder: Path) -> StudyResult:
    return run_study(STUDY, config(), folder)


def test_every_recommender_is_judged_on_every_seed(result: StudyResult) -> None:
    whole = result.tables["scores"].filter(source="all sources", metric="recall@20")
    judged = set(whole.select("seed", "recommender").iter_rows())
    names = {*VARIANTS, "base rate", "popularity", "smoothed CTR", "co-click"}
    assert judged == {(seed, name) for seed in (0, 1) for name in names}
    for metric in ("log_likelihood", "in_slate_mrr", "in_slate_auc", "ece"):
        both = result.tables["scores"].filter(source="all sources", metric=metric)
        assert both.group_by("seed", "recommender").len()["len"].to_list() == [2] * (
            len(judged) + 2 * len(LOGITS)
        )


def test_seeds_are_worlds_of_their_own(result: StudyResult) -> None:
    hashes = result.tables["dataset"]["content_hash"].to_list()
    assert len(set(hashes)) == 2


def test_the_numbers_are_those_of_evaluate(result: StudyResult, folder: Path) -> None:
    name = "slate-linear-hier"
    (world,) = (folder / "shared").glob("tiny-1-*")
    dataset = SlateDataset.open(world)
    model = fit(dataset, variant_config(name, {}), config().training, seed=1)
    found = evaluate(ModelRecommender(model), dataset, seed=1, resamples=200)["log_likelihood"]
    mine = result.tables["scores"].filter(
        seed=1,
        recommender=name,
        metric="log_likelihood",
        source="all sources",
        calibrated=False,
    )
    assert mine.select("value", "low", "high").row(0) == (found.value, found.low, found.high)


def test_the_pooled_value_is_the_mean_over_seeds(result: StudyResult) -> None:
    one = {"recommender": "co-click", "metric": "recall@20"}
    pooled = result.tables["pooled"].filter(**one).row(0, named=True)
    scores = result.tables["scores"].filter(**one, source="all sources")["value"]
    assert pooled["value"] == pytest.approx(scores.mean())
    assert pooled["by_seed"] == scores.to_list()


def test_a_difference_is_paired_by_user(result: StudyResult) -> None:
    """Against resampling both sides together, from the stored resamples."""
    rows = {
        (row["seed"], row["recommender"]): np.array(row["values"])
        for row in result.tables["replicates"].filter(metric="recall@20").to_dicts()
    }
    gaps = [rows[seed, "co-click"] - rows[seed, "base rate"] for seed in (0, 1)]
    tables = {name: result.tables[name].to_dicts() for name in ("scores", "replicates")}
    scores = Scores(tables, same_users=False)
    found = scores.difference(Key("co-click", "recall@20"), Key("base rate", "recall@20"))
    assert found is not None
    spread = np.quantile(np.mean(gaps, axis=0), [0.025, 0.975])
    assert found.high - found.low >= np.ptp(spread) - 1e-12
    unpaired = [scores.pooled(Key(name, "recall@20")) for name in ("co-click", "base rate")]
    assert found.value == pytest.approx(unpaired[0].value - unpaired[1].value)


def test_findings_follow_from_the_pooled_numbers(result: StudyResult) -> None:
    assert len(result.findings) == 12
    pooled = {
        (row["recommender"], row["metric"], row["calibrated"]): row["value"]
        for row in result.tables["pooled"].to_dicts()
    }
    gru_or_linear = result.findings[0]
    expected = (
        pooled["slate-gru-hier", "log_likelihood", False]
        - pooled["slate-linear-hier", "log_likelihood", False]
    )
    assert gru_or_linear.value == pytest.approx(expected)
    assert gru_or_linear.paper == "above"


def test_table_1_has_the_paper_beside_ours_and_no_all_item_likelihood_before_calibration(
    result: StudyResult,
) -> None:
    rows = {row["recommender"]: row for row in result.tables["table1"].to_dicts()}
    assert list(rows)[:4] == list(VARIANTS)[:4]
    assert rows["slate-linear-hier"]["paper: hitrate@20"] == "0.149"
    assert rows["all-item-gru-hier"]["log-likelihood"] == "–"
    assert rows["all-item-gru-hier"]["ECE"] == "–"
    assert "[" in rows["all-item-gru-hier"]["log-likelihood, calibrated"]
    assert rows["co-click"]["paper: log-likelihood"] == ""


def test_the_same_seed_gives_the_same_numbers(result: StudyResult, tmp_path: Path) -> None:
    one = config(seeds=(1,), variants=("slate-gru-hier",))
    again = run_study(STUDY, one, tmp_path).tables["scores"]
    before = result.tables["scores"].filter(
        pl.col("seed") == 1, pl.col("recommender").is_in(again["recommender"].unique())
    )
    assert again.sort(again.columns[:5]).equals(before.sort(before.columns[:5]))


def test_a_dataset_without_the_sources_leaves_source_aware_out_and_says_so(
    write_log: Callable[..., tuple[Path, Path]], tmp_path: Path
) -> None:
    rng = np.random.default_rng(0)
    rows = []
    for user in range(60):
        for time in range(8):
            slate = rng.choice(12, size=4, replace=False).tolist()
            click = int(slate[0]) if rng.random() < 0.5 else None
            rows.append(
                {"user_id": user, "time": time, "slate": slate, "click": click, "source": "front"}
            )
    log, items = write_log(rows, {item: f"g{item % 3}" for item in range(12)})
    split = SplitConfig(valid_share=0.2, test_share=0.2, prefix=2)
    dataset = prepare(log, items, tmp_path / "dataset", division=split)
    asked = config(
        variants=("slate-linear-hier", "source-aware-gru-hier"),
        model={"exposure": {"search": 0.3}},
        dataset=dataset.path,
    )
    result = run_study(STUDY, asked, tmp_path / "out")
    assert set(result.tables["left_out"]["recommender"]) == {"source-aware-gru-hier"}
    assert "source-aware-gru-hier" not in result.tables["scores"]["recommender"]
    assert "slate-linear-hier" in result.tables["scores"]["recommender"]
    assert result.about["settings"]["dataset"] == dataset.content_hash


def test_another_dataset_in_the_same_place_is_refused(tiny: SlateDataset, tmp_path: Path) -> None:
    asked = config(seeds=(0,), variants=("slate-linear-hier",), dataset=tiny.path)
    run_study(STUDY, asked, tmp_path / "out")
    write_log(load_config("tiny", seed=9), tmp_path / "log")
    split = SplitConfig(valid_share=0.2, test_share=0.2)
    prepare(tmp_path / "log", tmp_path / "log", tmp_path / "other", division=split)
    with pytest.raises(SlatewiseError, match="another 'dataset'"):
        run_study(STUDY, asked.model_copy(update={"dataset": tmp_path / "other"}), tmp_path / "out")


def test_an_unknown_variant_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(SlatewiseError, match="no variant 'slate-lstm'") as caught:
        config(variants=("slate-lstm",))
    assert caught.value.remedy == f"Choose from {', '.join(VARIANTS)}."


def test_units_are_one_model_each() -> None:
    names = [unit.part for unit in STUDY.units(config(seeds=(4,)))]
    assert names == [BASELINES, *VARIANTS]


def test_the_tables_are_json_too(result: StudyResult, folder: Path) -> None:
    pooled = json.loads((folder / "offline" / "pooled.json").read_text())
    assert pooled == result.tables["pooled"].to_dicts()


def test_a_model_with_popularity_is_judged_too(tmp_path: Path, tiny: SlateDataset) -> None:
    one = {"variants": ("slate-linear-hier",), "seeds": (0,), "dataset": tiny.path}
    settings = config(**one, model={"terms": ["popularity"]}, training={"max_epochs": 1})
    found = run_study(STUDY, settings, tmp_path)
    judged = found.tables["scores"].filter(recommender="slate-linear-hier", metric="recall@20")
    assert judged["value"].is_not_null().all()


def test_a_model_with_popularity_and_history_is_judged_as_it_serves(tmp_path: Path) -> None:
    log = dataset_of(tmp_path / "log", rows_of(0))
    terms = {"terms": ["popularity", "history"], "half_lives": [2.0], "dimensions": 3}
    one = {"seeds": (0,), "dataset": log.path, "variants": ("slate-linear-hier",), "k": 3}
    whole = config(**one, models={"terms": terms})
    found = run_study(STUDY, whole, tmp_path / "out").tables["scores"]
    mine = found.filter(
        recommender="terms", source="all sources", metric="recall@3", calibrated=False
    )
    model = fit(log, whole.variant("terms"), whole.training, seed=0)
    assert mine["value"].to_list() == [pytest.approx(served_recall(model, log, 3))]


def served_recall(model: SlateModel, dataset: SlateDataset, k: int) -> float:
    """Return the share of test clicks on an item of the greedy slate made just before."""
    log, recommender = dataset.interactions(), Recommender(model)
    users = torch.repeat_interleave(log.user_offsets.diff())
    events, hits = CountedEvents.of(log), []
    asked = scored_interactions(dataset, "test") & (log.clicks >= 0)
    for row in asked.nonzero()[:, 0].tolist():
        user, time = int(users[row]), int(log.times[row])
        earlier = np.asarray(events.times) < time
        past = CountedEvents(*(np.asarray(part)[earlier] for part in events))
        states = {
            name: t.item_state(dataset.num_items) for name, t in model.terms.with_state.items()
        }
        for state in states.values():
            state.count(past)
        recommender.refresh(states, time)
        history = UserHistory.of_log(log, user, row - int(log.user_offsets[user]))
        asking = Users.of_histories([history], 1, show_clicked=True)
        hits.append(int(log.clicked_items[row]) in recommender.ranker.by_mean(asking, k)[0])
    return float(np.mean(hits))
