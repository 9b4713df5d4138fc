"""Files and directories that appear whole or not at all."""

import json
import os
import shutil
import uuid
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from slatewise.errors import SlatewiseError


@contextmanager
def atomic_file(target: Path, *, durable: bool = False) -> Iterator[Path]:
    """Yield the path of a file beside `target` that replaces it on success.

    With `durable`, it is there whole or not at all even after a loss of power.
    """
    partial = target.with_name(f".{target.name}.partial")
    yield partial
    if durable:
        _flush(partial)
    os.replace(partial, target)  # noqa: PTH105 (the one call that is atomic by contract)
    if durable:
        _flush(target.parent)


def write_json(file: Path, value: Any, *, indent: int | None = 2) -> None:
    """Write a JSON file that appears whole or not at all."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    with atomic_file(file) as partial:
        partial.write_text(text + "\n", encoding="utf-8")


def _flush(path: Path) -> None:
    """Wait until a file, or a directory, is on the disk."""
    opened = os.open(path, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)


@contextmanager
def atomic_directory(
    target: str | Path,
    *,
    overwrite: bool = False,
    contents: Collection[str],
    apart_from: Collection[str | Path] = (),
) -> Iterator[Path]:
    """Yield an empty directory that becomes `target` on success and vanishes on any failure.

    With `overwrite`, what stood at `target` stays until the new directory is complete, and is
    replaced only if it is empty or holds exactly `contents`: what such a directory of ours is
    made of, and never a person's own files. It must stay `apart_from` what is read to fill it.
    """
    target = Path(target)
    _require_apart(target, apart_from)
    if target.exists() or target.is_symlink():
        _require_replaceable(target, overwrite, contents)
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    partial.mkdir()
    try:
        yield partial
        _replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _require_apart(target: Path, others: Collection[str | Path]) -> None:
    path = target.resolve()
    for other in others:
        source = Path(other).resolve()
        if path.is_relative_to(source) or source.is_relative_to(path):
            raise SlatewiseError(
                f"{target} cannot hold the result: it is, holds or lies in {other}, which is read.",
                "Choose another directory.",
            )


def _require_replaceable(target: Path, overwrite: bool, contents: Collection[str]) -> None:
    if target.is_symlink():
        raise SlatewiseError(
            f"{target} is a link and is not replaced.", "Give the directory it leads to."
        )
    if not overwrite:
        raise SlatewiseError(
            f"{target} exists already.", "Choose another directory, or replace it with --overwrite."
        )
    if not target.is_dir():
        raise SlatewiseError(
            f"{target} is a file and is not replaced.", "Choose another directory."
        )
    if Path.cwd().is_relative_to(target.resolve()):
        raise SlatewiseError(
            f"{target} is where this command runs and is not replaced.", "Choose another directory."
        )
    present = {entry.name for entry in target.iterdir()}
    foreign, missing = sorted(present - set(contents)), sorted(set(contents) - present)
    if present and (foreign or missing):
        why = f"it holds {foreign[0]}" if foreign else f"it lacks {missing[0]}"
        raise SlatewiseError(
            f"{target} is something else and is not replaced: {why}.",
            "Choose another directory, or remove the directory yourself.",
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
