from pathlib import Path

from slatewise.ranking.loops import compiling, drawing, heap


def test_all_loops_are_kept_on_disk_under_the_stamp_of_all_files() -> None:
    for kernel in (heap.keep, drawing.draw):
        file = kernel._cache._cache_file  # type: ignore[attr-defined]
        assert file._source_stamp == compiling._STAMP


def test_the_stamp_changes_with_any_file(tmp_path: Path) -> None:
    folder = Path(compiling.__file__).parent
    for file in folder.glob("*.py"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    assert compiling.digest(tmp_path) == compiling._STAMP
    with (tmp_path / "heap.py").open("a") as stream:
        stream.write("# another\n")
    assert compiling.digest(tmp_path) != compiling._STAMP
