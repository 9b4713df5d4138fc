import errno
from pathlib import Path
from threading import Thread

import pytest
from numba import types
from numba.core.caching import IndexDataCacheFile

from slatewise.compiled import cache
from slatewise.compiled.cache import SharedCacheFile

ONE, OTHER = (
    ((types.float32, types.int64[:]), ("x86_64", "cpu"), ("code", closure))
    for closure in ("dims 2", "dims 3")
)


def file(folder: Path, stamp: str = "stamp") -> SharedCacheFile:
    """Open the cache of a function as another process does."""
    return SharedCacheFile(IndexDataCacheFile(str(folder), "module.kernel-1.py3", "now"), stamp)


def test_kernels_that_two_processes_save_at_once_are_not_taken_for_each_other(
    tmp_path: Path,
) -> None:
    first, second = file(tmp_path), file(tmp_path)
    assert first.load(ONE) is None
    assert second.load(OTHER) is None
    first.save(ONE, "one")
    second.save(OTHER, "other")
    assert [file(tmp_path).load(key) for key in (ONE, OTHER)] == ["one", "other"]


def test_a_process_waits_for_what_another_compiles(tmp_path: Path) -> None:
    first, found = file(tmp_path), []
    assert first.load(ONE) is None
    other = Thread(target=lambda: found.append(file(tmp_path).load(ONE)))
    other.start()
    other.join(0.1)
    assert other.is_alive()
    first.save(ONE, "one")
    other.join(10)
    assert found == ["one"]


def test_a_process_that_never_finishes_is_not_waited_for_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cache, "PATIENCE", 0.0)
    first, second = file(tmp_path), file(tmp_path)
    assert first.load(ONE) is None
    assert first.load(ONE) is None  # again, after an error of the compiler
    assert second.load(ONE) is None
    second.save(ONE, "one")
    assert first.load(ONE) == "one"


@pytest.mark.parametrize("content", ["of other code", "empty", "damaged"])
def test_what_cannot_be_valid_is_compiled_anew(tmp_path: Path, content: str) -> None:
    older = file(tmp_path, "another stamp")
    older.load(ONE)
    older.save(ONE, "old")
    (saved,) = tmp_path.glob("*.nbc")
    if content == "empty":
        saved.write_bytes(b"")
    if content == "damaged":
        saved.write_bytes(b"nonsense")
    now = file(tmp_path)
    assert now.load(ONE) is None
    now.save(ONE, "new")
    assert now.load(ONE) == "new"
    assert [*tmp_path.glob("*.nbc")] == [saved]  # overwritten: old results do not pile up


def test_kernels_are_kept_where_files_cannot_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(cache.fcntl, "flock", refuse)
    here = file(tmp_path)
    assert here.load(ONE) is None
    here.save(ONE, "one")
    assert here.load(ONE) == "one"
