"""`slatewise recommend` with all that a log tells: slates, sources, times and popularity."""

import re
import shutil
from pathlib import Path

import polars as pl
import pytest

from slatewise.data import SlateDataset
from slatewise.features.showings import replay
from slatewise.model.config import ModelConfig
from slatewise.slates import Recommender, Seen
from slatewise.training import TrainingConfig, fit, runs, save
from tests.cli.conftest import Run
from tests.model.terms.logs import dataset_of, rows_of

MINUTE = 60_000_000
ASK = ["--k", 4, "--seed", 3, "--strategy", "greedy"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log with its dataset, and a run with every term that ranks, and evidence."""
    folder = tmp_path_factory.mktemp("told")
    dataset = dataset_of(folder / "log", rows_of(0))
    terms = ("bias", "history", "popularity")
    config = ModelConfig(
        dimensions=2, dynamics="linear", terms=terms, evidence=("search", "front page")
    )
    training = TrainingConfig(max_epochs=4, batch_users=10, learning_rate=0.2)
    save(fit(dataset, config, training), folder / "run")
    log = pl.read_parquet(folder / "log" / "log.parquet")
    clock = pl.from_epoch(pl.col("time"), time_unit="s")
    log.with_columns(clock).write_parquet(folder / "log.parquet")
    return folder


def expected(folder: Path, *, slates: bool, popular: bool) -> dict[int, list[object]]:
    """Slates by the Python interface, event by event."""
    recommender = Recommender.load(folder / "run")
    dataset = SlateDataset.open(folder / "log" / "set")
    if popular:
        term = recommender.model.terms.by_name["popularity"]
        state = term.state_after(dataset)
        recommender.refresh(state, int(dataset.times.max()) + MINUTE)
    found, names = {}, dataset.source_names
    for number, user in enumerate(dataset.user_ids):
        events: list[object] = []
        for shown in replay(dataset.interactions(), number):
            clicked = [shown.items[click] for click in shown.clicks]
            events += [Seen(shown.items, clicked, names[shown.source])] if slates else clicked
        found[user] = recommender.recommend(events, 4, strategy="greedy").items  # type: ignore[arg-type]
    return found


def slates_of(file: Path) -> dict[int, list[object]]:
    frame = pl.read_parquet(file).sort("user_id", "position")
    return dict(frame.group_by("user_id", maintain_order=True).agg("item_id").iter_rows())


def test_a_log_tells_whole_histories_and_what_is_popular(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    log, full, bare = folder / "log.parquet", tmp_path / "full.parquet", tmp_path / "bare.parquet"
    code, text, _ = run(
        "recommend", folder / "run", "--users", log, "--log", log, "--out", full, *ASK
    )
    assert code == 0
    assert "Missing data" not in text
    assert "Popularity as of 2023-11-1" in text
    assert slates_of(full) == expected(folder, slates=True, popular=True)
    code, text, _ = run("recommend", folder / "run", "--users", log, "--out", bare, *ASK)
    assert "Missing data: popularity (items count as new; give --log)." in text
    assert slates_of(bare) == expected(folder, slates=True, popular=False)
    assert slates_of(bare) != slates_of(full)


def test_without_a_log_popularity_is_that_of_the_dataset_of_the_run(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    dataset, known = SlateDataset.open(folder / "log" / "set"), tmp_path / "run"
    shutil.copytree(folder / "run", known)
    about = {"path": str(dataset.path), "content_hash": dataset.content_hash}
    runs.update(known, dataset=about)
    _, text, _ = run("recommend", known, "--clicks", "1", *ASK)
    assert "Popularity as of 2023-11-1" in text
    assert "popularity (items count as new" not in text
    runs.update(known, dataset=about | {"content_hash": "another"})
    _, text, _ = run("recommend", known, "--clicks", "1", *ASK)
    assert "popularity (items count as new; give --log)" in text


def test_a_term_of_given_lists_is_missed_only_there(run: Run, folder: Path, tmp_path: Path) -> None:
    config = ModelConfig(dimensions=2, dynamics="linear", terms=("contrast",))
    dataset = SlateDataset.open(folder / "log" / "set")
    save(fit(dataset, config, TrainingConfig(max_epochs=1)), tmp_path / "run")
    _, text, _ = run("recommend", tmp_path / "run", "--clicks", "1", *ASK)
    assert "Missing data" not in text
    _, text, _ = run("recommend", tmp_path / "run", "--clicks", "1", "--candidates", "2,3")
    assert "Missing data: contrast" in text


def test_clicks_alone_tell_less_and_that_is_said(run: Run, folder: Path, tmp_path: Path) -> None:
    clicks, out = tmp_path / "clicks.parquet", tmp_path / "slates.parquet"
    rows = pl.read_parquet(folder / "log.parquet").sort("time")
    rows.select("user_id", "time", item_id="click").write_parquet(clicks)
    options = ["--users", clicks, "--log", folder / "log" / "set", "--out", out, *ASK]
    code, text, _ = run("recommend", folder / "run", *options)
    assert code == 0
    said = " ".join(text.split())
    missing = "slates shown before (history), slates without a click (give --users a log)"
    assert f"Missing data: {missing}." in said
    assert slates_of(out) == expected(folder, slates=False, popular=True)
    assert slates_of(out) != expected(folder, slates=True, popular=True)


def test_a_dataset_and_a_table_of_impressions_tell_the_same(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    rows = pl.read_parquet(folder / "log.parquet").with_row_index("slate_id").explode("slate")
    clicked = (pl.col("slate") == pl.col("click")).fill_null(value=False)
    impressions = rows.select(
        "user_id", "time", "slate_id", "source", item_id="slate", clicked=clicked
    )
    impressions.write_csv(tmp_path / "impressions.csv")  # ids are text here, numbers in the run
    whole = expected(folder, slates=True, popular=False)
    for number, users in enumerate((folder / "log" / "set", tmp_path / "impressions.csv")):
        out = tmp_path / f"{number}.parquet"
        code, text, errors = run("recommend", folder / "run", "--users", users, "--out", out, *ASK)
        assert code == 0, errors
        found = {int(user): slate for user, slate in slates_of(out).items()}
        assert found == whole
        assert "ignored      0" in text


def _sums(text: str) -> list[list[str]]:
    """Return the rows of an explanation: an item, and what adds up to its utility."""
    rows = [line.split() for line in text.replace("−", "-").splitlines()]
    return [row for row in rows if len(row) == 6 and re.fullmatch(r"[+-]\d+\.\d+", row[-1])]


def test_popularity_of_a_later_time_has_faded(run: Run, folder: Path) -> None:
    ask = ["recommend", folder / "run", "--clicks", "3", "--k", 3, "--strategy", "greedy"]
    ask += ["--explain", "--log", folder / "log.parquet"]
    now, later = run(*ask)[1], run(*ask, "--at", "2033-01-01")[1]
    assert "Popularity as of 2033-01-01 00:00:00 UTC" in later
    assert re.search(r"item +distance +bias +popularity +history +sum", now)
    sums = _sums(now)
    for *parts, total in ([float(value) for value in row[1:]] for row in sums):
        assert sum(parts) == pytest.approx(total, abs=0.0025)
    assert len(sums) == 3
    faded = [row[3] for row in _sums(later)]
    assert [row[3] for row in sums] != faded
    assert len(set(faded)) == 1  # clicks have faded, and all are as old as any


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--users", "LOG", "--log", "LOG", "--at", "2023-11-14 22:00:00"], "continues after"),
        (["--users", "LOG", "--at", "2033-01-01"], "Give --log too"),
        (["--users", "ELSEWHERE"], "knows no slates from 'billboard'"),
        (["--users", "OTHERS"], "knows none of the items"),
        (["--users", "LOG", "--log", "ORDER"], "times"),
        (["--users", "BROKEN"], "row 2, column 'slate'"),
    ],
)
def test_what_a_log_cannot_tell_is_refused(
    options: list[str], message: str, run: Run, folder: Path, tmp_path: Path
) -> None:
    log = pl.read_parquet(folder / "log.parquet")
    log.with_columns(source=pl.lit("billboard")).write_parquet(tmp_path / "ELSEWHERE.parquet")
    far = [pl.col("slate").list.eval(pl.element() + 900), pl.col("click") + 900]
    log.with_columns(far).write_parquet(tmp_path / "OTHERS.parquet")
    log.with_columns(time=pl.int_range(pl.len())).write_parquet(tmp_path / "ORDER.parquet")
    rows = '1,2024-01-01,"[1]",1,search\n1,2024-01-02,"[1,",1,search\n'
    (tmp_path / "BROKEN.csv").write_text(f"user_id,time,slate,click,source\n{rows}")
    names = {"LOG": folder / "log.parquet", "BROKEN": tmp_path / "BROKEN.csv"}
    files = {name: tmp_path / f"{name}.parquet" for name in ("ELSEWHERE", "OTHERS", "ORDER")}
    asked = [(names | files).get(option, option) for option in options]
    out = tmp_path / "out.parquet"
    code, _, errors = run("recommend", folder / "run", *asked, "--out", out)
    assert (code, message in " ".join(errors.split())) == (2, True), errors
    assert not out.exists()


def test_a_model_without_popularity_has_no_use_for_a_log(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    dataset = SlateDataset.open(folder / "log" / "set")
    quick = TrainingConfig(max_epochs=1)
    save(fit(dataset, ModelConfig(dimensions=2), quick), tmp_path / "run")
    code, _, errors = run("recommend", tmp_path / "run", "--clicks", "3", "--log", dataset.path)
    assert (code, "does not rank by popularity" in errors) == (2, True)


def test_what_is_wrong_with_a_log_and_mended_is_said(
    run: Run, folder: Path, tmp_path: Path
) -> None:
    log = pl.read_parquet(folder / "log.parquet")
    pl.concat([log, log.head(2)]).write_parquet(tmp_path / "log.parquet")
    options = ["--users", tmp_path / "log.parquet", "--out", tmp_path / "out.parquet", *ASK]
    code, text, _ = run("recommend", folder / "run", *options)
    assert (code, "2 times: interaction is there twice" in text) == (0, True)
    asked = log.select("user_id", items="slate").head(1)
    asked.write_parquet(tmp_path / "asked.parquet")
    options[3] = tmp_path / "ranked.parquet"
    lists = ["--candidates", tmp_path / "asked.parquet"]
    code, text, _ = run("recommend", folder / "run", *options[:4], *lists)
    assert (code, "2 times: interaction is there twice" in text) == (0, True)
