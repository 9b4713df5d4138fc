"""Directories that appear whole or not at all, and never in place of something else."""

from pathlib import Path

import pytest

from slatewise.errors import SlatewiseError
from slatewise.files import atomic_directory

CONTENTS = ("a", "b")


def fill(directory: Path, text: str) -> None:
    for name in CONTENTS:
        (directory / name).write_text(text)


def make(target: Path, text: str = "new") -> None:
    with atomic_directory(target, overwrite=True, contents=CONTENTS) as directory:
        fill(directory, text)


def entries(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def test_only_what_is_empty_or_whole_is_replaced(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    make(out, "first")
    make(out, "second")
    assert (out / "a").read_text() == "second"
    (out / "b").unlink()
    with pytest.raises(SlatewiseError, match="not replaced: it lacks b"):
        make(out)
    (out / "b").touch()
    (out / "c").touch()
    with pytest.raises(SlatewiseError, match="not replaced: it holds c"):
        make(out)
    assert (out / "a").read_text() == "second"
    assert entries(tmp_path) == ["out"]


def test_the_ground_one_stands_on_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    for folder in (".", "..", tmp_path / "here"):
        with pytest.raises(SlatewiseError, match="where this command runs"):
            make(Path(folder))
    assert entries(tmp_path) == ["here"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    make(tmp_path / "there")
    for name, leads_to in (("full", "there"), ("dangling", "nowhere")):
        link = tmp_path / name
        link.symlink_to(tmp_path / leads_to)
        with pytest.raises(SlatewiseError, match="is a link"):
            make(link)
        assert link.is_symlink()
        link.unlink()
    assert entries(tmp_path) == ["there"]


def test_the_old_one_comes_back_when_the_new_one_cannot_take_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    make(out, "old")
    rename = Path.rename

    def fail_for_the_new_one(self: Path, target: Path) -> Path:
        if self.name.endswith(".partial"):
            raise PermissionError(13, "no")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", fail_for_the_new_one)
    with pytest.raises(PermissionError):
        make(out, "new")
    assert (out / "a").read_text() == "old"
    assert entries(tmp_path) == ["out"]


def test_a_place_that_is_read_is_no_place_to_write(tmp_path: Path) -> None:
    source = tmp_path / "log"
    make(source)
    for target in (source, tmp_path, source / "below", tmp_path / "log" / ".." / "log"):
        with (
            pytest.raises(SlatewiseError, match="cannot hold the result"),
            atomic_directory(target, overwrite=True, contents=CONTENTS, apart_from=[source]),
        ):
            pass
    with atomic_directory(tmp_path / "logs", contents=CONTENTS, apart_from=[source]) as directory:
        fill(directory, "new")
    assert entries(tmp_path) == ["log", "logs"]
