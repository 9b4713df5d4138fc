"""A log brought into a service: what histories, popularity and nights then know, and only once."""

import os
import signal
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.data.formats import LogFormat
from slatewise.data.preparation import prepare
from slatewise.errors import InputError, SlatewiseError
from slatewise.features.item_dates import date_columns
from slatewise.features.item_kinds import usable_kinds
from slatewise.features.popularity import Popularity, PopularityConfig
from slatewise.features.popularity_state import PopularityState
from slatewise.model.terms.popularity import PopularityTerm
from slatewise.service.analysis import Tally
from slatewise.service.logs import columns, export_log, load_dataset, load_log
from slatewise.service.nights.window import export_window
from slatewise.service.serving import Request
from slatewise.service.serving.item_states import ItemStates
from slatewise.service.serving.items import ItemLog
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.bulk import LoadCounts
from slatewise.service.store.records import ItemState, Outcome, SlateRecord
from tests.service.logs.world import ITEMS, MINUTE, START, dataset, frame, visits, write
from tests.service.serving.world import a_model, a_service
from tests.service.store.making import rows


def histories(store: Store) -> list[tuple[object, ...]]:
    """User, time, source, items and clicks of all that users are known to have seen."""
    users = sorted(set(frame()["user_id"]))
    return [
        (user, visit.slate.time, visit.slate.source, visit.slate.items, visit.clicked)
        for user in users
        for visit in store.history(user, 1_000).visits
    ]


def test_the_history_of_every_user_is_that_of_the_log(tmp_path: Path, store: Store) -> None:
    log = write(tmp_path / "log")
    report = load_log(log, tmp_path, store, items=log)
    assert (report.slates, report.items) == (LoadCounts(new=200), len(ITEMS))
    assert histories(store) == list(visits(frame()))
    for user in ("u0", "u1"):
        assert all(v.seen == len(v.slate.items) for v in store.history(user, 9).visits)
        assert all(v.slate.serving is None for v in store.history(user, 9).visits)


def test_a_dataset_a_log_and_its_copy_in_text_are_the_same_slates(
    tmp_path: Path, store: Store
) -> None:
    log = write(tmp_path / "log")
    assert load_log(log, tmp_path, store, items=log).slates == LoadCounts(new=200)
    last = store.seq()
    prepared = prepare(log, log, tmp_path / "dataset")
    text = tmp_path / "log.jsonl"
    frame().with_columns(pl.col("time").cast(pl.Int64)).sample(
        fraction=1.0, shuffle=True, seed=1
    ).write_ndjson(text)
    again = load_dataset(prepared, tmp_path, store).slates
    other = load_log(text, tmp_path, store, log_format=LogFormat(time_unit="us")).slates
    assert again == other == LoadCounts(known=200)
    assert store.seq() == last


def test_a_log_that_has_grown_adds_what_is_new(tmp_path: Path, store: Store) -> None:
    whole = frame()
    fewer = whole.with_columns(pl.col("click").list.head(1))[:150]
    log, grown = write(tmp_path / "log", fewer), write(tmp_path / "grown", whole)
    load_log(log, tmp_path, store, items=log)
    assert load_log(grown, tmp_path, store, items=grown).slates == LoadCounts(new=50, known=150)
    found = [(*each[:4], set(each[4])) for each in histories(store)]  # type: ignore[call-overload]
    assert found == [(*each[:4], set(each[4])) for each in visits(whole)]


