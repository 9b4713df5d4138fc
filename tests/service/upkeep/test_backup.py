"""Backups: whole, of one moment, and refused when they are damaged."""

import shutil
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.service.serving.models import Models
from slatewise.service.store import Store
from slatewise.service.upkeep import backup
from slatewise.service.upkeep.backup import back_up, restore
from slatewise.training import runs
from tests.service.serving.world import a_model
from tests.service.store.making import click, rows, slate


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A service with a store, two versions of a model, and settings beside it."""
    home = tmp_path_factory.mktemp("backup")
    runs.save(a_model(), home / "run")
    models = Models.of(home / "shop", "main")
    for number in (1, 2):
        models.promote(models.add(home / "run"), f"night {number}")
    store = Store.open(url_of(home / "shop"))
    store.write([slate("s")], [click("s", "a")])
    store.close()
    (home / "shop" / "models" / "main" / ".3.partial").mkdir()
    (home / "shop" / "models" / "main" / ".3.partial" / "half").write_text("half")
    (home / "service.toml").write_text("history = 9\n")
    return home / "shop"


def url_of(directory: Path) -> str:
    return f"sqlite:///{directory / 'store.sqlite'}"


def files_of(directory: Path) -> set[str]:
    paths = directory.rglob("*")
    return {path.relative_to(directory).as_posix() for path in paths if path.is_file()}


def test_a_service_is_restored_as_it_was(shop: Path, tmp_path: Path) -> None:
    file, other = tmp_path / "shop.tar.gz", tmp_path / "other"
    writing = Store.open(url_of(shop))  # it serves meanwhile
    made = back_up(shop, url_of(shop), file, shop.with_name("service.toml"))
    other.mkdir()
    found = restore(file, other)
    writing.close()
    assert found == made
    assert {path.name for path in tmp_path.iterdir()} == {"shop.tar.gz", "other"}
    assert file.stat().st_mode & 0o777 == (other / "store.sqlite").stat().st_mode & 0o777 == 0o600
    assert (other / "service.toml").read_text() == "history = 9\n"
    assert files_of(other / "models") == {
        name for name in files_of(shop / "models") if "partial" not in name
    }
    assert Models.of(other, "main").current() == Models.of(shop, "main").current()
    assert Models.of(other, "main").load() is not None
    store = Store.open(url_of(other))
    assert store.history("ann", 9) == Store.open(url_of(shop)).history("ann", 9)
    assert store.write([slate("s")], [click("s", "a")]) == ["duplicate"]
    store.close()
    assert rows(url_of(other), "PRAGMA journal_mode") == [("wal",)]


def test_a_damaged_backup_restores_nothing(shop: Path, tmp_path: Path) -> None:
    file, bad, other = tmp_path / "good", tmp_path / "bad", tmp_path / "other"
    back_up(shop, url_of(shop), file)
    whole = file.read_bytes()
    bad.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SlatewiseError, match="damaged or no backup"):
        restore(bad, other)
    with tarfile.open(file) as good, tarfile.open(bad, "w:gz") as archive:
        for member in good:
            content = good.extractfile(member)
            assert content is not None
            if member.name == "store.sqlite":
                content.read(1)
                member.size -= 1
            archive.addfile(member, content)
    with pytest.raises(SlatewiseError, match=r"store\.sqlite is another one"):
        restore(bad, other)
    with tarfile.open(bad, "w:gz") as archive:
        archive.add(file, "../outside")
    with pytest.raises(SlatewiseError, match="outside"):
        restore(bad, other)
    assert {path.name for path in tmp_path.iterdir()} == {"good", "bad"}


@pytest.mark.parametrize(
    "listed",
    [
        b"",
        b"{nonsense",
        b"\xff\xfe{}",
        b"[1]",
        b"{}",
        b'{"format": 99}',
        b'{"format": 1, "slatewise": "0", "time": "", "store": "sqlite", "files": [1]}',
    ],
)
def test_a_backup_whose_list_of_files_is_damaged_restores_nothing(
    tmp_path: Path, listed: bytes
) -> None:
    file = archive_of(tmp_path / "bad", {"backup.json": listed})
    with pytest.raises(SlatewiseError, match=r"damaged or no backup: backup\.json cannot be read"):
        restore(file, tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


@pytest.mark.parametrize("second", ["a", "a/b", "."])
def test_a_backup_with_two_files_of_one_name_restores_nothing(tmp_path: Path, second: str) -> None:
    with tarfile.open(tmp_path / "bad", "w:gz") as archive:
        for name in ("a", second):
            archive.addfile(tarfile.TarInfo(name))
    with pytest.raises(SlatewiseError, match="two files of one name"):
        restore(tmp_path / "bad", tmp_path / "other")
    assert [path.name for path in tmp_path.iterdir()] == ["bad"]


def archive_of(file: Path, contents: dict[str, bytes]) -> Path:
    with tarfile.open(file, "w:gz") as archive:
        for name, content in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, BytesIO(content))
    return file


def test_nothing_that_is_there_is_overwritten(shop: Path, tmp_path: Path) -> None:
    file = tmp_path / "file"
    back_up(shop, url_of(shop), file)
    with pytest.raises(SlatewiseError, match="exists already"):
        back_up(shop, url_of(shop), file)
    with pytest.raises(SlatewiseError, match="is not replaced: it holds"):
        restore(file, shop)
    with pytest.raises(SlatewiseError, match="no store"):
        back_up(shop, f"sqlite:///{tmp_path / 'nowhere'}", tmp_path / "new")


def test_a_damaged_store_is_not_backed_up(shop: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.sqlite"
    content = bytearray((shop / "store.sqlite").read_bytes())
    content[8192:12_288] = bytes(4096)
    store.write_bytes(content)
    with pytest.raises(SlatewiseError, match="could not be copied"):
        back_up(shop, f"sqlite:///{store}", tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["store.sqlite"]


def test_a_version_that_is_deleted_meanwhile_is_left_out(
    shop: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    busy, link = shutil.copytree(shop, tmp_path / "busy"), backup._link

    def prune(source: Path, target: Path) -> None:
        link(source, target)
        if source.parent.name == "1":
            shutil.rmtree(source.parent)

    monkeypatch.setattr(backup, "_link", prune)
    made = back_up(busy, url_of(busy), tmp_path / "file")
    assert not [name for name in made.files if name.startswith("models/main/1/")]
    assert "models/main/2/run.json" in made.files


def test_a_store_in_postgresql_is_left_to_pg_dump(shop: Path, tmp_path: Path) -> None:
    url = "postgresql://nobody@127.0.0.1:1/nothing"  # not asked for anything
    made = back_up(shop, url, tmp_path / "file")
    assert made.store == "postgresql"
    assert "store.sqlite" not in made.files
    assert restore(tmp_path / "file", tmp_path / "other").store == "postgresql"
