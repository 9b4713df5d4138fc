"""The news and the video world: sensible logs, probabilities from the files alone, causes."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.simulation import (
    FrontPagePolicy,
    Marketplace,
    SimulationConfig,
    load_config,
    named_policy,
    write_log,
)
from slatewise.simulation.arrays import Doubles, Ints
from slatewise.simulation.choice import ChoiceProbabilities

from .conftest import TRUTHS

WORLDS = ("news", "video")
HOUR = np.timedelta64(3_600_000_000, "us")


@pytest.fixture(scope="module", params=[(w, t) for w in WORLDS for t in TRUTHS], ids="-".join)
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    world, truth = request.param
    out = tmp_path_factory.mktemp("worlds") / f"{world}-{truth}"
    write_log(load_config(world, truth=truth, users=60), out)
    return out


def test_probabilities_follow_from_the_files_alone(written: Path) -> None:
    """State, vectors, quality, publication and the user's own past give every probability."""
    c = SimulationConfig.model_validate(
        json.loads((written / "truth" / "config.json").read_text())["config"]
    )
    log = pl.read_parquet(written / "log.parquet")
    truth = pl.read_parquet(written / "truth" / "interactions.parquet")
    items = pl.read_parquet(written / "truth" / "items.parquet")
    vectors, quality = items["vector"].to_numpy(), items["quality"].to_numpy()
    clicked: dict[int, list[int]] = {}
    seen: dict[int, list[list[int]]] = {}
    for row, fact in zip(log.iter_rows(named=True), truth.iter_rows(named=True), strict=True):
        slate, user, s = row["slate"], row["user_id"], len(row["slate"])
        state = np.array(fact["state"])
        if c.truth == "paper":
            utility = -np.linalg.norm(vectors[slate] - state, axis=1)
            none = c.paper.no_click + c.paper.no_click_growth * np.log(s)
        else:
            utility, none = c.outside.sharpness * vectors[slate] @ state, c.outside.no_click
        utility += quality[slate] - c.effects.position_bias * np.log(np.arange(1, s + 1))
        flat = [i for page in seen.get(user, [])[-c.effects.fatigue_memory :] for i in page]
        utility -= c.effects.fatigue * np.log([1 + flat.count(i) for i in slate])
        recent = clicked.get(user, [])[-c.intent.satiation_memory :]
        utility -= c.intent.satiation * np.isin(slate, recent)
        if c.life.hours:
            of_time = -np.log(2) * ages(written, row["time"], slate) / c.life.half_life
            since = hour(row["time"]) - items["burst"].to_numpy()[slate]
            gain = c.life.burst * np.exp2(-np.maximum(since, 0) / c.life.burst_half_life)
            of_time += np.where(since >= 0, gain, 0)
            appeal = quality[slate] + of_time
            best = [max(appeal[:j], default=appeal[0]) for j in range(s)]
            utility += of_time + c.effects.standout * np.clip(appeal - best, -2, 2)
        relevance, nothing = np.exp(utility), np.exp(none - fact["propensity"])
        total = relevance.sum() + nothing
        np.testing.assert_allclose(fact["choice_probability"], relevance / total, rtol=2e-3)
        assert fact["no_click_probability"] == pytest.approx(nothing / total, rel=2e-3)
        seen.setdefault(user, []).append(slate)
        if row["click"] is not None:
            clicked.setdefault(user, []).append(row["click"])


def hour(time: Any) -> float:
    return float((np.datetime64(time, "us") - np.datetime64("2024-01-01", "us")) / HOUR)


def ages(folder: Path, time: Any, slate: list[int]) -> Doubles:
    published = pl.read_parquet(folder / "items.parquet")["published"].to_numpy()[slate]
    return np.asarray((np.datetime64(time, "us") - published) / HOUR)


def test_clicks_agree_with_their_probabilities(written: Path) -> None:
    clicked = pl.read_parquet(written / "log.parquet")["click"].is_not_null().to_numpy()
    truth = pl.read_parquet(written / "truth" / "interactions.parquet")
    p = 1 - truth["no_click_probability"].to_numpy()
    assert abs((clicked - p).sum()) < 4 * np.sqrt((p * (1 - p)).sum())
    assert 0.2 < clicked.mean() < 0.5


