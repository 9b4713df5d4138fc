"""`serve --run`: the log that the run was trained on comes with it."""

import logging
import shutil
import time
from pathlib import Path

import polars as pl
import pytest
from typer.testing import CliRunner

from slatewise.cli import app
from slatewise.data import SlateDataset
from slatewise.data.preparation import prepare as prepare_log
from slatewise.features.showings import replay
from slatewise.model.config import ModelConfig
from slatewise.service.http.startup import prepare
from slatewise.service.serving import Request, Service
from slatewise.service.serving.models import Models
from slatewise.service.settings import ArmConfig, ServiceConfig
from slatewise.service.store import Store
from slatewise.slates.recommender import Recommender
from slatewise.slates.users import Seen
from slatewise.training import TrainingConfig, fit
from tests.service.logs.world import MINUTE, frame, write

GREEDY = ServiceConfig(arms={"main": ArmConfig(strategy="greedy")})
TERMS = ModelConfig(dimensions=2, dynamics="linear", terms=("bias", "history", "popularity"))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on a simulated news log whose newest slates are a minute old."""
    folder = tmp_path_factory.mktemp("news")
    options = ["--preset", "news", "--users", "60", "--seed", "2"]
    assert CliRunner().invoke(app, ["simulate", str(folder / "world"), *options]).exit_code == 0
    log = pl.read_parquet(folder / "world" / "log.parquet")
    newest = log["time"].cast(pl.Datetime("us")).to_physical().max()
    late = time.time_ns() // 1_000 - MINUTE - newest
    log = log.with_columns(pl.col("time") + pl.duration(microseconds=late))
    log.write_parquet(folder / "log.parquet")
    dataset = prepare_log(folder / "log.parquet", folder / "world", folder / "dataset")
    fit(dataset, TERMS, TrainingConfig(max_epochs=2), run=folder / "run")
    return folder


def opened(directory: Path) -> Service:
    return Service.open(directory, GREEDY, Store.open(GREEDY.store_url(directory)))


def seen_by(dataset: SlateDataset, user: int) -> list[Seen]:
    names, sources = dataset.item_ids, dataset.source_names
    return [
        Seen(
            [names[item] for item in shown.items],
            [names[shown.items[click]] for click in shown.clicks],
            sources[shown.source],
        )
        for shown in replay(dataset.interactions(), user)
    ]


def test_the_first_greedy_slates_are_those_of_the_library_after_the_log(
    tmp_path: Path, trained: Path
) -> None:
    report = prepare(tmp_path / "shop", GREEDY, trained / "run")
    dataset = SlateDataset.open(trained / "dataset")
    assert report is not None
    assert report.interactions == dataset.num_interactions
    service, library = opened(tmp_path / "shop"), Recommender.load(trained / "run")
    assert service.ready() == []
    anybody, _, notes = service.recommend(Request(k=10))
    assert notes == []
    assert anybody.serving is not None
    assert anybody.serving.refreshed is not None
    unrefreshed = library.recommend([], 10, strategy="greedy").items
    state = library.model.terms.by_name["popularity"].state_after(dataset)
    library.refresh(state, anybody.serving.refreshed)
    assert list(anybody.items) == list(map(str, library.recommend([], 10, strategy="greedy").items))
    assert list(anybody.items) != list(map(str, unrefreshed))
    for user in range(5):
        name = str(dataset.user_ids[user])
        record, _, _ = service.recommend(Request(name, k=10))
        wanted = library.recommend(seen_by(dataset, user), 10, strategy="greedy").items
        assert list(record.items) == list(map(str, wanted))
    assert service.store.last_served() == 0


def test_without_the_log_every_slate_says_so(tmp_path: Path, trained: Path) -> None:
    assert prepare(tmp_path / "shop", GREEDY, trained / "run", log=False) is None
    service = opened(tmp_path / "shop")
    _, _, notes = service.recommend(Request(k=3))
    assert sorted(notes) == sorted(service.ready())
    assert [note.partition(":")[0] for note in sorted(notes)] == [
        "histories are empty",
        "popularity is empty",
    ]


@pytest.mark.parametrize("moved", ["gone", "changed", "an order"])
def test_a_log_that_cannot_be_loaded_is_named_and_the_service_starts(
    tmp_path: Path, trained: Path, moved: str, caplog: pytest.LogCaptureFixture
) -> None:
    shutil.copytree(trained, tmp_path / "copy")
    run, dataset = tmp_path / "copy" / "run", tmp_path / "dataset"
    if moved == "changed":
        write(tmp_path / "other")
        prepare_log(tmp_path / "other", tmp_path / "other", dataset)
    if moved == "an order":
        order = frame().with_columns(pl.col("time").rank("dense").cast(pl.Int64))
        log = write(tmp_path / "other", order)
        plain = ModelConfig(dimensions=2, dynamics="linear")
        shutil.rmtree(run)
        fit(prepare_log(log, log, dataset), plain, TrainingConfig(max_epochs=1), run=run)
    else:
        text = (run / "run.json").read_text()
        (run / "run.json").write_text(text.replace(str(trained / "dataset"), str(dataset)))
    with caplog.at_level(logging.WARNING):
        assert prepare(tmp_path / "shop", GREEDY, run) is None
    word = {"gone": "is not there", "changed": "has changed", "an order": "only an order"}[moved]
    assert word in caplog.text
    assert Models.of(tmp_path / "shop", "main").versions() == ["1"]


def test_a_start_that_was_killed_before_it_ended_loads_nothing_twice(
    tmp_path: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Models, "promote", interrupt)
        with pytest.raises(KeyboardInterrupt):
            prepare(tmp_path / "shop", GREEDY, trained / "run")
    report = prepare(tmp_path / "shop", GREEDY, trained / "run")
    assert report is not None
    assert report.slates.new == report.items == 0
    assert opened(tmp_path / "shop").ready() == []


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt
