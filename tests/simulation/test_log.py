import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slatewise.data.columns import Columns
from slatewise.errors import SlatewiseError
from slatewise.simulation import LogSummary, SimulationConfig, load_config, write_log

from .conftest import TRUTHS


def write(out: Path, **overrides: Any) -> LogSummary:
    return write_log(load_config("tiny", **overrides), out)


@pytest.fixture(scope="module", params=TRUTHS)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("log") / str(request.param)
    write(out, truth=request.param)
    return out


def columns(file: Path) -> dict[str, list[Any]]:
    return dict(pq.read_table(file).to_pydict())


def test_the_files_have_the_promised_columns(written: Path) -> None:
    assert pq.read_schema(written / "log.parquet").remove_metadata() == pa.schema(
        {
            "user_id": pa.int64(),
            "time": pa.timestamp("us"),
            "slate": pa.list_(pa.int64()),
            "click": pa.int64(),
            "source": pa.string(),
        }
    )
    items = columns(written / "items.parquet")
    assert items[Columns.ITEM] == list(range(200))
    assert set(items[Columns.GROUP]) == {f"group-{g:03d}" for g in range(10)}
    quality = "quality" in pq.read_schema(written / "truth" / "items.parquet").names
    assert quality == (written.name == "outside")
    groups = columns(written / "truth" / "groups.parquet")
    assert sorted(groups["companion"]) == groups[Columns.GROUP]


def test_slates_are_what_was_seen_and_times_increase(written: Path) -> None:
    log = columns(written / "log.parquet")
    clock: dict[int, Any] = {}
    for user, time, slate, click, source in zip(*log.values(), strict=True):
        assert isinstance(slate, list)
        assert 1 <= len(slate) == len(set(slate)) <= 25
        assert set(slate) <= set(range(200))
        assert click is None or click in slate
        assert source in {"search", "recommendation"}
        assert user not in clock or clock[user] < time
        clock[user] = time
    assert set(clock) == set(range(300))
    assert log["time"] == sorted(log["time"])  # one chunk: a platform log, not sorted by user
    steps = np.bincount(log[Columns.USER])
    assert steps.min() == 10
    assert steps.max() == 20


def test_truth_rows_are_those_of_the_log(written: Path) -> None:
    """The stored probabilities follow from the files alone: states, vectors and past clicks."""
    log = columns(written / "log.parquet")
    truth = columns(written / "truth" / "interactions.parquet")
    items = columns(written / "truth" / "items.parquet")
    config = SimulationConfig.model_validate(
        json.loads((written / "truth" / "config.json").read_text())["config"]
    )
    vectors = np.array(items["vector"])
    recent: dict[int, list[int]] = {}
    rows = zip(log["user_id"], log["slate"], log["click"], *truth.values(), strict=True)
    for user, slate, click, state, probability, nothing in rows:
        s = len(slate)
        if config.truth == "paper":
            utility = -np.linalg.norm(vectors[slate] - np.array(state), axis=1)
            none = config.paper.no_click + config.paper.no_click_growth * np.log(s)
        else:
            quality = np.array(items["quality"])[slate]
            utility = config.outside.sharpness * vectors[slate] @ np.array(state) + quality
            utility -= config.outside.position_bias * np.log(np.arange(1, s + 1))
            none = config.outside.no_click
        tired = np.isin(slate, recent.get(user, []))
        relevance = np.exp(utility - config.intent.satiation * tired)
        total = relevance.sum() + np.exp(none)
        np.testing.assert_allclose(probability, relevance / total, rtol=1e-3, atol=1e-6)
        assert nothing == pytest.approx(np.exp(none) / total, rel=1e-3)
        if click is not None:
            recent[user] = [click, *recent.get(user, [])][: config.intent.satiation_memory]


def test_clicks_agree_with_their_probabilities(written: Path) -> None:
    log = columns(written / "log.parquet")
    truth = columns(written / "truth" / "interactions.parquet")
    clicked = np.array([click is not None for click in log["click"]])
    p = 1 - np.array(truth["no_click_probability"])
    for source in ("search", "recommendation"):
        rows = np.array(log["source"]) == source
        z = (clicked - p)[rows].sum() / np.sqrt((p * (1 - p))[rows].sum())
        assert abs(z) < 4
    searched = np.array(log["source"]) == "search"
    assert searched.mean() == pytest.approx(0.8, abs=0.03)
    assert clicked[searched].mean() > 2 * clicked[~searched].mean()
    # The first position alone, so that a click on the wrong item cannot pass.
    first = np.array([q[0] for q in truth["choice_probability"]])
    top = [c == s[0] for c, s in zip(log["click"], log["slate"], strict=True)]
    assert abs((np.array(top) - first).sum()) < 4 * np.sqrt((first * (1 - first)).sum())


