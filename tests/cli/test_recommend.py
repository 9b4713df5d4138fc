"""`slatewise recommend`, as a person types it."""

from pathlib import Path

import polars as pl
import pytest

from slatewise.data.formats import LogFormat
from slatewise.errors import InputError
from slatewise.slates import Recommender, bulk
from slatewise.training import save
from tests.cli.conftest import Run
from tests.slates.conftest import a_model


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of a model with the items a00 … a59."""
    folder = tmp_path_factory.mktemp("recommend") / "run"
    save(a_model(), folder)
    return folder


def test_a_slate_is_printed_with_its_seed(run: Run, made: Path) -> None:
    code, text, _ = run("recommend", made, "--clicks", "a03, a17,zzz", "--k", 5, "--seed", 3)
    expected = Recommender.load(made).recommend(["a03", "a17"], 5, seed=3)
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()[2:7]] == expected.items
    assert f"{expected.relevance[0]:.4f}" in text
    assert "█" in text
    assert "Unknown items, ignored: zzz" in text
    assert "in-slate-thompson, seed 3" in text


def test_somebody_unknown_gets_a_slate_too(run: Run, made: Path) -> None:
    code, text, _ = run("recommend", made, "--clicks", "", "--k", 5, "--strategy", "greedy")
    assert code == 0
    assert "greedy, seed" in text


def test_items_are_excluded_and_explained(run: Run, made: Path) -> None:
    best = Recommender.load(made).recommend(["a03"], 1, strategy="greedy").items[0]
    code, text, _ = run(
        "recommend", made, "--clicks", "a03", "--k", 4, "--exclude", best, "--explain"
    )
    assert code == 0
    assert "shown as" in text
    assert "a03" in text  # the nearest click
    assert not any(line.startswith(f"{best} ") for line in text.splitlines())


@pytest.fixture
def visitors(tmp_path: Path) -> Path:
    file = tmp_path / "visitors.csv"
    rows = "".join(f"u{number},a{number % 60:02d}\n" for number in range(150))
    file.write_text(f"user_id,item_id\n{rows}u0,a09\nnew,\nodd,zzz\n")
    return file


def test_every_user_of_a_file_gets_her_slate(
    run: Run, made: Path, visitors: Path, tmp_path: Path
) -> None:
    out = tmp_path / "slates.parquet"
    code, text, _ = run("recommend", made, "--users", visitors, "--out", out, "--k", 4, "--seed", 9)
    assert code == 0
    assert "ignored      1" in text
    slates = pl.read_parquet(out)
    assert slates.columns == ["user_id", "position", "item_id", "seed"]
    assert slates["user_id"].n_unique() == 152
    assert (
        slates.group_by("user_id").agg(pl.col("position"))["position"].to_list()
        == [[1, 2, 3, 4]] * 152
    )
    first = slates.filter(user_id="u0")
    again = Recommender.load(made).recommend(["a00", "a09"], 4, seed=int(first["seed"][0]))
    assert first["item_id"].to_list() == again.items


def test_a_stopped_file_goes_on_and_ends_the_same(
    run: Run, made: Path, visitors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk, "PART_USERS", 50)
    whole, stopped = tmp_path / "whole.parquet", tmp_path / "stopped.parquet"
    ask = ["recommend", made, "--users", visitors, "--k", 4, "--seed", 9, "--out"]
    run(*ask, whole)
    make = bulk._slates
    parts: list[int] = []

    def once(*arguments: object) -> object:
        if parts:
            raise KeyboardInterrupt
        parts.append(1)
        return make(*arguments)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(bulk, "_slates", once)
        code, _, _ = run(*ask, stopped)
    assert code != 0
    assert not stopped.exists()
    made_again: list[int] = []
    monkeypatch.setattr(bulk, "_slates", lambda *a: (made_again.append(1), make(*a))[1])
    assert run(*ask, stopped)[0] == 0
    assert len(made_again) == 3  # of four parts, one was there
    assert pl.read_parquet(stopped).equals(pl.read_parquet(whole))
    assert sorted(file.name for file in tmp_path.iterdir() if file.name.startswith(".")) == []


def test_a_mapping_names_the_columns_of_a_log_of_users(
    run: Run, made: Path, tmp_path: Path
) -> None:
    ours, theirs = tmp_path / "ours.csv", tmp_path / "theirs.csv"
    row = "greta,2024-05-17 12:30:00,a03|a04,a04,search\n"
    ours.write_text(f"user_id,time,slate,click,source\n{row}")
    theirs.write_text(f"visitor,shown_at,products,chosen,source\n{row}")
    mapping = tmp_path / "mapping.toml"
    mapping.write_text(
        '[log]\nuser_id = "visitor"\ntime = "shown_at"\nslate = "products"\nclick = "chosen"\n'
    )
    made_of = {}
    for log, options in ((ours, []), (theirs, ["--mapping", mapping])):
        out = tmp_path / f"{log.stem}.parquet"
        ask = ("recommend", made, "--users", log, "--k", 4, "--seed", 9, "--out", out, *options)
        code, _, errors = run(*ask)
        assert code == 0, errors
        made_of[log] = pl.read_parquet(out)
    assert made_of[ours].equals(made_of[theirs])
    code, _, errors = run("recommend", made, "--clicks", "a03", "--mapping", mapping)
    assert code == 2
    assert "Give --users or --log too" in errors


@pytest.mark.parametrize(
    ("item", "field"), [("sku", "item_id"), ("chosen", "click")], ids=["item", "click"]
)
def test_a_mapping_names_the_columns_of_a_table_of_clicks(
    item: str, field: str, tmp_path: Path
) -> None:
    file = tmp_path / "clicks.csv"
    file.write_text(f"visitor,{item},when\nbo,a03,17.05.2024\nbo,a04,02.03.2024\nann,,\n")
    names = LogFormat(user_id="visitor", time="when").mapped([f"{field}={item}"])
    read = bulk.read_histories(file, str, names)
    assert dict(read.iter_rows()) == {"bo": ["a04", "a03"], "ann": []}
    with pytest.raises(InputError, match="no column 'user_id'"):
        bulk.read_histories(file, str)


def test_clicks_are_taken_in_the_order_of_their_times(tmp_path: Path) -> None:
    file = tmp_path / "visitors.csv"
    file.write_text("user_id,item_id,time\nu,a03,2024-05-17 9:30\nu,a04,2024-05-16 12:30\n")
    assert bulk.read_histories(file, str)["item_id"].to_list() == [["a04", "a03"]]


def test_a_run_that_was_trained_again_does_not_go_on_with_old_slates(
    run: Run, visitors: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, out = tmp_path / "run", tmp_path / "slates.parquet"
    save(a_model(), made)
    ask = ["recommend", made, "--users", visitors, "--k", 4, "--out", out]
    with monkeypatch.context() as patch:
        patch.setattr(bulk, "_join", lambda *a: (_ for _ in ()).throw(KeyboardInterrupt))
        run(*ask)
    save(a_model(scale=0.5), made, overwrite=True)
    code, _, errors = run(*ask)
    assert code == 2
    assert "part of other slates" in errors


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ([], "either --clicks or --users"),
        (["--clicks", "a03", "--users", "x.csv"], "either --clicks or --users"),
        (["--clicks", "a03", "--strategy", "ucb"], "no strategy 'ucb'"),
        (["--users", "missing.csv", "--out", "o.parquet"], "no such file"),
        (["--users", "VISITORS"], "need a file"),
        (["--users", "VISITORS", "--out", "VISITORS"], "exists already"),
        (["--users", "ODD", "--out", "o.parquet"], "no column 'item_id'"),
        (["--users", "NOBODY", "--out", "o.parquet"], "has no row"),
        (["--users", "LATE", "--out", "o.parquet"], "is not a time"),
    ],
)
def test_odd_requests_are_refused_in_words(
    options: list[str], problem: str, run: Run, made: Path, visitors: Path, tmp_path: Path
) -> None:
    odd = tmp_path / "odd.csv"
    odd.write_text("user_id,clicks\nu,a\n")
    nobody, late = tmp_path / "nobody.csv", tmp_path / "late.csv"
    nobody.write_text("user_id,item_id\n")
    late.write_text("user_id,item_id,time\nu,a03,2024-05-17\nu,a04,late\n")
    names = {"VISITORS": str(visitors), "ODD": str(odd), "NOBODY": str(nobody), "LATE": str(late)}
    code, _, errors = run("recommend", made, *(names.get(option, option) for option in options))
    assert code == 2
    assert problem in errors
    assert "remedy:" in errors


def test_candidates_are_ordered_for_one_user(run: Run, made: Path) -> None:
    asked = ["--clicks", "a03", "--candidates", "a07,a41,a03,zzz"]
    code, text, _ = run("recommend", made, *asked)
    expected = Recommender.load(made).rank(["a07", "a41", "a03"], ["a03"])
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()[2:5]] == expected.items
    assert f"{expected.probabilities[0]:.4f}" in text
    assert "Not on offer, left out: zzz" in text


@pytest.mark.parametrize(
    "option", [("--explain",), ("--seed", "0"), ("--exclude", "a07"), ("--strategy", "greedy")]
)
def test_what_has_no_effect_on_an_order_is_refused(
    run: Run, made: Path, option: tuple[str, ...]
) -> None:
    code, _, errors = run("recommend", made, "--clicks", "a03", "--candidates", "a07,a41", *option)
    assert (code, f"{option[0]} has no effect" in errors) == (2, True)


@pytest.mark.parametrize("listed", [True, False])
def test_candidates_of_a_file_are_ordered_for_its_users(
    listed: bool, run: Run, made: Path, visitors: Path, tmp_path: Path
) -> None:
    asked, out = tmp_path / "asked.csv", tmp_path / "ranked.parquet"
    rows = "u0,a07|a41|a03\nnobody,a09|zzz\n"
    if not listed:
        rows = "u0,a07\nu0,a41\nu0,a03\nnobody,a09\nnobody,zzz\n"
    asked.write_text(f"user_id,{'items' if listed else 'item_id'}\n{rows}")
    code, text, _ = run("recommend", made, "--candidates", asked, "--users", visitors, "--out", out)
    assert code == 0
    found = pl.read_parquet(out)
    assert found.columns == ["user_id", "position", "item_id", "utility", "probability"]
    expected = Recommender.load(made).rank(["a07", "a41", "a03"], ["a00", "a09"])
    assert found.filter(user_id="u0")["item_id"].to_list() == expected.items
    assert found.filter(user_id="u0")["position"].to_list() == [1, 2, 3]
    assert found.filter(user_id="nobody")["item_id"].to_list() == ["a09"]
    said = " ".join(text.split())
    assert "of them new 1" in said
    assert "items left out 1" in said
    code, _, errors = run("recommend", made, "--candidates", tmp_path / "no.csv", "--out", "x")
    assert code == 2
    assert "no such file" in errors
