"""`slatewise load`: what it tells, refuses and leaves behind."""

from pathlib import Path

import polars as pl
import pytest

from slatewise.cli import load as command
from slatewise.data.preparation import prepare
from slatewise.service.store import Store
from slatewise.service.store.workspace import FOLDER, workspace
from tests.cli.conftest import Run
from tests.service.logs.world import frame, write


def words(text: str) -> list[str]:
    return [" ".join(line.split()) for line in text.splitlines()]


def test_a_log_is_loaded_once_before_there_is_a_service(tmp_path: Path, run: Run) -> None:
    log, shop = write(tmp_path / "log"), tmp_path / "shop"
    code, out, errors = run("load", shop, log, "--items", log)
    assert (code, errors) == (0, "")
    assert "slates loaded 200" in words(out)
    assert "items added 60" in words(out)
    code, out, _ = run("load", shop, log, "--items", log)
    assert (code, "slates loaded 0" in words(out)) == (0, True)
    assert "there already 200" in words(out)
    assert not (shop / FOLDER).exists()


def test_a_dataset_brings_its_items(tmp_path: Path, run: Run) -> None:
    log, shop = write(tmp_path / "log"), tmp_path / "shop"
    prepare(log, log, tmp_path / "dataset")
    code, out, _ = run("load", shop, tmp_path / "dataset")
    assert (code, "items added 60" in words(out)) == (0, True)
    code, _, errors = run("load", shop, tmp_path / "dataset", "--items", log)
    assert (code, "has its own items" in errors) == (2, True)


def test_other_names_are_mapped_and_repairs_are_told(tmp_path: Path, run: Run) -> None:
    log, shop = write(tmp_path / "log"), tmp_path / "shop"
    other = frame().rename({"user_id": "who", "slate": "products"}).drop("source")
    other = other.with_columns(pl.when(pl.col("who") != "u1").then("who").alias("who"))
    other.write_parquet(tmp_path / "visits.parquet")
    names = ("--map", "user_id=who", "--map", "slate=products", "--source", "web")
    code, out, _ = run("load", shop, tmp_path / "visits.parquet", "--items", log, *names)
    unnamed = other["who"].null_count()
    assert code == 0
    assert f"slates loaded {200 - unnamed}" in words(out)
    assert any(line.startswith(f"user id is missing {unnamed}") for line in words(out))
    store = Store.open(f"sqlite:///{shop}/store.sqlite")
    assert {visit.slate.source for visit in store.history("u2", 9).visits} == {"web"}
    store.close()
    code, _, errors = run("load", shop, tmp_path / "visits.parquet", *names, "--strict")
    assert (code, "column 'who': user id is missing" in errors) == (2, True)


def test_without_a_terminal_lines_tell_how_far_it_is(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "SECONDS_BETWEEN_LINES", 0.0)
    log = write(tmp_path / "log")
    _, _, errors = run("load", tmp_path / "shop", log, "--items", log)
    assert "reading: 200 of 200" in errors
    assert "loading: " in errors


def test_a_log_is_not_loaded_while_the_service_is_retrained(tmp_path: Path, run: Run) -> None:
    log, shop = write(tmp_path / "log"), tmp_path / "shop"
    shop.mkdir()
    with workspace(shop):
        code, _, errors = run("load", shop, log, "--items", log)
    assert (code, "is being retrained already" in errors) == (2, True)


@pytest.mark.parametrize("option", [["nowhere"], ["log", "--items", "nowhere"]])
def test_a_wrong_path_leaves_no_directory_behind(
    tmp_path: Path, run: Run, option: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "log")
    monkeypatch.chdir(tmp_path)
    code, _, errors = run("load", "shop", *option)
    assert (code, "nowhere: no such file" in errors) == (2, True)
    assert not (tmp_path / "shop").exists()