@pytest.mark.parametrize("truth", TRUTHS)
def test_the_demo_has_sensible_rates_and_a_long_tail(tmp_path: Path, truth: str) -> None:
    summary = write_log(load_config("demo", truth=truth), tmp_path / "demo")
    assert 0.45 < summary.search.click_rate < 0.6
    assert 0.08 < summary.recommendation.click_rate < 0.15
    assert summary.mean_scroll == pytest.approx(11, abs=0.1)
    assert summary.slates == 120_000
    log = pq.read_table(tmp_path / "demo" / "log.parquet")
    views = np.bincount(log["slate"].combine_chunks().flatten(), minlength=2_000)
    assert views.sum() == summary.seen
    assert (views < 20).mean() > 0.1
    assert (views > 0).mean() > 0.9
    clicks = log["click"].drop_null()
    assert len(clicks) == summary.search.clicks + summary.recommendation.clicks


def test_the_same_seed_writes_the_same_bytes(tmp_path: Path) -> None:
    for out, seed in (("a", 3), ("b", 3), ("c", 4)):
        write(tmp_path / out, seed=seed, users=100)
    files = [f.relative_to(tmp_path / "a") for f in (tmp_path / "a").rglob("*.parquet")]
    assert len(files) == 5
    for file in files:
        same = (tmp_path / "a" / file).read_bytes()
        assert same == (tmp_path / "b" / file).read_bytes()
        assert same != (tmp_path / "c" / file).read_bytes()


def test_a_chunk_depends_on_no_other(tmp_path: Path) -> None:
    write(tmp_path / "few", users=100, chunk_users=50)
    write(tmp_path / "more", users=170, chunk_users=50)
    few = pq.read_table(tmp_path / "few" / "log.parquet")
    more = pq.read_table(tmp_path / "more" / "log.parquet")
    assert more.slice(0, len(few)).equals(few)
    assert set(more["user_id"].to_pylist()) == set(range(170))
    first = few.filter(pa.compute.less(few["user_id"], 50))
    second = few.filter(pa.compute.greater_equal(few["user_id"], 50))
    assert first["slate"].to_pylist()[:20] != second["slate"].to_pylist()[:20]


def test_the_chunk_size_does_not_change_the_distribution(tmp_path: Path) -> None:
    small = write(tmp_path / "small", users=1_500, chunk_users=40)
    large = write(tmp_path / "large", users=1_500, chunk_users=4_096)
    assert small.mean_scroll == pytest.approx(large.mean_scroll, abs=0.1)
    for source in ("search", "recommendation"):
        one, other = getattr(small, source), getattr(large, source)
        # Slates of one user are dependent: twice the binomial standard deviation, four times.
        noise = 2 * np.sqrt(0.25 / one.slates + 0.25 / other.slates)
        assert one.click_rate == pytest.approx(other.click_rate, abs=4 * noise)


def test_memory_does_not_grow_with_users(tmp_path: Path) -> None:
    peaks = []
    write(tmp_path / "warm", users=100)
    for users in (300, 1_800):
        tracemalloc.start()
        write(tmp_path / str(users), users=users, chunk_users=100)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks[1] < 1.2 * peaks[0]


def test_progress_counts_users(tmp_path: Path) -> None:
    heard: list[tuple[str, int, int]] = []
    config = load_config("tiny", users=130, chunk_users=50)
    write_log(config, tmp_path / "out", progress=lambda *report: heard.append(report))
    assert heard == [("users", 50, 130), ("users", 100, 130), ("users", 130, 130)]


def test_an_interruption_leaves_nothing_and_keeps_what_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(out, users=50)
    before = (out / "log.parquet").read_bytes()

    def interrupt(stage: str, done: int, total: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(SlatewiseError, match="exists"):
        write(out, users=50)
    with pytest.raises(KeyboardInterrupt):
        write_log(load_config("tiny", seed=1), out, overwrite=True, progress=interrupt)
    assert (out / "log.parquet").read_bytes() == before
    assert list(tmp_path.iterdir()) == [out]


def test_a_log_without_recommendations(tmp_path: Path) -> None:
    summary = write(tmp_path / "out", users=50, search_share=1.0)
    assert summary.recommendation.slates == 0
    assert np.isnan(summary.recommendation.click_rate)
    assert set(columns(tmp_path / "out" / "log.parquet")["source"]) == {"search"}
