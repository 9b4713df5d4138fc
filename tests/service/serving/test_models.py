"""Whatever happens while versions change, an old one or a new one serves, whole."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.serving.models import CURRENT, Models
from slatewise.training import runs
from tests.service.serving.world import a_model


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "run"
    runs.save(a_model(), path)
    return path


@pytest.fixture
def models(tmp_path: Path, run: Path) -> Models:
    """Versions 1, 2 and 3, of which 3 serves."""
    models = Models.of(tmp_path, "main")
    for number in (1, 2, 3):
        models.promote(models.add(run), f"night {number}")
    return models


def current_of(models: Models) -> tuple[str, tuple[str, ...]]:
    now = models.current()
    assert now is not None
    return now.version, now.previous


def loaded_of(models: Models) -> str:
    loaded = models.load()
    assert loaded is not None
    return loaded.version


def test_before_the_first_version_there_is_none(tmp_path: Path) -> None:
    models = Models.of(tmp_path, "main")
    assert models.current() is None
    assert models.load() is None
    assert models.versions() == []
    assert models.next_version() == "1"
    assert models.stamp() is None


def test_the_version_that_was_promoted_last_serves(models: Models) -> None:
    assert current_of(models) == ("3", ("2", "1"))
    assert loaded_of(models) == "3"
    now = models.current()
    assert now is not None
    assert now.why == "night 3"
    assert now.since > 1_700_000_000_000_000


def test_versions_are_in_the_order_of_their_numbers(models: Models, run: Path) -> None:
    for _ in range(8):
        models.add(run)
    assert models.versions() == [str(number) for number in range(1, 12)]


def test_rolling_back_returns_to_the_version_before(models: Models) -> None:
    assert models.rollback().why == "rolled back from 3"
    assert current_of(models) == ("2", ("1",))
    assert models.rollback("it was better").why == "it was better"
    assert current_of(models) == ("1", ())
    with pytest.raises(SlatewiseError, match="no earlier version"):
        models.rollback()


def test_a_version_that_was_rolled_back_is_not_used_again_by_itself(models: Models) -> None:
    models.rollback()
    shutil.rmtree(models.path("2"))
    assert loaded_of(models) == "1"
    assert models.next_version() == "4"


def test_rolling_back_passes_over_versions_that_are_gone(models: Models) -> None:
    shutil.rmtree(models.path("2"))
    assert models.rollback().version == "1"


def test_an_incomplete_version_cannot_serve(models: Models) -> None:
    models.path("4").mkdir()
    assert models.versions() == ["1", "2", "3"]
    assert models.next_version() == "5"
    with pytest.raises(SlatewiseError, match="not a run"):
        models.promote("4", "by mistake")
    assert current_of(models)[0] == "3"


@pytest.mark.parametrize("version", ["../1", "1/../2", "", "latest", ".", "١"])
def test_a_version_is_a_number_and_leads_nowhere_else(models: Models, version: str) -> None:
    with pytest.raises(SlatewiseError, match="is no version"):
        models.promote(version, "an attack")


def test_a_damaged_run_is_not_added(models: Models, run: Path, tmp_path: Path) -> None:
    shutil.copytree(run, tmp_path / "damaged")
    (tmp_path / "damaged" / runs.ITEMS).write_bytes(b"nonsense")
    with pytest.raises(SlatewiseError, match="damaged"):
        models.add(tmp_path / "damaged")
    assert models.versions() == ["1", "2", "3"]


@pytest.mark.parametrize(
    "content",
    ["", "{", "[]", "{}", '{"version": "../../etc", "previous": [], "since": 0, "why": ""}'],
)
def test_a_damaged_description_is_reported_and_the_version_before_serves(
    models: Models, caplog: pytest.LogCaptureFixture, content: str
) -> None:
    (models.directory / CURRENT).write_text(content)
    assert current_of(models)[0] == "2"
    assert "slatewise rollback" in caplog.text
    loaded = models.load()
    assert loaded is not None
    assert loaded.version == "2"
    assert "current.json" in loaded.problems[0]


def test_without_any_description_left_the_newest_version_serves(models: Models) -> None:
    for name in ("current.json", "previous.json"):
        (models.directory / name).write_text("nonsense")
    assert loaded_of(models) == "3"


def test_promoting_mends_a_damaged_description(models: Models) -> None:
    (models.directory / CURRENT).write_text("nonsense")
    models.promote("3", "again")
    assert current_of(models) == ("3", ("2", "1"))


def test_a_damaged_version_is_reported_and_the_one_before_serves(models: Models) -> None:
    (models.path("3") / runs.POSTERIOR).write_bytes(b"nonsense")
    (models.path("2") / runs.RUN).unlink()
    loaded = models.load()
    assert loaded is not None
    assert loaded.version == "1"
    assert "version 3" in loaded.problems[0]
    assert "version 2" in loaded.problems[1]


def test_no_whole_version_is_no_version(models: Models) -> None:
    for version in models.versions():
        (models.path(version) / runs.RUN).unlink()
    assert models.load() is None


class PowerCut(BaseException):
    """What ends a process at any point: nothing may clean up behind it."""


def cut_at(step: int) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Let the power fail at a call of a function, counted over all that share the counter."""
    left = [step]

    def wrap(function: Callable[..., Any]) -> Callable[..., Any]:
        def failing(*given: Any, **named: Any) -> Any:
            if left[0] == 0:
                raise PowerCut
            left[0] -= 1
            return function(*given, **named)

        return failing

    return wrap


@pytest.mark.parametrize("change", ["promote", "rollback"])
def test_a_power_cut_at_any_step_leaves_the_old_version_or_the_new(
    models: Models, run: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    fresh = models.add(run)
    new = fresh if change == "promote" else "2"
    ends = []
    for step in range(40):
        before = current_of(models)
        with monkeypatch.context() as patched:
            cut = cut_at(step)
            for name in ("replace", "fsync", "open", "close"):
                patched.setattr(os, name, cut(getattr(os, name)))
            patched.setattr(json, "dump", cut(json.dump))
            try:
                models.promote(fresh, "new") if change == "promote" else models.rollback()
                done = True
            except PowerCut:
                done = False
        after = current_of(models)
        assert after == before or after[0] == new
        assert loaded_of(models) == after[0]
        ends.append(after == before)
        if done:
            break
        if after != before:
            models.promote("3", "as before")
    else:
        pytest.fail("the change never ended")
    assert ends[0]
    assert not ends[-1]
    assert len(ends) > 6


def test_the_newest_versions_are_kept(models: Models, run: Path) -> None:
    for _ in range(3):
        models.promote(models.add(run), "night")
    assert models.prune(2) == ["1", "2", "3", "4"]
    assert models.versions() == ["5", "6"]
    assert current_of(models)[0] == "6"


def test_what_serves_or_is_returned_to_is_never_pruned(models: Models, run: Path) -> None:
    models.promote("1", "an old friend")
    for _ in range(3):
        models.add(run)
    assert models.prune(2) == ["2", "4"]
    assert models.versions() == ["1", "3", "5", "6"]
    assert models.rollback().version == "3"


def test_a_change_shows_in_the_stamp(models: Models) -> None:
    before = models.stamp()
    assert before == models.stamp()
    models.rollback()
    assert models.stamp() != before