def test_spans_of_time_divide_the_work_and_change_nothing(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared = dataset(tmp_path)
    (whole,) = columns.slates_of(prepared)
    monkeypatch.setattr(columns, "_AT_ONCE", 20)
    monkeypatch.setattr(columns, "BATCH", 7)
    parts = list(columns.slates_of(prepared))
    assert len(parts) > 30
    assert whole.slates.times == sorted(whole.slates.times)
    for name, values in vars(whole.slates).items():
        assert [one for part in parts for one in getattr(part.slates, name)] == values
    assert sum(part.interactions for part in parts) == prepared.num_interactions
    assert load_dataset(prepared, tmp_path, store).slates == LoadCounts(new=200)


def popularity(half_lives: tuple[float, ...] = (1.0, 12.0)) -> Popularity:
    return Popularity(settings=PopularityConfig(half_lives=half_lives), rate=0.1, slate_rate=0.5)


def test_popularity_counts_what_it_counts_in_a_dataset(tmp_path: Path, store: Store) -> None:
    prepared = dataset(tmp_path)
    load_dataset(prepared, tmp_path, store)
    log = ItemLog()
    log.read(store)
    known = ItemStates(
        {"popularity": PopularityTerm(popularity=popularity(), sizes=(1.0,) * 9)}, log
    )
    known.read(store)
    after = START + 300 * MINUTE
    wanted = PopularityState.of(popularity(), prepared).features(after)
    positions = log.items.find(map(str, prepared.item_ids))
    np.testing.assert_allclose(
        known.by_name["popularity"].features(after)[positions], wanted, rtol=1e-5, atol=1e-6
    )
    assert np.ptp(wanted[:, 0]) > 0.1


def test_what_is_loaded_stays_out_of_the_experiment_and_is_in_the_night(
    tmp_path: Path, store: Store
) -> None:
    load_dataset(dataset(tmp_path), tmp_path, store)
    tally = Tally()
    tally.read(store)
    assert len(tally.slates(0, 2**62).users) == 0
    window = export_window(store, tmp_path, START, START + 100 * MINUTE, lambda *at: None)
    early = frame().filter(pl.col("time").cast(pl.Int64) < START + 100 * MINUTE)
    assert (window.slates, window.unknown_items) == (early.height, 0)
    assert window.clicks == early["click"].list.len().sum()


def test_a_log_of_the_past_leaves_the_clock_and_what_was_known_before_as_they_were(
    tmp_path: Path, store: Store
) -> None:
    now = START + 500 * MINUTE
    store.write([SlateRecord("s", "u1", now, "search", ("a01",))], [Outcome("s", None, (), now)])
    before, last = store.history("u1", 1_000), store.seq()
    load_dataset(dataset(tmp_path), tmp_path, store)
    assert store.last_served() == 0
    assert store.history("u1", 1_000, until=last) == before
    assert store.history("u1", 1_000).visits[-1] == before.visits[0]  # by time, not by number
    numbers = [answer.seq for answer in store.answers_since(last, 1_000)]
    assert len(numbers) == 200
    assert numbers == sorted(numbers)
    assert numbers[0] > last


def test_a_service_that_runs_hears_of_it_at_once(tmp_path: Path) -> None:
    config = ServiceConfig(cache_seconds=1e6)
    service = a_service(tmp_path / "shop", a_model(("bias", "history")), config)
    request = Request("u1", seed=3)
    clicked = {each[4] for each in visits(frame()) if each[0] == "u1"}
    bought = {item for items in clicked for item in items}
    unknown, _, _ = service.recommend(request)
    assert bought & set(unknown.items)
    assert service.at_hand(request)
    now = service.clock.now()
    load_dataset(dataset(tmp_path), tmp_path / "shop", service.store)
    assert not service.at_hand(request)
    record, _, _ = service.recommend(request)
    assert record.time > now
    assert not bought & set(record.items)  # what she clicked is not shown again
    assert record.serving is not None
    assert record.serving.known > 0


def test_an_erased_user_does_not_come_back(tmp_path: Path, store: Store) -> None:
    prepared = dataset(tmp_path)
    load_dataset(prepared, tmp_path, store)
    mine = store.erase("u1", time.time_ns() // 1_000)
    assert load_dataset(prepared, tmp_path, store).slates == LoadCounts(0, 200 - mine, mine)
    assert store.history("u1", 10).visits == ()


def test_items_that_the_store_knows_stay_as_they_are(tmp_path: Path, store: Store) -> None:
    store.put_items([("a01", "grey", ItemState.REMOVED)])
    log = write(tmp_path / "log")
    assert load_log(log, tmp_path, store, items=log).items == len(ITEMS) - 1
    item = store.item("a01")
    assert item is not None
    assert (item.group, item.state) == ("grey", ItemState.REMOVED)


def test_columns_of_new_items_come_along_as_their_features(tmp_path: Path, store: Store) -> None:
    log = write(tmp_path / "log")
    table = pl.read_parquet(log / "items.parquet").with_columns(
        price=pl.Series([2.5, None] * 30),
        brand=pl.Series(["ash", "oak", "ash"] * 20),
        image=pl.Series([[0.5, 1.0]] * 60),
        tags=pl.Series([["new"], ["new", "red"], []] * 20),
        made=pl.Series([datetime(2023, 12, 24, 18), None] * 30),
        title=pl.Series([f"chair number {number}" for number in range(60)]),
        ref=pl.Series([f"r-{number}" for number in range(60)]),
        size=pl.Series([{"w": 1}] * 60),
    )
    table.write_parquet(log / "items.parquet")
    store.put_items([("a01", "grey", ItemState.SHOWN)])
    report = load_log(log, tmp_path, store, items=log)
    assert report.items == len(ITEMS) - 1
    assert list(report.skipped) == ["size"]
    known = {item.item_id: item.described for page in store.all_items() for item in page}
    assert not known["a01"]
    first, third = (store.item_features([known[item]])[known[item]] for item in ("a00", "a03"))
    assert first == {
        "price": 2.5,
        "brand": "ash",
        "image": [0.5, 1.0],
        "tags": ["new"],
        "made": "2023-12-24T18:00:00.000000Z",
        "title": "chair number 0",
        "ref": "r-0",
    }
    assert third["brand"] == "ash"
    assert "price" not in third
    assert "made" not in third
    for file in ("items.parquet", "items.csv"):
        export_log(store, tmp_path / "log.parquet", items=tmp_path / file)
        again = prepare(tmp_path / "log.parquet", tmp_path / file, tmp_path / file[:-4]).items
        assert again.columns == ["item_id", "group", *sorted(first)]
        for row in table.drop("size").rows(named=True)[2:]:
            (found,) = again.filter(pl.col("item_id") == row["item_id"]).rows(named=True)
            assert (str(found["price"]), found["brand"]) == (str(row["price"]), row["brand"])
        assert date_columns(again)["made"].max() == 1_703_440_800_000_000
        kinds = usable_kinds(again, tmp_path / file)[0]
        assert (kinds["tags"], kinds["image"]) == ("tags", "embedding")


def load_any(log: Path, directory: Path, store: Store) -> None:
    if (log / "dataset.json").exists():
        load_dataset(SlateDataset.open(log), directory, store)
    else:
        load_log(log, directory, store, items=log)


@pytest.mark.parametrize("prepared", [False, True])
def test_features_that_are_too_long_are_refused_by_their_row(
    tmp_path: Path, store: Store, prepared: bool
) -> None:
    log = write(tmp_path / "log")
    file = log / "items.parquet"
    table = pl.read_parquet(file).with_columns(
        price=pl.lit(2.5), image=pl.Series([[0.123456789 + n] * 4_000 for n in range(60)])
    )
    both = pl.when(pl.col("item_id") == "a07").then("image").otherwise(None)
    table.with_columns(back=both).write_parquet(file)
    if prepared:
        file = tmp_path / "dataset" / "items.parquet"
        log = prepare(log, log, tmp_path / "dataset").path
    with pytest.raises(InputError, match="item 'a07'") as refusal:
        load_any(log, tmp_path, store)
    assert (refusal.value.file, refusal.value.row) == (file, 8)
    assert "65,536" in refusal.value.remedy


def test_without_a_table_no_item_is_added(tmp_path: Path, store: Store) -> None:
    log = write(tmp_path / "log") / "log.parquet"
    with pytest.raises(SlatewiseError, match="no items yet") as refusal:
        load_log(log, tmp_path, store)
    assert "--items" in refusal.value.remedy
    store.put_items([("a01", "red", ItemState.SHOWN)])
    report = load_log(log, tmp_path, store)
    assert (report.items, report.slates.new) == (0, 200)
    assert [item.item_id for item in store.items(None, 10)] == ["a01"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"user_id": "x" * 513}, "row 3, column 'user_id': the user's id has 513 characters"),
        ({"source": "a\0b"}, "row 3, column 'source': the source has a character NUL"),
        ({"slate": ["a01", "y" * 600]}, "row 3, column 'slate': the id of an item has 600"),
        ({"time": START // 1_000}, "row 3, column 'time': 1970-01-20T.* is before the year 2000"),
        ({"time": 4_000_000_000_000_000}, "row 3, column 'time': 2096-.* is in the future"),
    ],
)
def test_what_no_store_can_keep_is_refused_with_its_row(
    tmp_path: Path, change: dict[str, object], problem: str
) -> None:
    log = frame().with_columns(pl.col("time").cast(pl.Int64), click=pl.lit([], pl.List(pl.String)))
    changed = pl.concat(
        [log[:2], pl.DataFrame([log.row(2, named=True) | change]), log[3:]], how="vertical_relaxed"
    )
    folder = write(tmp_path / "log", changed)
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    with pytest.raises(InputError, match=problem):
        load_log(folder, tmp_path, store, items=folder, log_format=LogFormat(time_unit="us"))
    assert store.seq() == store.item_seq() == 0
    store.close()


def test_times_that_are_only_an_order_are_refused(tmp_path: Path) -> None:
    order = frame().with_columns(pl.col("time").rank("dense").cast(pl.Int64))
    prepared = dataset(tmp_path, order)
    store = Store.open(f"sqlite:///{tmp_path}/store.sqlite")
    with pytest.raises(SlatewiseError, match="only an order") as refusal:
        load_dataset(prepared, tmp_path, store)
    assert "--time-unit" in refusal.value.remedy
    store.close()


LOADER = """
import sys, time
from itertools import count
from pathlib import Path
from slatewise.data import SlateDataset
from slatewise.service.logs import columns, load_dataset
from slatewise.service.store import Store
columns.BATCH = 200
store = Store.open(sys.argv[1])
batches = count(1)

def tell(stage, done, total):
    print(done, flush=True)
    if next(batches) == int(sys.argv[4]):
        time.sleep(600)

load_dataset(SlateDataset.open(sys.argv[2]), Path(sys.argv[3]), store, tell)
"""
"""Loads so many batches, and waits to be killed: else it could be done before."""


def test_a_load_that_is_killed_goes_on_and_ends_like_one_that_was_not(
    tmp_path: Path, store: Store, store_url: str
) -> None:
    many = dataset(tmp_path, frame(slates=5_000))
    command = [sys.executable, "-c", LOADER, store_url, str(many.path), str(tmp_path)]
    there = 0
    for least, most in ((2, 5), (6, 12)):
        loading = subprocess.Popen([*command, str(most)], stdout=subprocess.PIPE, text=True)
        assert loading.stdout is not None
        for _ in range(least):
            assert loading.stdout.readline()
        os.kill(loading.pid, signal.SIGKILL)
        loading.wait()
        loading.stdout.close()
        now = len(rows(store_url, "SELECT 1 FROM slates"))
        assert there < now < 5_000
        assert now % 200 == 0
        there = now
    report = load_dataset(many, tmp_path, store).slates
    assert (report.new, report.known) == (5_000 - there, there)
    assert rows(store_url, "SELECT count(*), count(DISTINCT slate) FROM outcomes") == [
        (5_000, 5_000)
    ]
    wanted = list(visits(frame(slates=5_000)))
    assert [each for each in histories(store) if each[0] == "u3"] == [
        each for each in wanted if each[0] == "u3"
    ][-1_000:]
