"""The versions of a model on disk: which one serves, which did before, and how that changes.

    DIR/models/NAME/3/              a run; it is complete once it has run.json
    DIR/models/NAME/current.json    which one serves, since when and why
    DIR/models/NAME/previous.json   what current.json was before its last change

Nothing is ever changed in place: a file is written aside and then takes the old one's name, so that
whoever reads, at whatever moment, finds the old one or the new one whole.

Hosts that share a store in PostgreSQL share versions by it: what one of them promotes is put there
first, and then every host fetches it (`follow`). What the store says counts; the files here are a
copy, by which a host serves on when the store is away.
"""

import fnmatch
import json
import logging
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Protocol

from slatewise.errors import InputError, SlatewiseError
from slatewise.files import atomic_file
from slatewise.model.fitted import SlateModel
from slatewise.service.serving.item_states import COUNTS, one_at_a_time
from slatewise.service.serving.learned import PIECES
from slatewise.service.store.versions import VersionShelf, file_digest
from slatewise.training import runs

logger = logging.getLogger(__name__)

CURRENT: Final = "current.json"
PREVIOUS: Final = "previous.json"
FETCHED: Final = ".fetched"
"""In a version that came from another host, by the store."""
_OF_ITS_OWN: Final = ("table-*", COUNTS, "catalogue.json", PIECES, ".*", runs.CHECKPOINT)
"""What belongs to a run where it is, and not to a copy."""


@dataclass(frozen=True)
class CurrentVersion:
    """Which version serves."""

    version: str
    previous: tuple[str, ...]
    """the versions that served before, newest first; one that was rolled back is not among them"""
    since: int
    """microseconds since 1970"""
    why: str
    serial: int = 0
    """the number of the promotion in a store that hosts share; 0 where there is none"""


class VersionStore(Protocol):
    """What is asked of a store."""

    def shelf(self, model: str) -> VersionShelf | None:
        """Return the versions of a model that hosts share; None if the store is of one host."""


@dataclass(frozen=True)
class LoadedVersion:
    """A version that could be read, and what was wrong with those that should have been."""

    version: str
    model: SlateModel
    problems: tuple[str, ...]


