"""`slatewise retrain` and `slatewise rollback`, as a person types them."""

import json
import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from slatewise.service.nights import Night
from slatewise.service.serving import Service
from slatewise.service.serving.models import Models
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import ItemState
from slatewise.service.store.workspace import FOLDER, workspace
from tests.cli.conftest import Run
from tests.service.nights.world import fill, visits
from tests.test_docs import table

SETTINGS = """
[models.main.model]
dimensions = 2
dynamics = "linear"

[models.main.training]
max_epochs = 3
batch_users = 27
learning_rate = 0.1

[retraining]
min_slates = 100
promote = "always"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a service and its settings."""
    folder = tmp_path_factory.mktemp("retrain")
    (folder / "shop").mkdir()
    store = Store.open(f"sqlite:///{folder}/shop/store.sqlite")
    fill(store, visits(users=30))
    store.close()
    (folder / "quick.toml").write_text(SETTINGS)
    return folder


@pytest.fixture
def shop(folder: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(folder / "shop", tmp_path / "shop"))


def test_nights_follow_one_another_and_the_last_can_be_taken_back(
    run: Run, folder: Path, shop: Path
) -> None:
    quick = ("--config", folder / "quick.toml")
    code, out, _ = run("retrain", shop, *quick, "--now", "2024-01-01T01:00")
    assert (code, "not enough yet" in out) == (0, True)
    code, out, _ = run("retrain", shop, *quick, "--now", "2024-01-03")
    assert code == 0
    assert "main: 1 serves now.\n  Why: every new model is promoted." in out
    code, out, _ = run("retrain", shop, *quick, "--now", "2024-01-04", "--json")
    (night,) = json.loads(out)
    assert (code, night["serving"], night["started_from"]) == (0, "2", "1")
    assert run("rollback", shop)[1] == "main: 1 serves again instead of 2.\n"
    code, _, errors = run("rollback", shop, "--model", "main")
    assert (code, "no earlier version" in errors) == (2, True)


def test_nights_by_hand_forget_void_changes_of_items(run: Run, folder: Path, shop: Path) -> None:
    quick, url = folder / "quick.toml", f"sqlite:///{shop}/store.sqlite"
    assert run("retrain", shop, "--config", quick, "--now", "2024-01-03")[0] == 0
    store = Store.open(url)
    for group in ("a", "b", "c"):
        store.put_items([("restless", group, ItemState.SHOWN)])
    before = len(store.item_changes(0))
    Service.open(shop, ServiceConfig.read(quick), store)  # from here on the version serves
    assert run("retrain", shop, "--config", quick, "--now", "2024-01-04")[0] == 0
    assert len(store.item_changes(0)) == before - 2
    store.close()


def test_what_cannot_be_done_is_said(run: Run, folder: Path, shop: Path, tmp_path: Path) -> None:
    code, _, errors = run("retrain", tmp_path)
    assert (code, "is not the directory of a service" in errors) == (2, True)
    code, _, errors = run("retrain", shop, "--model", "x")
    assert (code, "The models are main." in errors) == (2, True)
    code, _, errors = run("retrain", shop, "--now", "tonight")
    assert (code, "'tonight' is not a time" in errors) == (2, True)
    assert "has no model" in run("rollback", tmp_path)[2]
    for name in ("main", "other"):
        (shop / "models" / name).mkdir(parents=True)
    assert "Give --model with one of main, other." in run("rollback", shop)[2]
    with workspace(shop):
        code, _, errors = run("retrain", shop)
    assert (code, "is being retrained already" in errors) == (2, True)


def test_a_night_that_fails_is_told_by_the_exit_status(
    run: Run, folder: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **more: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("slatewise.service.nights.window.prepare", full)
    code, out, _ = run("retrain", shop, "--config", folder / "quick.toml", "--now", "2024-01-03")
    assert code == 2
    assert "main: failed; the prior serves on." in out
    assert "No space left on device" in out


def test_ctrl_c_ends_it_cleanly(
    run: Run, folder: Path, shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def press(*arguments: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr("slatewise.training.loop.Training._end_epoch", press)
    code, _, errors = run("retrain", shop, "--config", folder / "quick.toml", "--now", "2024-01-03")
    assert (code, errors) == (130, "stopped.\n")
    assert not (shop / FOLDER).exists()
    assert Models.of(shop, "main").current() is None


@pytest.mark.parametrize("pressed", [True, False])
def test_ctrl_c_that_a_library_makes_an_error_of_its_own_is_ctrl_c(
    run: Run, shop: Path, monkeypatch: pytest.MonkeyPatch, pressed: bool
) -> None:
    def load(*arguments: object, **more: object) -> None:
        try:
            if pressed:
                os.kill(os.getpid(), signal.SIGINT)
                threading.Event().wait(60)
        except KeyboardInterrupt:
            pass
        raise ImportError("half of a module")  # as an extension that numpy could not be loaded for

    monkeypatch.setattr("slatewise.service.nights.night.NightData", load)
    if not pressed:
        with pytest.raises(ImportError, match="half of a module"):
            run("retrain", shop)
        return
    code, _, errors = run("retrain", shop)
    assert (code, errors) == (130, "stopped.\n")
    assert not (shop / FOLDER).exists()


def test_every_field_of_a_report_is_listed() -> None:
    listed = [name for row in table("retraining.md", "Reports") for name in row[0].split(", ")]
    assert sorted(listed) == sorted(Night.__dataclass_fields__)
