"""A service in one file: its store of one moment, its models and its settings, with digests.

The store is copied first: a slate in it may name any version of a model that was there, and a
version that came later does no harm.
"""

import gzip
import json
import os
import shutil
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b, file_digest
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, Final

from sqlalchemy import URL

from slatewise.errors import InputError, SlatewiseError
from slatewise.files import atomic_directory, atomic_file
from slatewise.service.store.clock import iso, wall_clock
from slatewise.service.store.copies import copy_sqlite
from slatewise.service.store.engine import parse_url
from slatewise.version import __version__

MANIFEST: Final = "backup.json"
STORE: Final = "store.sqlite"
SETTINGS: Final = "service.toml"
FORMAT: Final = 1
_PIECE: Final = 1 << 20


@dataclass(frozen=True)
class Backup:
    """What a backup holds."""

    time: str
    store: str
    """`sqlite`, which is in it, or `postgresql`, which is not"""
    files: dict[str, dict[str, Any]]
    """size and digest of each file, by its name"""

    @property
    def size(self) -> int:
        """Bytes of all files, before compression."""
        return sum(file["size"] for file in self.files.values())


def back_up(directory: Path, url: str, out: Path, config: Path | None = None) -> Backup:
    """Write store, models and settings of a service into one file, while it serves.

    `url` is that of its store. PostgreSQL has a backup of its own, and is left to it.
    """
    if out.exists():
        raise SlatewiseError(f"{out} exists already.", "Choose another name, such as one of today.")
    if not directory.is_dir():
        raise SlatewiseError(f"{directory} is no directory.", "Name that of the service.")
    store = parse_url(url)
    kind = store.get_backend_name()
    with (
        tempfile.TemporaryDirectory(dir=out.absolute().parent, prefix=f".{out.name}.") as folder,
        atomic_file(out, durable=True) as partial,
    ):
        stage = Path(folder)
        if kind == "sqlite":
            copy_sqlite(_store_file(store), stage / STORE)
        _gather_models(directory / "models", stage / "models")
        if config is not None:
            shutil.copyfile(config, stage / SETTINGS)
        try:
            return _write(stage, partial, kind)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def restore(file: Path, directory: Path) -> Backup:
    """Make the directory of a service from a backup; it must be empty or not there.

    Nothing is there until all of it was read and every digest was found to be right.
    """
    if not file.is_file():
        raise InputError("is no file.", "Name one that slatewise backup wrote.", file=file)
    with atomic_directory(directory, overwrite=directory.exists(), contents=()) as partial:
        partial.chmod(0o700)
        try:
            return _read(file, partial)
        except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise _damaged(file, str(error) or "it ends too soon") from error
        except (FileExistsError, NotADirectoryError) as error:
            raise _damaged(file, "it holds two files of one name") from error


def _store_file(url: URL) -> Path:
    path = Path(str(url.database))
    if not path.is_file():
        raise SlatewiseError(
            f"there is no store {path}.",
            "Name the store of the service with --config or --store, as for slatewise serve.",
        )
    return path


def _gather_models(models: Path, stage: Path) -> None:
    """Link or copy all versions; of one that is deleted meanwhile, nothing is kept."""
    for source in _files(models):
        target = stage / source.relative_to(models)
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            _link(source, target)
        except FileNotFoundError:
            continue
    for staged in [path for path in stage.rglob("*") if path.is_dir()]:
        names = [path.name for path in staged.iterdir() if path.is_file()]
        if not all((models / staged.relative_to(stage) / name).exists() for name in names):
            shutil.rmtree(staged)


def _link(source: Path, target: Path) -> None:
    # Files of a version are never changed, only replaced or deleted: a link is as good as a copy.
    try:
        os.link(source, target)
    except FileNotFoundError:
        raise
    except OSError:  # another disk, or one without links
        shutil.copyfile(source, target)


def _files(folder: Path) -> Iterator[Path]:
    """Return all files of a folder; hidden ones are half-written."""
    for parent, folders, names in os.walk(folder):  # it minds no folder that vanishes
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(parent, name) for name in sorted(names) if not name.startswith("."))


def _write(stage: Path, out: Path, store: str) -> Backup:
    out.unlink(missing_ok=True)
    out.touch(mode=0o600)
    files: dict[str, dict[str, Any]] = {}
    # Level 1: a store shrinks to a fifth at any level, and the first is the fastest.
    with tarfile.open(out, "w:gz", compresslevel=1) as archive:
        for path in _files(stage):
            name = path.relative_to(stage).as_posix()
            with path.open("rb") as read:
                digest = file_digest(read, "blake2b").hexdigest()
            files[name] = {"size": path.stat().st_size, "blake2b": digest}
            archive.add(path, name, recursive=False)
        made = Backup(iso(wall_clock()), store, files)
        about = {"format": FORMAT, "slatewise": __version__} | vars(made)
        # Last, so that an archive that was cut off has none.
        content = json.dumps(about, indent=1).encode()
        member = tarfile.TarInfo(MANIFEST)
        member.size = len(content)
        archive.addfile(member, BytesIO(content))
    return made


def _read(file: Path, directory: Path) -> Backup:
    found: dict[str, dict[str, Any]] = {}
    wanted: Backup | None = None
    with tarfile.open(file, "r|gz") as archive:
        for member in archive:
            content = archive.extractfile(member)
            if not member.isfile() or content is None or not _is_inside(member.name):
                raise _damaged(file, f"it holds '{member.name}'")
            if member.name == MANIFEST:
                wanted = _manifest(file, content.read())
                continue
            target, digest = directory / member.name, blake2b()
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as copy:
                target.chmod(0o600)
                while piece := content.read(_PIECE):
                    digest.update(piece)
                    copy.write(piece)
                copy.flush()
                os.fsync(copy.fileno())
            found[member.name] = {"size": member.size, "blake2b": digest.hexdigest()}
    if wanted is None:
        raise _damaged(file, "it has no end")
    wrong = [name for name, entry in wanted.files.items() if found.get(name) != entry]
    if wrong or found.keys() != wanted.files.keys():
        raise _damaged(file, f"{wrong[0]} is another one" if wrong else "it holds other files")
    return wanted


def _manifest(file: Path, content: bytes) -> Backup:
    """Return what a backup says that it holds."""
    try:
        said = json.loads(content)
        form, writer = said["format"], said["slatewise"]
        wanted = Backup(str(said["time"]), str(said["store"]), dict(said["files"]))
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(file, f"{MANIFEST} cannot be read") from error
    if form != FORMAT:
        raise InputError(
            f"has format {form}, and this slatewise reads {FORMAT}.",
            f"Restore it with slatewise {writer}.",
            file=file,
        )
    return wanted


def _is_inside(name: str) -> bool:
    path = PurePosixPath(name)
    return not path.is_absolute() and ".." not in path.parts


def _damaged(file: Path, why: str) -> InputError:
    return InputError(
        f"is damaged or no backup: {why}.", "Take another one; nothing was restored.", file=file
    )
