"""Versions of models that hosts share by their store: files by digest, and which version serves.

A file is kept in parts under the digest of its content, so that versions which have files in
common, such as the list of items, have them once, and whoever reads one can tell that it is whole.
What a version is made of is written last, and which one serves after that: a host that is killed
in between leaves parts that the next one goes on from.
"""

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, bindparam, delete, func, insert, select

from slatewise.errors import SlatewiseError
from slatewise.service.store.counters import Counter, take_turn
from slatewise.service.store.engine import LONG, Database, StoreError
from slatewise.service.store.schema import MODEL_FILES, MODEL_SERVING, MODEL_VERSIONS

PART: Final = 1 << 22
"""Bytes of a part, which is known by where it starts: other releases may take other sizes."""

_SERIAL = select(MODEL_SERVING.c.serial).where(MODEL_SERVING.c.model == bindparam("model"))


@dataclass(frozen=True)
class Promotion:
    """The version that a host promoted last."""

    serial: int
    """the promotions of a model are numbered"""
    about: str
    """the version and those before it, as JSON"""


class VersionShelf:
    """The versions of one model in a store that hosts share."""

    def __init__(self, database: Database, model: str) -> None:
        self._database, self.model = database, model

    def serial(self) -> int:
        """Return the number of the last promotion; 0 for none."""
        found = self._database.read(lambda c: c.scalar(_SERIAL, {"model": self.model}))
        return int(found or 0)

    def promotion(self) -> Promotion | None:
        """Return what should serve; None if nothing was promoted yet."""
        wanted = select(MODEL_SERVING.c.serial, MODEL_SERVING.c.about)
        wanted = wanted.where(MODEL_SERVING.c.model == self.model)
        row = self._database.read(lambda connection: connection.execute(wanted).first())
        return None if row is None else Promotion(row.serial, row.about)

    def promote(self, about: str) -> int:
        """Record what should serve from now on; return the number of the promotion."""
        return self._database.write(lambda connection: self._promote(connection, about))

    def put(self, version: str, files: Mapping[str, Path]) -> None:
        """Keep the files of a version, by name; one that is there with the same files stays."""
        digests = {name: file_digest(file) for name, file in sorted(files.items())}
        for name, digest in digests.items():
            self._put_file(files[name], digest)
        sizes = {digest: files[name].stat().st_size for name, digest in digests.items()}

        def describe(connection: Connection) -> None:
            take_turn(connection, Counter.ITEMS)
            _require_whole(connection, sizes)
            self._describe(connection, version, json.dumps(digests))

        self._database.write(describe)

    def files(self, version: str) -> dict[str, str]:
        """Return the digests of the files of a version, by name; none if it is not there."""
        wanted = select(MODEL_VERSIONS.c.files).where(*self._is(version))
        found = self._database.read(lambda connection: connection.scalar(wanted))
        return {} if found is None else dict(json.loads(found))

    def fetch(self, version: str, folder: Path) -> None:
        """Write the files of a version into a folder, and refuse what is not what was put there."""
        for name, digest in self.files(version).items():
            taken = hashlib.sha256()
            with (folder / name).open("wb") as file:
                for part in self._parts(digest):
                    taken.update(part)
                    file.write(part)
            if taken.hexdigest() != digest:
                raise SlatewiseError(
                    f"{name} of version {version} of model '{self.model}' is damaged in the store.",
                    "Promote another version, or train again.",
                )

    def begin(self, version: str, state: bytes) -> bytes:
        """Store the state in which a version began to serve; return that of the first host.

        The state depends on the moment. Hosts that began differently would make different slates.
        """
        known = select(MODEL_VERSIONS.c.beginning).where(*self._is(version))
        found = self._database.read(lambda connection: connection.scalar(known))
        if found is not None:
            return bytes(found)

        def first(connection: Connection) -> bytes:
            take_turn(connection, Counter.ITEMS)
            before = connection.scalar(known)
            if before is not None:
                return bytes(before)
            change = MODEL_VERSIONS.update().where(*self._is(version)).values(beginning=state)
            connection.execute(change)
            return state

        return self._database.write(first)

    def beginning(self, version: str) -> bytes | None:
        """Return the state in which a version began to serve; None if it has not."""
        known = select(MODEL_VERSIONS.c.beginning).where(*self._is(version))
        found = self._database.read(lambda connection: connection.scalar(known))
        return None if found is None else bytes(found)

    def versions(self) -> list[str]:
        """Return the versions that are there, oldest first."""
        wanted = select(MODEL_VERSIONS.c.version).where(MODEL_VERSIONS.c.model == self.model)
        wanted = wanted.order_by(MODEL_VERSIONS.c.version)
        return [str(n) for n in self._database.read(lambda c: c.scalars(wanted).all())]

    def keep(self, versions: Collection[str]) -> None:
        """Delete all other versions, and the files that no version has any more."""
        self._database.write(lambda connection: self._keep(connection, versions), LONG)

    def _is(self, version: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
        return MODEL_VERSIONS.c.model == self.model, MODEL_VERSIONS.c.version == int(version)

    def _promote(self, connection: Connection, about: str) -> int:
        take_turn(connection, Counter.ITEMS)  # one at a time
        serial = int(connection.scalar(_SERIAL, {"model": self.model}) or 0) + 1
        connection.execute(delete(MODEL_SERVING).where(MODEL_SERVING.c.model == self.model))
        row = {"model": self.model, "serial": serial, "about": about}
        connection.execute(insert(MODEL_SERVING), [row])
        return serial

    def _describe(self, connection: Connection, version: str, files: str) -> None:
        before = connection.scalar(select(MODEL_VERSIONS.c.files).where(*self._is(version)))
        if before is not None and before != files:
            raise SlatewiseError(
                f"The store has another version {version} of model '{self.model}'.",
                "Train again: the store gives it a number of its own.",
            )
        if before is None:
            row = {"model": self.model, "version": int(version), "files": files, "beginning": None}
            connection.execute(insert(MODEL_VERSIONS), [row])

    def _put_file(self, file: Path, digest: str) -> None:
        """Keep the parts of a file that are not there yet, each in a transaction of its own."""
        there, start = self._database.read(partial(_lengths, digest)), 0
        with file.open("rb") as content:
            while start < file.stat().st_size:
                if start not in there:
                    content.seek(start)
                    row = {"digest": digest, "start": start, "content": content.read(PART)}
                    there[start] = self._database.write(partial(_insert_part, row), LONG)
                start += there[start]

    def _parts(self, digest: str) -> Iterator[bytes]:
        start = 0
        while (data := self._database.read(partial(_read_part, digest, start), LONG)) is not None:
            yield data
            start += len(data)

    def _keep(self, connection: Connection, versions: Collection[str]) -> None:
        take_turn(connection, Counter.ITEMS)
        gone = MODEL_VERSIONS.c.version.not_in([int(version) for version in versions])
        connection.execute(delete(MODEL_VERSIONS).where(MODEL_VERSIONS.c.model == self.model, gone))
        left = connection.scalars(select(MODEL_VERSIONS.c.files)).all()
        used = {digest for files in left for digest in json.loads(files).values()}
        connection.execute(delete(MODEL_FILES).where(MODEL_FILES.c.digest.not_in(used)))


def file_digest(file: Path) -> str:
    """Return the SHA-256 of a file's content."""
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def _lengths(digest: str, connection: Connection) -> dict[int, int]:
    """Return the lengths of the parts of a file, by where they start."""
    wanted = select(MODEL_FILES.c.start, func.length(MODEL_FILES.c.content))
    rows = connection.execute(wanted.where(MODEL_FILES.c.digest == digest))
    return {row[0]: row[1] for row in rows}


def _require_whole(connection: Connection, sizes: Mapping[str, int]) -> None:
    """Refuse files of which another host deleted parts, since no version had them yet."""
    for digest, size in sizes.items():
        lengths, end = _lengths(digest, connection), 0
        while end in lengths:
            end += lengths[end]
        if end != size:
            raise StoreError("Parts of a version are missing in the store.", "Try again.")


def _insert_part(row: Mapping[str, Any], connection: Connection) -> int:
    """Keep a part unless another host was first; return how long it is."""
    take_turn(connection, Counter.ITEMS)
    there = _lengths(row["digest"], connection).get(row["start"])
    if there is not None:
        return there
    connection.execute(insert(MODEL_FILES), [dict(row)])
    return len(row["content"])


def _read_part(digest: str, start: int, connection: Connection) -> bytes | None:
    wanted = select(MODEL_FILES.c.content)
    wanted = wanted.where(MODEL_FILES.c.digest == digest, MODEL_FILES.c.start == start)
    found = connection.scalar(wanted)
    return None if found is None else bytes(found)