class Models:
    """The versions of one model; they are numbers, written as text."""

    def __init__(self, directory: Path, shelf: VersionShelf | None = None) -> None:
        self.directory, self.shelf = directory, shelf

    @classmethod
    def of(cls, service: Path, name: str, store: VersionStore | None = None) -> "Models":
        """Return the versions of the model `name` of a service, shared with hosts of its store."""
        return cls(service / "models" / name, None if store is None else store.shelf(name))

    def path(self, version: str) -> Path:
        """Return where a version is, or will be."""
        if not (version.isascii() and version.isdigit()):
            raise SlatewiseError(f"'{version}' is no version.", "Versions are numbers: 1, 2, 3.")
        return self.directory / version

    def versions(self) -> list[str]:
        """Return the complete versions, oldest first."""
        return [name for name in self._numbered() if (self.path(name) / runs.RUN).is_file()]

    def next_version(self) -> str:
        """Return the number after all that are or were begun."""
        taken = [int(name) for name in self._numbered()]
        past = [self._read(name) for name in (CURRENT, PREVIOUS)]
        taken += [int(v) for one in past if one for v in (one.version, *one.previous)]
        return str(max(taken, default=0) + 1)

    def add(self, run: Path, number: Callable[[int], int] = lambda least: least) -> str:
        """Copy a run that was made elsewhere, as the next version; it does not serve yet.

        `number` returns the number of the version, from the smallest that is free here: hosts that
        share a store have it give them, so that no two versions have the same.
        """
        runs.load(run)
        version = str(number(int(self.next_version())))
        self.directory.mkdir(parents=True, exist_ok=True)
        partial = self.directory / f".{version}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        shutil.copytree(run, partial, ignore=shutil.ignore_patterns(*_OF_ITS_OWN))
        partial.rename(self.path(version))
        return version

    def bring(self, version: str) -> Path:
        """Return where a version is; one that only another host has is fetched and checked."""
        path, files = self.path(version), {} if self.shelf is None else self.shelf.files(version)
        if self.shelf is None or not files or _has(path, files):
            return path
        self.directory.mkdir(parents=True, exist_ok=True)
        with one_at_a_time(self.directory):
            if _has(path, files):  # another worker was first
                return path
            partial = self.directory / f".{version}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            self.shelf.fetch(version, partial)
            (partial / FETCHED).touch()
            if path.exists():
                logger.warning("%s is not what the store has under its number.", path)
                shutil.rmtree(path)
            partial.rename(path)
        logger.info("Version %s was fetched from the store.", version)
        return path

    def follow(self) -> bool:
        """Take over what another host promoted; return whether another version serves here now.

        A store that has no version yet records the one that serves here.
        """
        if self.shelf is None:
            return False
        serial, now = self.shelf.serial(), self._read(CURRENT)
        if not serial:
            if now is not None:
                self._replace(now)
            return False
        if now is not None and serial == now.serial:
            return False
        said = self.shelf.promotion()
        new = None if said is None else _current_of(json.loads(said.about))
        if said is None or new is None:
            return False
        self.bring(new.version)
        self._keep(replace(new, serial=said.serial))
        self._drop_fetched(new)
        return now is None or now.version != new.version

    def current(self) -> CurrentVersion | None:
        """Return which version serves; None before the first.

        A damaged `current.json` is reported in the log, and what it was before counts.
        """
        try:
            return self._current()
        except InputError as error:
            logger.error("%s", error)
        return self._fallback()

    def promote(self, version: str, why: str) -> CurrentVersion:
        """Serve a complete version from now on."""
        runs.read_run(self.path(version))
        before = self.current()
        previous: tuple[str, ...] = ()
        if before is not None:
            past = (before.version, *before.previous)
            previous = tuple(one for one in past if one != version)
        return self._replace(CurrentVersion(version, previous, _now(), why))

    def rollback(self, why: str = "") -> CurrentVersion:
        """Serve the version before again; the present one is kept, but serves no more."""
        before = self.current()
        usable = [] if before is None else self._usable(before.previous)
        if before is None or not usable:
            raise SlatewiseError(
                f"{self.directory}: there is no earlier version to return to.",
                "Train again, or promote a version by hand.",
            )
        version = usable[0]
        self.bring(version)
        rest = before.previous[before.previous.index(version) + 1 :]
        return self._replace(
            CurrentVersion(version, rest, _now(), why or f"rolled back from {before.version}")
        )

    def load(self) -> LoadedVersion | None:
        """Read the version that serves, or the newest before it that is whole, or return None."""
        problems: list[str] = []
        try:
            now = self._current()
        except InputError as error:
            problems.append(str(error))
            now = self._fallback()
        for version in (now.version, *now.previous) if now else ():
            try:
                return LoadedVersion(version, runs.load(self.path(version)), tuple(problems))
            except (SlatewiseError, OSError) as error:
                problems.append(f"version {version} cannot serve: {error}")
        if problems:
            logger.error("No version of %s can serve: %s", self.directory, "; ".join(problems))
        return None

    def stamp(self) -> tuple[int, int] | None:
        """Return what changes with `current.json`, unread, or None without such a file."""
        try:
            found = (self.directory / CURRENT).stat()
        except OSError:
            return None
        return found.st_mtime_ns, found.st_ino

    def prune(self, keep: int, others: Collection[str] = ()) -> list[str]:
        """Delete all but the newest `keep` versions and `others`; what serves or may again stays.

        Whoever has a deleted one mapped keeps it. Returns what was deleted.
        """
        now = self.current()
        spared = {*self.versions()[-keep:], *others}
        if now is not None:
            spared |= {now.version, *now.previous[:1]}
        deleted = [version for version in self.versions() if version not in spared]
        for version in deleted:
            # The description goes first: half a version is none.
            (self.path(version) / runs.RUN).unlink()
            shutil.rmtree(self.path(version), ignore_errors=True)
        if self.shelf is not None:
            self.shelf.keep(spared | set(self.shelf.versions()[-keep:]))
        return deleted

    def _numbered(self) -> list[str]:
        if not self.directory.is_dir():
            return []
        names = [entry.name for entry in self.directory.iterdir() if entry.is_dir()]
        return sorted((name for name in names if name.isascii() and name.isdigit()), key=int)

    def _usable(self, versions: tuple[str, ...]) -> list[str]:
        whole = set(self.versions())
        if self.shelf is not None:
            whole |= set(self.shelf.versions())
        return [version for version in versions if version in whole]

    def _current(self) -> CurrentVersion | None:
        """Read `current.json`; None where there never was one."""
        if not (self.directory / CURRENT).exists() and not self.versions():
            return None
        found = self._read(CURRENT)
        if found is None and (self.directory / CURRENT).exists():
            raise InputError(
                "is damaged; the version before is used.",
                "Choose one with: slatewise rollback, or retrain.",
                file=self.directory / CURRENT,
            )
        return found

    def _fallback(self) -> CurrentVersion | None:
        """Return what served before a damaged `current.json`, or else the newest version."""
        found = self._read(PREVIOUS)
        if found is not None:
            return found
        whole = self.versions()[::-1]
        if not whole:
            return None
        return CurrentVersion(whole[0], tuple(whole[1:]), _now(), "current.json was damaged")

    def _read(self, name: str) -> CurrentVersion | None:
        """Read a description; None where it is missing or damaged."""
        try:
            return _current_of(json.loads((self.directory / name).read_text(encoding="utf-8")))
        except (OSError, ValueError):
            return None

    def _replace(self, new: CurrentVersion) -> CurrentVersion:
        """Serve another version: on all hosts first, then here.

        Killed in between, this host takes it over like the others.
        """
        if self.shelf is not None:
            path = self.path(new.version)
            if not _has(path, self.shelf.files(new.version)):
                self.shelf.put(new.version, _files(path))
            new = replace(new, serial=self.shelf.promote(json.dumps(asdict(new))))
        return self._keep(new)

    def _keep(self, new: CurrentVersion) -> CurrentVersion:
        """Write down what serves here."""
        old = self._read(CURRENT)
        if old is not None:
            _write(self.directory / PREVIOUS, old)
        _write(self.directory / CURRENT, new)
        return new

    def _drop_fetched(self, now: CurrentVersion) -> None:
        """Delete versions that were fetched and that the hosts have given up since."""
        assert self.shelf is not None
        kept = {now.version, *now.previous[:1], *self.shelf.versions()}
        for version in set(self.versions()) - kept:
            if (self.path(version) / FETCHED).exists():
                (self.path(version) / runs.RUN).unlink()
                shutil.rmtree(self.path(version), ignore_errors=True)


def _current_of(values: Any) -> CurrentVersion | None:
    """Return what serves, of plain values; None where they are damaged."""
    try:
        found = CurrentVersion(
            str(values["version"]),
            tuple(str(version) for version in values["previous"]),
            int(values["since"]),
            str(values["why"]),
            int(values.get("serial", 0)),
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
    named = (found.version, *found.previous)
    return found if all(one.isascii() and one.isdigit() for one in named) else None


def _files(path: Path) -> dict[str, Path]:
    """Return the files that make a version, by name."""
    found = {file.name: file for file in path.iterdir() if file.is_file()}
    own = [name for pattern in _OF_ITS_OWN for name in fnmatch.filter(found, pattern)]
    return {name: file for name, file in found.items() if name not in own}


def _has(path: Path, files: Mapping[str, str]) -> bool:
    """Return whether a version is here, as the store has it; its description has digests of all."""
    try:
        return file_digest(path / runs.RUN) == files.get(runs.RUN)
    except OSError:
        return False


def _now() -> int:
    return time.time_ns() // 1_000


def _write(file: Path, value: CurrentVersion) -> None:
    with atomic_file(file, durable=True) as partial:
        partial.write_text(json.dumps(asdict(value), indent=2) + "\n", encoding="utf-8")
