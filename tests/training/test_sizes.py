from dataclasses import replace
from pathlib import Path

import polars as pl
import pytest
import torch
from torch import Tensor
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare
from slatewise.errors import SlatewiseError
from slatewise.evaluation import ModelRecommender
from slatewise.features import half_lives_of
from slatewise.model.config import ModelConfig
from slatewise.model.dynamics.gru import Gru
from slatewise.training import TrainingConfig, fit, load, loop
from slatewise.training.config import STEPS
from slatewise.training.loop import FIRST_IS_BEST, Progress, Stage, stages_of
from slatewise.training.sizes import (
    EXACT,
    NEGATIVES,
    LogSize,
    settled,
    with_optimisation,
    with_terms,
)
from slatewise.training.steps import StepResult

SHOP = LogSize(users=9_000, interactions=65_000, items=6_500, clicks_only=True)
FILMS = LogSize(users=850, interactions=90_000, items=1_682, clicks_only=True)
FRONT_PAGE = LogSize(users=2_300_000, interactions=40_000_000, items=1_300_000, clicks_only=False)


@pytest.mark.parametrize("size", [SHOP, FILMS, FRONT_PAGE])
@pytest.mark.parametrize("likelihood", ["slate", "all-item", "source-aware"])
def test_an_epoch_has_enough_steps_at_any_size(size: LogSize, likelihood: str) -> None:
    model = ModelConfig.build({"likelihood": likelihood}, "test")
    _, training = settled(model, TrainingConfig(), size)
    assert training.batch_users is not None
    assert size.users // training.batch_users >= STEPS
    assert training.batch_users <= 512


def test_the_sum_over_a_small_catalogue_is_exact_and_a_large_one_gets_more_candidates() -> None:
    model = ModelConfig(likelihood="all-item")
    assert settled(model, TrainingConfig(), FILMS)[0].negatives == EXACT > FILMS.items
    assert settled(model, TrainingConfig(), SHOP)[0].negatives == NEGATIVES


def test_settings_that_are_given_stay() -> None:
    given = ModelConfig(
        likelihood="all-item",
        **{"dimensions": 7, "temperature": 1.0, "negatives": 50, "sigma_max": 1.0, "terms": ()},
        sigma_rnn=0.5,
    )
    asked = TrainingConfig(batch_users=400, learning_rate=0.1)
    model, training = settled(given, asked, SHOP)
    assert model == given
    assert (training.batch_users, training.learning_rate) == (400, 0.1)
    assert settled(model, training, FILMS) == (model, training)  # nothing is left open


def test_scales_may_be_large_where_the_prior_counts() -> None:
    bounds = {
        temperature: settled(
            ModelConfig(likelihood="all-item", temperature=temperature), TrainingConfig(), SHOP
        )[0].sigma_max
        for temperature in (0.1, 1.0)
    }
    assert bounds == {0.1: 1.0, 1.0: 3.0}


def test_weights_of_a_gru_have_a_prior_by_their_number_where_it_counts() -> None:
    def scale(**given: object) -> float:
        model = ModelConfig.build({"likelihood": "all-item"} | given, "test")
        return float(settled(model, TrainingConfig(), SHOP)[0].of(Gru).sigma_rnn)

    assert scale() == scale(temperature=1.0) == pytest.approx(32**-0.5, abs=1e-3)
    assert scale(temperature=1.0, dimensions=9) == pytest.approx(1 / 3, abs=1e-3)
    assert scale(temperature=1.0, sigma_rnn=2.0) == 2.0
    assert scale(temperature=0.1) == scale(dynamics="linear") == 1.0


def test_a_model_that_starts_from_another_keeps_its_settings() -> None:
    earlier = ModelConfig(
        likelihood="all-item", dimensions=16, temperature=0.5, negatives=99, sigma_max=2, terms=()
    )
    model, _ = settled(ModelConfig(likelihood="all-item"), TrainingConfig(), SHOP, earlier)
    assert model == earlier


def test_a_log_of_clicks_alone_is_ranked_by_terms_too() -> None:
    baskets = replace(SHOP, hours=100.0)
    for size, terms in {
        SHOP: ("bias", "history", "co_clicks"),
        baskets: ("bias", "history", "co_clicks", "popularity"),
        FRONT_PAGE: (),
    }.items():
        asked = ModelConfig(likelihood="all-item")
        assert settled(asked, TrainingConfig(), size)[0].terms == terms


def test_popularity_fades_as_slowly_as_a_log_of_clicks_alone_is_long() -> None:
    def half_lives(hours: float, **given: object) -> tuple[float, ...]:
        asked = ModelConfig.build({"likelihood": "all-item"} | given, "test")
        found: tuple[float, ...] = settled(asked, TrainingConfig(), replace(SHOP, hours=hours))[
            0
        ].half_lives
        return found

    assert half_lives(0.0) == half_lives(100.0) == (2.0, 24.0, 96.0)
    assert half_lives(24.0 * 120) == (2.0, 24.0, 96.0, 720.0, 2160.0)
    assert half_lives(24.0 * 3_650) == (2.0, 24.0, 96.0, 720.0, 2160.0, 8760.0)
    assert half_lives(24.0 * 3_650, half_lives=(5.0,)) == (5.0,)