def test_news_are_read_while_they_are_alive(tmp_path: Path) -> None:
    write_log(load_config("news", users=100), tmp_path / "log")
    log = pl.read_parquet(tmp_path / "log" / "log.parquet")
    shown = log.explode("slate")
    items = pl.read_parquet(tmp_path / "log" / "items.parquet")
    published = items["published"].to_numpy()[shown["slate"].to_numpy()]
    age = (shown["time"].to_numpy() - published) / HOUR
    assert 0 <= age.min() < 1
    assert 35 < age.max() < 36
    hours = (log["time"].to_numpy() - np.datetime64("2024-01-01", "us")) / HOUR
    assert hours.min() >= 0
    assert hours.max() < 7 * 24
    gaps = log.sort("user_id", "time").select(pl.col("time").diff().over("user_id"))
    assert (gaps["time"].drop_nulls().dt.total_microseconds() > 0).all()
    # A click is likelier on a young item: the mean age of what is clicked is far lower.
    clicked = (shown["click"] == shown["slate"]).fill_null(value=False).to_numpy()
    assert age[clicked].mean() < age[~clicked].mean() - 3


def test_videos_come_one_at_a_time_and_again(tmp_path: Path) -> None:
    summary = write_log(load_config("video", users=200), tmp_path / "log")
    assert summary.mean_scroll == 1
    log = pl.read_parquet(tmp_path / "log" / "log.parquet").explode("slate")
    again = log.with_columns(n=pl.int_range(pl.len()).over("user_id", "slate"))
    assert 0.1 < (again["n"].to_numpy() > 0).mean() < 0.5
    rates = log.group_by("user_id").agg(rate=pl.col("click").is_not_null().mean(), n=pl.len())
    # Users differ far more than coins of one rate would: 0.2 against √(0.25 / 40) = 0.08.
    assert rates["rate"].to_numpy().std() > 0.15


@pytest.mark.parametrize("world", WORLDS)
def test_the_items_table_with_more_columns_can_be_prepared(world: str, tmp_path: Path) -> None:
    write_log(load_config(world, users=80), tmp_path / "log")
    dataset = prepare(tmp_path / "log", tmp_path / "log", tmp_path / "dataset")
    listed = pl.read_parquet(tmp_path / "log" / "items.parquet")
    assert dataset.num_items == len(listed)
    assert set(listed.columns) <= set(dataset.items.columns)
    features = [name for name in listed.columns if name.startswith("feature_")]
    assert len(features) == (5 if world == "news" else 0)
    assert ("published" in listed.columns) == (world == "news")


def test_wrong_groups_are_listed_and_the_right_ones_kept_as_truth(tmp_path: Path) -> None:
    catalogue = {"items": 200, "groups": 10, "dimensions": 5, "mislabelled": 1.0}
    write_log(load_config("tiny", users=10, catalogue=catalogue), tmp_path / "log")
    listed = pl.read_parquet(tmp_path / "log" / "items.parquet")["group"]
    true = pl.read_parquet(tmp_path / "log" / "truth" / "items.parquet")["group"]
    assert (listed == true).sum() < 50


CAUSES = {
    "item bias": ("effects", {"quality_sd": 0.0}),
    "user propensity": ("effects", {"propensity_sd": 0.0}),
    "shown before": ("effects", {"fatigue": 0.0}),
    "position": ("effects", {"position_bias": 0.0}),
    "clicked before": ("intent", {"satiation": 0.0}),
    "decay": ("life", {"half_life": 0.0}),
    "bursts": ("life", {"burst": 0.0}),
    "context": ("effects", {"standout": 0.0}),
}
ABSENT = {"news": set[str](), "video": {"position", "decay", "bursts", "context"}}


def without(config: SimulationConfig, cause: str) -> SimulationConfig:
    section, change = CAUSES[cause]
    values = config.model_dump()
    values[section] |= change
    return SimulationConfig.build(values, "simulation")


