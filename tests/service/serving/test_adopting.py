"""A run that was trained elsewhere becomes the first version, once."""

from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.models import Models
from slatewise.service.records import ItemState
from slatewise.service.serving.adopting import adopt
from slatewise.service.store import Store
from slatewise.training import runs
from tests.service.serving.world import ITEMS, a_model


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(f"sqlite:///{tmp_path}/store.sqlite")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    runs.save(a_model(ids=list(range(ITEMS))), tmp_path / "run")
    return tmp_path / "run"


def test_a_run_becomes_version_one_and_its_items_are_offered(
    tmp_path: Path, store: Store, run: Path
) -> None:
    assert adopt(tmp_path, store, run) == "1"
    items = store.items(None, 1000)
    assert sorted(int(item.item_id) for item in items) == list(range(ITEMS))
    assert {item.item_id: item.group for item in items}["4"] == "green"
    assert {item.state for item in items} == {ItemState.SHOWN}
    loaded = Models.of(tmp_path, "main").load()
    assert loaded is not None
    assert loaded.version == "1"


def test_adopting_again_changes_nothing(tmp_path: Path, store: Store, run: Path) -> None:
    adopt(tmp_path, store, run)
    store.remove_items(["4"])
    assert adopt(tmp_path, store, run) is None
    assert Models.of(tmp_path, "main").versions() == ["1"]
    assert store.item_seq() == ITEMS + 1


def test_a_store_with_items_keeps_them(tmp_path: Path, store: Store, run: Path) -> None:
    store.put_items([("own", "red", ItemState.SHOWN)])
    adopt(tmp_path, store, run)
    assert [item.item_id for item in store.items(None, 10)] == ["own"]


def test_what_is_no_run_is_refused_before_anything_changes(tmp_path: Path, store: Store) -> None:
    with pytest.raises(SlatewiseError, match="not a run"):
        adopt(tmp_path, store, tmp_path / "nothing")
    assert store.items(None, 10) == []
    assert Models.of(tmp_path, "main").versions() == []
