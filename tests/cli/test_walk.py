"""One model all the way: log, train, evaluate, serve, feedback, retrain, analyse."""

import json
from pathlib import Path

import polars as pl
import pytest

from slatewise.model.network import fitting
from slatewise.model.terms.network import _fitted
from slatewise.service.http.startup import prepare as begin
from slatewise.service.serving import Replayer, Request, Service
from slatewise.service.serving.models import Models
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.clock import iso, wall_clock
from slatewise.service.store.records import Outcome, SlateRecord
from slatewise.simulation import load_config, write_log
from slatewise.training import load
from tests.cli.conftest import Run

K = 4
TERMS = ("bias", "history", "popularity", "network")
TRAINING = f"""
[model]
dimensions = 2
dynamics = "linear"
terms = {list(TERMS)}
network_units = 4
network_candidates = 12
[training]
max_epochs = 2
"""
SETTINGS = {"models": {"main": {"training": {"max_epochs": 1}}}, "retraining": {"min_slates": 50}}


@pytest.fixture
def trained(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A log that ends an hour ago, its dataset, and a model with all kinds of terms."""
    monkeypatch.setattr(fitting, "EPOCHS", 1)
    small = {"items": 120, "groups": 4, "exposure_skew": 0.5}
    write_log(load_config("news", users=40, catalogue=small), tmp_path / "log")
    log = pl.read_parquet(tmp_path / "log" / "log.parquet")
    last = int(log["time"].dt.epoch("us").to_numpy().max())
    late = wall_clock() - 3_600_000_000 - last
    log = log.with_columns(pl.col("time") + pl.duration(microseconds=late))
    log.write_parquet(tmp_path / "log" / "log.parquet")
    (tmp_path / "quick.toml").write_text(TRAINING)
    folder, quick = tmp_path / "log", ("--config", tmp_path / "quick.toml")
    assert run("prepare", folder, folder, tmp_path / "set", "--split", "time")[0] == 0
    assert run("train", tmp_path / "set", tmp_path / "run", *quick)[0] == 0
    _fitted.clear()  # other tests fit a network in full
    return tmp_path


def test_what_is_trained_is_judged_served_trained_again_and_analysed(
    run: Run, trained: Path
) -> None:
    dataset, shop = trained / "set", trained / "shop"
    network = json.loads((trained / "run" / "run.json").read_text())["terms"]["network"]
    assert [count for count, _ in network["recalls"]] == [0, network["reranked"]] == [0, 12]
    code, out, _ = run("evaluate", trained / "run", dataset, "--samples", 1)
    assert (code, "Verdict: " in out) == (0, True)

    config = ServiceConfig.build(SETTINGS, "the test")
    begin(shop, config, trained / "run")
    store = Store.open(config.store_url(shop))
    service = Service.open(shop, config, store)
    assert service.ready() == []
    users = pl.read_parquet(trained / "log" / "log.parquet")["user_id"].unique().to_list()
    records = []
    for number, user in enumerate(users):
        record, slate, notes = service.recommend(Request(str(user), k=K, seed=number))
        assert (slate.items, notes) == (list(record.items), [])
        records.append(record)
    assert served_greedily(shop, config, store, records) == by_the_library(trained, records, run)

    outcomes = [Outcome(r.slate_id, None, r.items[:1], r.time + 1) for r in records]
    store.write(records, outcomes)
    store.close()
    (trained / "service.toml").write_text("[retraining]\nmin_slates = 50\n")
    code, out, _ = run("retrain", shop, "--config", trained / "service.toml", "--json")
    (night,) = json.loads(out)
    first = Models.of(shop, "main").path("1")
    assert night["model_from"] == "the version that serves"
    assert night["fits"]["name"] == load(first).config.name
    assert load(first).config.terms == TERMS

    target = ("--estimate", "model=main,strategy=greedy", "--draws", 2)
    code, out, _ = run("analyse", shop, "--config", trained / "service.toml", "--json", *target)
    (estimate,) = json.loads(out)["estimates"]
    assert (estimate["slates"], estimate["left_out"]) == (len(users), {})


def served_greedily(
    shop: Path, config: ServiceConfig, store: Store, records: list[SlateRecord]
) -> dict[str, list[str]]:
    """Return what the service would have shown by its mean at the moment of each slate."""
    replayer = Replayer(shop, config, store)
    for record in records:
        assert tuple(replayer.slate(record).items) == record.items
    greedy = {str(one.user_id): replayer.slate(one, "greedy").items for one in records}
    return {user: list(map(str, items)) for user, items in greedy.items()}


def by_the_library(trained: Path, records: list[SlateRecord], run: Run) -> dict[str, list[str]]:
    """Return what `slatewise recommend` makes of the log at the same moment, to the second."""
    moments = {one.serving.refreshed for one in records if one.serving is not None}
    (moment,) = moments
    out, dataset = trained / "slates.parquet", trained / "set"
    asked = ("--users", dataset, "--log", dataset, "--k", K, "--strategy", "greedy")
    at = iso(moment or 0).removesuffix("Z")
    code, _, errors = run("recommend", trained / "run", *asked, "--at", at, "--out", out)
    assert (code, errors) == (0, "")
    rows = pl.read_parquet(out).group_by("user_id", maintain_order=True).agg("item_id")
    return {str(user): list(map(str, items)) for user, items in rows.iter_rows()}
