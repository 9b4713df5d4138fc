"""Directories that appear whole or not at all."""

import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from slatewise.errors import SlatewiseError


@contextmanager
def atomic_directory(
    target: str | Path, *, overwrite: bool = False, contents: Collection[str]
) -> Iterator[Path]:
    """Yield an empty directory that becomes `target` on success and vanishes on any failure.

    With `overwrite`, what stood at `target` stays until the new directory is complete, and is
    replaced only if it is a directory that holds nothing but `contents`: what such a directory
    of ours is made of, and never a person's own files.
    """
    target = Path(target)
    if target.exists():
        _require_replaceable(target, overwrite, contents)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    partial.mkdir()
    try:
        yield partial
        _replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _require_replaceable(target: Path, overwrite: bool, contents: Collection[str]) -> None:
    if not overwrite:
        raise SlatewiseError(
            f"{target} exists already.", "Choose another place, or replace it with --overwrite."
        )
    if not target.is_dir():
        raise SlatewiseError(f"{target} is a file and is not replaced.", "Choose another place.")
    foreign = sorted(entry.name for entry in target.iterdir() if entry.name not in contents)
    if foreign:
        raise SlatewiseError(
            f"{target} holds something else and is not replaced: {foreign[0]}.",
            "Choose another place, or remove the directory yourself.",
        )


def _replace(partial: Path, target: Path) -> None:
    # A directory cannot be renamed over a full one: the old one steps aside first.
    retired = partial.with_suffix(".retired")
    if target.exists():
        target.rename(retired)
    try:
        partial.rename(target)
    except OSError:
        if retired.exists():
            retired.rename(target)
        raise
    shutil.rmtree(retired, ignore_errors=True)
