"""The first start of a service, with a run and without."""

from pathlib import Path

import pytest
import torch

from slatewise.errors import SlatewiseError
from slatewise.model.config import ModelConfig
from slatewise.model.fitted import SlateModel
from slatewise.model.posterior import Posterior
from slatewise.service.http.startup import prepare
from slatewise.service.serving.models import Models
from slatewise.service.settings import ServiceConfig
from slatewise.service.store import Store
from slatewise.service.store.records import ItemState
from slatewise.training import runs


@pytest.fixture
def run(tmp_path: Path) -> Path:
    groups = torch.tensor([0, 1, 0, 1])
    posterior = Posterior(ModelConfig(dimensions=2, dynamics="linear"), groups, range(2), 5)
    model = SlateModel(posterior, [4, 8, 15, 16], ["chairs", "lamps"], ["search"], torch.zeros(4))
    runs.save(model, tmp_path / "run")
    return tmp_path / "run"


def items(directory: Path) -> dict[str, tuple[str, ItemState]]:
    store = Store.open(ServiceConfig().store_url(directory))
    found = {one.item_id: (one.group, one.state) for page in store.all_items() for one in page}
    store.close()
    return found


def test_a_directory_and_a_store_are_made(tmp_path: Path) -> None:
    prepare(tmp_path / "a" / "service", ServiceConfig(), None)
    assert items(tmp_path / "a" / "service") == {}


def test_what_is_made_is_for_its_owner_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "service"
    prepare(directory, ServiceConfig(), None)
    assert not caplog.messages
    store = Store.open(ServiceConfig().store_url(directory))
    store.put_items([("a", "b", ItemState.SHOWN)])
    for path in (directory, *directory.glob("store.sqlite*")):
        assert path.stat().st_mode & 0o077 == 0, path
    store.close()
    directory.chmod(0o755)
    prepare(directory, ServiceConfig(), None)
    assert "may be read by others" in caplog.text


def test_a_damaged_store_is_not_served(tmp_path: Path) -> None:
    directory = tmp_path / "service"
    prepare(directory, ServiceConfig(), None)
    store = Store.open(ServiceConfig().store_url(directory))
    store.put_items([(f"item-{n}", "b", ItemState.SHOWN) for n in range(3_000)])
    store.close()
    file = directory / "store.sqlite"
    content = bytearray(file.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 8_192] = bytes(8_192)
    file.write_bytes(content)
    with pytest.raises(SlatewiseError, match="is damaged") as refusal:
        prepare(directory, ServiceConfig(), None)
    assert "Restore a backup" in refusal.value.remedy


def test_a_run_becomes_the_first_version_and_its_items_are_offered(
    tmp_path: Path, run: Path
) -> None:
    directory = tmp_path / "service"
    prepare(directory, ServiceConfig(), run)
    current = Models.of(directory, "main").current()
    assert current is not None
    assert (current.version, current.why) == ("1", "begun with run")
    shown = ItemState.SHOWN
    assert items(directory) == {
        "4": ("chairs", shown),
        "8": ("lamps", shown),
        "15": ("chairs", shown),
        "16": ("lamps", shown),
    }


def test_what_the_store_knows_of_items_stays(tmp_path: Path, run: Path) -> None:
    directory = tmp_path / "service"
    prepare(directory, ServiceConfig(), None)
    store = Store.open(ServiceConfig().store_url(directory))
    store.put_items([("4", "sofas", ItemState.HIDDEN), ("8", "lamps", ItemState.SHOWN)])
    store.remove_items(["8"])
    store.close()
    prepare(directory, ServiceConfig(), run)
    assert items(directory)["4"] == ("sofas", ItemState.HIDDEN)
    assert items(directory)["8"][1] is ItemState.REMOVED
    assert items(directory)["15"] == ("chairs", ItemState.SHOWN)


def test_a_second_start_with_the_same_run_changes_nothing(
    tmp_path: Path, run: Path, caplog: pytest.LogCaptureFixture
) -> None:
    directory = tmp_path / "service"
    for _ in range(2):
        prepare(directory, ServiceConfig(), run)
    assert Models.of(directory, "main").versions() == ["1"]
    assert "not used" in caplog.text


def test_a_run_that_is_none_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with pytest.raises(SlatewiseError):
        prepare(tmp_path / "a" / "service", ServiceConfig(), tmp_path)
    assert list(tmp_path.iterdir()) == []