def test_within_slates_nothing_changes_but_the_batch() -> None:
    model, training = settled(ModelConfig(), TrainingConfig(), FRONT_PAGE)
    assert model == ModelConfig()
    assert training.batch_users == 512


def test_a_gpu_takes_more_users_a_step_where_an_epoch_still_has_many_steps() -> None:
    training = TrainingConfig()
    for likelihood in ("slate", "source-aware"):
        sizes = [training.batch(users, likelihood, "cuda") for users in (640, 230_000, 2_300_000)]
        assert sizes == [40 if likelihood == "slate" else 32, 3_593, 30_000]
        assert training.batch(2_300_000, likelihood) == 512
    assert TrainingConfig(batch_users=7).batch(2_300_000, "slate", "cuda") == 7
    assert settled(ModelConfig(), training, FRONT_PAGE, device="cuda")[1].batch_users == 30_000


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of clicks only, from 40 users on 12 items."""
    folder = tmp_path_factory.mktemp("clicks")
    rows = [
        {"user_id": user, "time": time, "source": "shop"}
        | {"slate": [(user + time) % 12], "click": (user + time) % 12}
        for user in range(40)
        for time in range(8)
    ]
    pl.DataFrame(rows).write_parquet(folder / "log.parquet")
    items = pl.DataFrame({"item_id": range(12), "group": ["a", "b"] * 6})
    items.write_parquet(folder / "items.parquet")
    prepare(folder / "log.parquet", folder / "items.parquet", folder / "set")
    return folder / "set"


def test_a_log_of_clicks_alone_is_fitted_to_the_whole_catalogue(clicks: Path) -> None:
    size = LogSize.of(SlateDataset.open(clicks))
    assert settled(ModelConfig(), TrainingConfig(), size)[0].likelihood == "all-item"
    asked = ModelConfig(likelihood="slate")
    assert settled(asked, TrainingConfig(), size)[0].likelihood == "slate"


def test_where_nothing_is_clicked_twice_a_click_is_among_what_is_left(
    clicks: Path, tmp_path: Path
) -> None:
    size = LogSize.of(SlateDataset.open(clicks))
    assert not size.repeats
    assert not settled(ModelConfig(), TrainingConfig(), size)[0].repeats
    for given in (
        {"terms": ("bias",)},  # nothing would keep out of rankings what was clicked
        {"repeats": True},
        {"likelihood": "slate"},
    ):
        model = ModelConfig.build(given, "test")
        assert settled(model, TrainingConfig(), size)[0].repeats
    assert settled(ModelConfig(), TrainingConfig(), replace(size, repeats=True))[0].repeats
    with pytest.raises(SlatewiseError, match="with the term history"):
        ModelConfig.build({"likelihood": "all-item", "repeats": False}, "test")
    rows = pl.read_parquet(clicks.parent / "log.parquet")
    rows.with_columns(time=pl.col("time") + 8).vstack(rows).write_parquet(tmp_path / "log.parquet")
    items = clicks.parent / "items.parquet"
    assert LogSize.of(prepare(tmp_path / "log.parquet", items, tmp_path / "again")).repeats


def test_what_was_clicked_is_not_offered_again_where_nothing_is_clicked_twice(
    clicks: Path,
) -> None:
    dataset = SlateDataset.open(clicks)
    model = ModelConfig(dynamics="linear", dimensions=3, prior="flat")
    fitted = fit(dataset, model, TrainingConfig(max_epochs=30, learning_rate=0.1))
    past = dataset.interactions()
    ranked = ModelRecommender(fitted, log=dataset).rank(past, 4)
    offsets = past.user_offsets.tolist()
    for best, start, end in zip(ranked, offsets, offsets[1:], strict=False):
        assert not torch.isin(best, past.clicked_items[start:end]).any()


@pytest.mark.parametrize("times", ["turning over", "staying", "always clicked", "an order"])
def test_a_log_with_slates_is_predicted_by_the_terms_it_can_teach(
    times: str, tmp_path: Path
) -> None:
    newer = 12 if times == "turning over" else 0
    rows = [
        {"user_id": user, "time": time, "source": "search", "click": (user + time) % 12}
        | {"slate": [(user + k) % 12 + newer * (time > 4) for k in range(time, time + 3)]}
        for user in range(20)
        for time in range(10)
    ]
    log = pl.DataFrame(rows).with_columns(click=pl.col("slate").list.first())
    if times != "always clicked":
        declined = (pl.col("user_id") + pl.col("time")) % 9 == 0
        log = log.with_columns(click=pl.when(~declined).then("click"))
    if times != "an order":
        log = log.with_columns(time=pl.from_epoch(1_700_000_000 + 3_600 * pl.col("time")))
    log.write_parquet(tmp_path / "log.parquet")
    items = pl.DataFrame({"item_id": range(24), "group": ["a", "b"] * 12})
    items.write_parquet(tmp_path / "items.parquet")
    dataset = prepare(tmp_path / "log.parquet", tmp_path / "items.parquet", tmp_path / "set")
    model, missing = with_terms(ModelConfig(), dataset)
    popular = ("popularity",) if times == "turning over" else ()
    declining = ("propensity",) if times != "always clicked" else ()
    assert model.terms == ("history", *popular, "position", *declining)
    assert missing.get("propensity") == (None if declining else "every slate has a click")
    if popular:
        assert model.half_lives == half_lives_of(dataset) != ModelConfig().half_lives
        given = ModelConfig(half_lives=(3.0,))
        assert with_terms(given, dataset)[0].half_lives == (3.0,)
    by_click, _ = with_terms(ModelConfig(ranking="next-click"), dataset)
    assert ("popularity" in by_click.terms) == (times != "an order")  # there its weight is learned
    assert missing["source"] == "the log has one source"
    assert missing["network"].endswith(" training interactions, 2,000 needed")
    assert with_terms(ModelConfig(), dataset, "cuda")[0].terms == model.terms
    for asked in (ModelConfig(terms=()), ModelConfig(likelihood="all-item")):
        assert with_terms(asked, dataset) == (asked, {})
    # Where items come and go, vectors rank nothing by themselves, and learn what terms leave.
    trained = with_optimisation(TrainingConfig(), model, dataset)
    assert trained.optimisation == ("auto" if popular else "terms-last")
    assert with_optimisation(TrainingConfig(), ModelConfig(), dataset) == TrainingConfig()
    joint = TrainingConfig(optimisation="joint")
    assert with_optimisation(joint, model, dataset) == joint


def test_where_nothing_was_declined_terms_leave_items_and_no_click_alone(clicks: Path) -> None:
    """Clicks that are certain would teach terms and no click to explain what items should."""

    def fitted(terms: tuple[str, ...]) -> tuple[float, Tensor]:
        model = ModelConfig(dynamics="linear", dimensions=3, prior="flat", terms=terms)
        found = fit(SlateDataset.open(clicks), model, TrainingConfig(max_epochs=4))
        weights = [found.posterior.shared[name].mean for name in terms]
        return found.metrics["validation_log_likelihood"], torch.cat([torch.zeros(1), *weights])

    without, _ = fitted(())
    with_terms, weights = fitted(("co_clicks",))
    assert with_terms == pytest.approx(without, abs=0.02)
    assert weights.abs().max() < 1e-3


def test_terms_of_a_log_of_clicks_alone_are_not_chosen(clicks: Path, tmp_path: Path) -> None:
    (tmp_path / "one.toml").write_text("[training]\nmax_epochs = 1\n")
    options = ["--auto", "--config", str(tmp_path / "one.toml")]
    shown = CliRunner().invoke(app, ["train", str(clicks), str(tmp_path / "run"), *options])
    assert "This log has only clicks" in shown.output
    assert "No user clicks an item twice" in shown.output
    model = load(tmp_path / "run")
    assert model.config.terms == ("bias", "history", "co_clicks")
    assert model.posterior.ranking is not None


def test_items_leave_their_groups_under_a_weak_prior_before_the_whole_one() -> None:
    def stages(likelihood: str, temperature: float, optimisation: str = "auto") -> list[Stage]:
        model = ModelConfig.build({"likelihood": likelihood, "temperature": temperature}, "test")
        return stages_of(model, TrainingConfig.build({"optimisation": optimisation}, "test"))

    weak, whole = Stage("gru", False, 0.1), Stage("gru", False, 1.0)
    assert stages("slate", 1.0) == [whole]
    assert stages("all-item", 0.1) == [weak]
    assert stages("all-item", 1.0) == stages("source-aware", 1.0) == [weak, whole]
    linear = replace(weak, dynamics="linear"), replace(whole, dynamics="linear")
    assert stages("all-item", 1.0, "two-step") == [*linear, replace(whole, frozen_items=True)]


def test_the_last_stage_has_the_temperature_asked_for(clicks: Path) -> None:
    seen: set[tuple[int, float]] = set()
    model = ModelConfig(dimensions=2, dynamics="linear", temperature=0.7, terms=())
    with pytest.MonkeyPatch.context() as patch:
        honest = loop.Training._count

        def watched(work: loop.Training, result: StepResult) -> None:
            seen.add((work.progress.stage, work.posterior.config.temperature))
            honest(work, result)

        patch.setattr(loop.Training, "_count", watched)
        fitted = fit(SlateDataset.open(clicks), model, TrainingConfig(max_epochs=1))
    assert seen == {(0, 0.1), (1, 0.7)}
    assert fitted.config.temperature == 0.7


def test_a_fit_whose_first_epoch_is_its_best_says_what_to_do() -> None:
    def after(*scores: float) -> Progress:
        return Progress(history=[{"stage": 0, "validation": score} for score in scores])

    assert after(-1.0, -1.2, -1.3).warning == FIRST_IS_BEST
    assert after(-1.3, -1.2, -1.25).warning is None
    assert after(-1.3, -1.2, -1.25).best_epoch == 2
    assert after(-1.0).warning is None  # there was no other
