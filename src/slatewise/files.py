"""Directories that appear whole or not at all."""

import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slatewise.errors import SlatewiseError


@contextmanager
def atomic_directory(target: str | Path, *, overwrite: bool = False) -> Iterator[Path]:
    """Yield an empty directory that becomes `target` on success and vanishes on any failure.

    With `overwrite`, what stood at `target` stays until the new directory is complete.
    """
    target = Path(target)
    if target.exists() and not overwrite:
        raise SlatewiseError(
            f"{target} exists already.", "Choose another place, or replace it with --overwrite."
        )
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex[:8]}.partial")
    partial.mkdir()
    try:
        yield partial
        _replace(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


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
    if retired.is_dir():
        shutil.rmtree(retired, ignore_errors=True)
    else:
        retired.unlink(missing_ok=True)
