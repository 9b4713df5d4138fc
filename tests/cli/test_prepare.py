"""`slatewise prepare` and `slatewise describe`, as a person types them."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from slatewise.data import SlateDataset
from tests.cli.conftest import Run
from tests.data.recovery import rows_of


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    rows: list[dict[str, Any]] = [
        {"who": user, "time": time, "slate": ["a", "b", "c"], "click": "b" if time % 2 else None}
        for user in ("ann", "bo", "cy")
        for time in range(12)
    ]
    rows.append({"who": "dan", "time": 3, "slate": ["a"], "click": "z"})
    log, items = tmp_path / "log.parquet", tmp_path / "items.parquet"
    pl.DataFrame(rows).write_parquet(log)
    pl.DataFrame({"item_id": ["a", "b", "c"], "category": ["x", "x", "y"]}).write_parquet(items)
    return log, items


def options(files: tuple[Path, Path], out: Path) -> list[object]:
    mapping = ["--map", "user_id=who", "--map-items", "group=category", "--source", "web"]
    return ["prepare", *files, out, *mapping]


def test_prepare_ends_with_the_account(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, text, _ = run(*options(files, out), "--first", 10, "--valid-share", 0.3)
    assert code == 0
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "rows in the log 37" in lines
    (dropped,) = (line for line in lines if line.startswith("click is not in the slate −1"))
    assert dropped.endswith("row 37")
    assert "name it with --no-click" in text
    assert "for validation 5 of 1 user" in lines
    assert "after the user's first interactions kept −6 as asked" in lines
    assert "interactions that remain 30" in lines
    dataset = SlateDataset.open(out)
    assert dataset.num_interactions == 30
    assert dataset.source_names == ["web"]
    assert dataset.meta["split"]["valid_share"] == 0.3


def test_integer_times_in_microseconds_are_read(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    code, _, error = run(*options(files, tmp_path / "out"), "--time-unit", "us")
    assert (code, error) == (0, "")
    assert SlateDataset.open(tmp_path / "out").times.tolist() == list(range(12)) * 3


def test_prepare_says_what_integer_times_are_taken_for(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    _, text, _ = run(*options(files, tmp_path / "order"))
    assert "column 'time' are taken as an order" in text
    assert "--time-unit s, ms, us or ns" in text
    frame = pl.read_parquet(files[0])
    frame.with_columns(pl.col("time") * 3_600 + 1_715_949_000).write_parquet(files[0])
    asked = ["--split", "time", "--valid-from", "1715970600", "--test-from", "2024-05-17T20:30:00"]
    _, text, _ = run(*options(files, tmp_path / "clock"), *asked)
    assert "column 'time' lie in the years 1990 to 2040 as seconds since 1970" in text
    dataset = SlateDataset.open(tmp_path / "clock")
    assert dataset.times[0] == 1_715_949_000_000_000
    assert dataset.train_end.tolist() == [6] * 3  # --valid-from is in the log's own unit
    assert dataset.valid_end.tolist() == [8] * 3
    code, _, error = run(*options(files, tmp_path / "far"), *asked[:3], "9" * 30, *asked[4:])
    assert (code, "is no time in the unit of the log's times, 's'" in error) == (2, True)
    _, text, _ = run(*options(files, tmp_path / "named"), "--time-unit", "order")
    assert "column 'time'" not in text


def test_prepare_says_how_dates_are_read(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    frame = pl.read_parquet(files[0])
    day = (pl.col("time") + 10).cast(pl.String)
    frame.with_columns(time=day + ".05.2024").write_parquet(files[0])
    code, text, _ = run(*options(files, tmp_path / "out"))
    assert (code, "dates of column 'time' are read as %d.%m.%Y" in text) == (0, True)
    assert "2024-05-10" in run("describe", tmp_path / "out")[1]


def test_prepare_notes_times_that_are_too_coarse(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    frame = pl.read_parquet(files[0])
    for steps, wanted in ((4, True), (1, False)):
        frame.with_columns(pl.col("time") // steps).write_parquet(files[0])
        _, text, _ = run(*options(files, tmp_path / str(steps)))
        assert ("have the time of their user's one before" in text) == wanted


def test_the_items_table_may_be_left_out(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    log, items = files
    (tmp_path / "alone").mkdir()
    alone = log.rename(tmp_path / "alone" / "log.parquet")
    mapping = ["--map", "user_id=who", "--source", "web"]
    code, text, _ = run("prepare", alone, tmp_path / "out", *mapping)
    assert code == 0
    assert "There is no items table: all items are in one group, 'unknown'" in text
    assert SlateDataset.open(tmp_path / "out").num_items == 3
    _, text, _ = run("prepare", alone, items, tmp_path / "ungrouped", *mapping)
    assert "has no column 'group': all items are in one group" in text
    assert "--map-items group=COLUMN" in text
    code, _, error = run("prepare", alone, items, *mapping)
    assert (code, "OUT is missing" in error) == (2, True)


def test_presets_can_be_changed(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    code, _, _ = run(
        *options(files, out), "--preset", "paper", "--no-click-share", 1, "--max-slate", 2
    )
    assert code == 0
    assert SlateDataset.open(out).meta["prepare"] == {
        "no_click_share": 1.0,
        "max_slate": 2,
        "first": 20,
        "min_interactions": 10,
        "listed_items_only": False,
        "several_clicks": "each",
        "same_slate": 30.0,
        "seed": 0,
        "strict": False,
    }


@pytest.mark.parametrize(
    ("extra", "message", "remedy"),
    [
        (["--strict"], "row 37, column 'click': click is not in the slate", "--no-click"),
        (["--map", "who"], "'who' is not a mapping", "FIELD=COLUMN"),
        (["--map", "visitor=who"], "'visitor=who' is not a mapping", "user_id"),
        (["--no-click-share", "2"], "'no_click_share'", "Correct"),
        (["--min-interactions", "99"], "no interaction is left of 37", "Loosen"),
        (["--mapping", "nowhere.toml"], "nowhere.toml: cannot be read", "Check the path"),
        (["--valid-share", "0.9", "--test-share", "0.9"], "nothing for training", "Correct"),
    ],
)
def test_mistakes_end_in_a_problem_and_a_remedy(
    extra: list[str],
    message: str,
    remedy: str,
    run: Run,
    files: tuple[Path, Path],
    tmp_path: Path,
) -> None:
    out = tmp_path / "out"
    code, _, errors = run(*options(files, out), *extra)
    assert code == 2
    problem, cure = errors.split("remedy:")
    assert message in problem
    assert remedy in cure
    assert "Traceback" not in errors
    assert not out.exists()


def test_describe_in_words_and_in_json(run: Run, files: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "out"
    run(*options(files, out))
    code, text, _ = run("describe", out, "--verify")
    assert code == 0
    for part in ("Click rate by source", "Slates by items seen", "Items by views", "validation"):
        assert part in text
    code, text, _ = run("describe", out, "--json")
    facts = json.loads(text)
    assert (code, facts["users"], facts["interactions"], facts["clicks"]) == (0, 3, 36, 18)


def test_describe_of_something_else(run: Run, tmp_path: Path) -> None:
    code, _, errors = run("describe", tmp_path)
    assert code == 2
    assert "not a dataset" in errors
    assert "slatewise prepare" in errors


def test_names_and_paths_are_printed_as_they_are(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    log, items = files
    rows = pl.read_parquet(log)
    rows.with_columns(source=pl.lit("[red]mail[/nothing] :smile:")).write_parquet(log)
    out = tmp_path / "[bold]out"
    command = ["prepare", log, items, out, "--map", "user_id=who", "--map-items", "group=category"]
    code, text, _ = run(*command)
    assert (code, "[bold]out" in text) == (0, True)
    code, text, _ = run("describe", out)
    assert code == 0
    assert "[red]mail[/nothing] :smile:" in text
    assert "[bold]out" in text
    _, _, errors = run("describe", tmp_path / "[/nowhere]")
    assert "[/nowhere]" in errors


def test_what_the_system_refuses_ends_in_a_problem_and_a_remedy(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    before = sorted(tmp_path.iterdir())
    (tmp_path / "file").touch()
    code, _, errors = run(*options(files, tmp_path / "file" / "out"))
    (tmp_path / "file").unlink()
    assert code == 2
    problem, remedy = errors.splitlines()
    assert problem.startswith("error: ")
    assert "file" in problem
    assert remedy.startswith("remedy: ")
    assert sorted(tmp_path.iterdir()) == before


def test_a_full_disk_leaves_nothing_behind(
    run: Run, files: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slatewise.data.writer.DatasetWriter.append", full)
    before = sorted(tmp_path.iterdir())
    code, _, errors = run(*options(files, tmp_path / "out"))
    assert (code, errors.splitlines()[0]) == (2, "error: No space left on device.")
    assert sorted(tmp_path.iterdir()) == before


def test_a_part_of_the_split_that_is_empty_is_told(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    _, text, _ = run(*options(files, tmp_path / "out"), "--prefix", 99)
    assert "Nothing is held out for validation" in text
    assert "Nothing is held out for test" in text
    _, text, _ = run(*options(files, tmp_path / "more"), "--valid-share", 0)
    assert "Nothing is held out" not in text


def test_a_log_of_short_users_holds_them_out_whole_and_says_so(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    said = "training sees nothing of those held out"
    assert said not in run(*options(files, tmp_path / "out"))[1]
    _, text, _ = run(*options(files, tmp_path / "short"), "--first", 3)
    assert said in text
    description = json.loads((tmp_path / "short" / "dataset.json").read_text())
    assert description["split"]["prefix"] == 0
    assert SlateDataset.open(tmp_path / "short").train_end.tolist() in (
        [0, 0, 3],
        [0, 3, 0],
        [3, 0, 0],
    )
    assert said not in run(*options(files, tmp_path / "given"), "--first", 3, "--prefix", 0)[1]


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_output_that_knows_few_characters_gets_plainer_ones(
    encoding: str, files: tuple[Path, Path], tmp_path: Path
) -> None:
    script = (
        "import sys\n"
        "from slatewise.cli import main\n"
        "prepare = sys.argv\n"
        "for command in (prepare, [*prepare[:1], 'describe', prepare[4]]):\n"
        "    sys.argv = command\n"
        "    try:\n"
        "        main()\n"
        "    except SystemExit as stop:\n"
        "        assert not stop.code, command\n"
        "    print('\\f')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, options(files, tmp_path / "out"))],
        env=os.environ | {"PYTHONIOENCODING": encoding},
        capture_output=True,
        check=True,
    )
    prepared, described, _ = done.stdout.decode(encoding).split("\f")
    if encoding != "utf-8":
        for text in (prepared, described):
            assert "?" not in text
            assert ("-1" in text) or ("####" in text)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)]
)
def test_a_polite_end_leaves_nothing_behind(
    number: signal.Signals, code: int, files: tuple[Path, Path], tmp_path: Path
) -> None:
    script = (
        "import signal, time\n"
        "from slatewise.cli import main\n"
        "signal.signal(signal.SIGHUP, signal.SIG_DFL)\n"  # whatever the tests were started by
        "from slatewise.data.writer import DatasetWriter\n"
        "DatasetWriter.finish = lambda *a, **k: time.sleep(600)\n"
        "main()\n"
    )
    before = sorted(tmp_path.iterdir())
    running = subprocess.Popen(
        [sys.executable, "-c", script, *map(str, options(files, tmp_path / "out"))],
        stderr=subprocess.PIPE,
        text=True,
    )
    while not list(tmp_path.glob(".out.*.partial/users.parquet")):
        assert running.poll() is None
        time.sleep(0.05)
    running.send_signal(number)
    _, errors = running.communicate(timeout=300)
    assert (running.returncode, errors) == (code, "stopped.\n")
    assert sorted(tmp_path.iterdir()) == before


def test_only_listed_items_are_kept_where_asked(run: Run, tmp_path: Path) -> None:
    rows = [
        {"user_id": "ann", "time": 1, "slate": ["a", "z", "b"], "click": "b"},
        {"user_id": "ann", "time": 2, "slate": ["a", "z"], "click": "z"},
        {"user_id": "ann", "time": 3, "slate": ["z"], "click": None},
        {"user_id": "ann", "time": 4, "slate": ["z", "b"], "click": None},
    ]
    log, items, out = (tmp_path / name for name in ("log.parquet", "items.csv", "out"))
    pl.DataFrame(rows).write_parquet(log)
    pl.DataFrame({"item_id": ["a", "b"], "group": "x"}).write_csv(items)
    code, text, _ = run("prepare", log, items, out, "--source", "web", "--listed-items-only")
    assert code == 0
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(
        line.startswith("slate has items that are not in the items table 4") for line in lines
    )
    assert "saw only, or clicked, items outside the items table −2 as asked" in lines
    dataset = SlateDataset.open(out)
    assert dataset.num_items == 2
    kept = {"ann": [(1, ("a", "b"), "b", "web"), (4, ("b",), None, "web")]}
    assert rows_of(dataset) == kept


def described(run: Run, tmp_path: Path, rows: list[dict[str, Any]]) -> tuple[str, dict[str, Any]]:
    log, items, out = (tmp_path / name for name in ("log.parquet", "items.csv", "out"))
    pl.DataFrame(rows).write_parquet(log)
    shown = sorted({item for row in rows for item in row["slate"]})
    pl.DataFrame({"item_id": shown, "group": "x"}).write_csv(items)
    assert run("prepare", log, items, out)[0] == 0
    return run("describe", out)[1], json.loads(run("describe", out, "--json")[1])


def test_describe_counts_slates_with_several_clicks_once(run: Run, tmp_path: Path) -> None:
    base = {"user_id": "ann", "source": "web", "slate": ["a", "b", "c"]}
    rows = [
        base | {"time": 1, "click": ["a", "c"]},
        base | {"time": 2, "click": []},
        base | {"time": 3, "click": ["b"], "source": "Web"},
    ]
    text, facts = described(run, tmp_path, rows)
    assert (facts["interactions"], facts["slates"], facts["clicks"]) == (4, 3, 3)
    assert facts["sources"]["web"]["click_rate"] == 0.5
    assert facts["slate_lengths"] == {"3": 3}
    assert facts["views_per_item"] == {"0": 0, "1": 0, "2-3": 3}
    assert re.search(r"items seen per slate +3\.0", text)
    assert "3, some with several clicks" in text
    assert "Sources 'Web' and 'web' differ only in case" in text
    assert "Every slate has a click" not in text


def test_a_log_without_any_click_is_pointed_out(
    run: Run, files: tuple[Path, Path], tmp_path: Path
) -> None:
    frame = pl.read_parquet(files[0])
    nothing = pl.lit(None, dtype=frame.schema["click"])
    frame.with_columns(click=nothing).write_parquet(files[0])
    code, text, _ = run(*options(files, tmp_path / "out"))
    assert (code, "No slate has a click" in text, "--map click=COLUMN" in text) == (0, True, True)
    text = run("describe", tmp_path / "out")[1]
    assert "No slate has a click" in text
    assert "Every slate has a click" not in text


def test_describe_warns_where_every_slate_has_a_click_and_bins_long_histograms(
    run: Run, tmp_path: Path
) -> None:
    rows = [
        {"user_id": "ann", "source": "web", "time": n, "slate": list(range(n)), "click": [0]}
        for n in range(1, 61)
    ]
    text, facts = described(run, tmp_path, rows)
    assert "Every slate has a click" in text
    assert len(facts["slate_lengths"]) == 60
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert any(line.startswith("1-3 3 █") for line in lines)
    assert any(line.startswith("58-60 3 █") for line in lines)
