"""The state in which a version begins to serve, the same on all hosts that share a store.

Slates depend on where a version begins in the changes of items, since rows and with them random
numbers go by it, and on the counts from which popularity goes on. The first host that serves a
version writes both down; the others take them over.
"""

import json
from pathlib import Path

from slatewise.files import atomic_file
from slatewise.service.serving.item_states import COUNTS
from slatewise.service.serving.live import BASE, begin_catalogue
from slatewise.service.store.versions import VersionShelf


def take_beginning(shelf: VersionShelf | None, version: str, run: Path) -> None:
    """Store the state in which another host began to serve a version, if one has."""
    state = None if shelf is None else shelf.beginning(version)
    if state is not None:
        _unpack(run, state)


def share_beginning(shelf: VersionShelf | None, version: str, run: Path, number: int) -> None:
    """Share how this host begins with a version; if another was first, take over its state.

    `number` is that of the last change of items, for a version that no host has begun with.
    """
    if shelf is None:
        return
    begin_catalogue(run, number)
    ours = _packed(run)
    first = shelf.begin(version, ours)
    if first != ours:
        _unpack(run, first)


def shared_bases(shelf: VersionShelf | None) -> list[int]:
    """Return where the versions that hosts share begin in the changes of items."""
    states = [] if shelf is None else map(shelf.beginning, shelf.versions())
    return [int(json.loads(state.partition(b"\n")[0])["base"]) for state in states if state]


def _packed(run: Path) -> bytes:
    """Return the base in the first line, and the counts, if there are any, after it."""
    counts = run / COUNTS
    base = (run / BASE).read_text(encoding="utf-8").strip()
    return base.encode() + b"\n" + (counts.read_bytes() if counts.is_file() else b"")


def _unpack(run: Path, state: bytes) -> None:
    base, _, counts = state.partition(b"\n")
    for name, content in ((BASE, base), (COUNTS, counts)):
        if content and not _is(run / name, content):
            with atomic_file(run / name) as partial:
                partial.write_bytes(content)


def _is(file: Path, content: bytes) -> bool:
    return file.is_file() and file.read_bytes() == content