class Shown:
    """Shows the slates it was given, at any time."""

    def __init__(self, slates: Ints) -> None:
        self.slates = slates

    def recommend(self, history: Ints, k: int, rng: np.random.Generator) -> Ints:
        return self.slates

    def recommend_at(self, history: Ints, k: int, hours: Doubles, rng: np.random.Generator) -> Ints:
        return self.slates


def loss(true: ChoiceProbabilities, other: ChoiceProbabilities, shift: float) -> float:
    """Mean divergence of `other`, its items raised by `shift` against no click, from the truth."""
    items = other.items * np.exp(shift)
    total = items.sum(axis=1) + other.no_click
    row, position = np.nonzero(true.items)
    p, q = true.items[row, position], items[row, position] / total[row]
    nothing = true.no_click * np.log(true.no_click * total / other.no_click)
    return float(((p * np.log(p / q)).sum() + nothing.sum()) / len(total))


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("truth", TRUTHS)
def test_who_ignores_a_cause_pays_for_it(world: str, truth: str, rng: np.random.Generator) -> None:
    """Exact nats per slate, lost by one who knows all else, the level of clicks refitted."""
    config = load_config(world, truth=truth)
    market, users = Marketplace(config), 1_000
    blind = {cause: Marketplace(without(config, cause)) for cause in CAUSES}
    people = market.new_users(users, rng)
    for step in range(25):
        hours = 24 * config.days * (step + rng.random(users)) / 25
        history = people.observed(np.arange(users))
        if market.life is not None:
            slates = FrontPagePolicy(market.life).recommend_at(
                history, config.max_slate, hours, rng
            )
        else:
            policy = named_policy(config.policy, market.catalogue)
            slates = policy.recommend(history, config.max_slate, rng)
        if step < 24:
            market.interact(people, Shown(slates), rng, hours=hours)
    scroll = market.scroll.draw(users, rng)
    true = market.choice_probabilities(people, slates, scroll, hours=hours)
    cost = {}
    for cause, other in blind.items():
        kept = people.propensity
        people.propensity = np.zeros_like(kept) if cause == "user propensity" else kept
        guess = other.choice_probabilities(people, slates, scroll, hours=hours)
        people.propensity = kept
        cost[cause] = min(loss(true, guess, shift) for shift in np.linspace(-1.5, 1.5, 31))
    for cause, nats in cost.items():
        assert (nats == pytest.approx(0, abs=1e-9)) == (cause in ABSENT[world]), cost
        assert nats > 0.003 or cause in ABSENT[world], cost


def test_a_world_with_hours_wants_to_know_the_time(rng: np.random.Generator) -> None:
    market = Marketplace(load_config("news"))
    users = market.new_users(3, rng)
    assert market.life is not None
    policy = FrontPagePolicy(market.life)
    with pytest.raises(SlatewiseError, match="no time was given"):
        market.interact(users, policy, rng)
    with pytest.raises(SlatewiseError, match="recommend_at"):
        market.interact(users, named_policy("random", market.catalogue), rng, hours=5.0)
    met = market.interact(users, policy, rng, hours=5.0)
    with pytest.raises(SlatewiseError, match="not alive"):
        market.click_probability(users, met.slates, hours=100.0)
    assert market.click_probability(users, met.slates, hours=5.0).shape == (3,)
    assert users.steps.tolist() == [1, 1, 1]


def test_a_timed_policy_cannot_serve_a_world_without_hours(rng: np.random.Generator) -> None:
    news, tiny = Marketplace(load_config("news")), Marketplace(load_config("tiny"))
    assert news.life is not None
    policy = FrontPagePolicy(news.life)
    with pytest.raises(SlatewiseError, match="has no `recommend`"):
        Marketplace(load_config("tiny", search_share=0.0)).interact(
            tiny.new_users(3, rng), policy, rng
        )
    with pytest.raises(SlatewiseError, match="no policy 'front-page'"):
        named_policy("front-page", tiny.catalogue)
