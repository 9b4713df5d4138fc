"""Workers see each other's stamps at once."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from slatewise.errors import InputError
from slatewise.service.store.stamps import SLOTS, Stamps


def test_another_process_sees_a_change_and_makes_one(tmp_path: Path) -> None:
    ours = Stamps.open(tmp_path / "shared.bin")
    before, untouched = ours.user("ann"), ours.user("bob")
    items = ours.items()
    program = (
        "import sys, pathlib\n"
        "from slatewise.service.store.stamps import Stamps\n"
        "theirs = Stamps.open(pathlib.Path(sys.argv[1]))\n"
        "assert theirs.user('ann') == int(sys.argv[2])\n"
        "theirs.change_users(['ann']); theirs.change_items()\n"
    )
    path = str(tmp_path / "shared.bin")
    subprocess.run([sys.executable, "-c", program, path, str(before)], check=True)
    assert ours.user("ann") != before
    assert ours.items() != items
    assert ours.user("bob") == untouched


def test_stamps_never_come_back_to_an_old_value(tmp_path: Path) -> None:
    stamps, seen = Stamps.open(tmp_path / "shared.bin"), set()
    for _ in range(1_000):
        stamps.change_users(["ann"])
        seen.add(stamps.user("ann"))
    assert len(seen) == 1_000


def test_users_spread_over_the_slots(tmp_path: Path) -> None:
    stamps = Stamps.open(tmp_path / "shared.bin")
    different = {stamps.user(f"user-{number}") for number in range(2_000)}
    # 2,000 balls in 65,536 boxes share about 30.
    assert len(different) > 2_000 - 80
    assert SLOTS == 65_536


def test_stamps_outlive_the_service(tmp_path: Path) -> None:
    first = Stamps.open(tmp_path / "shared.bin")
    first.change_items()
    assert Stamps.open(tmp_path / "shared.bin").items() == first.items()


def test_processes_that_start_at_once_share_one_file(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        opened = list(pool.map(Stamps.open, [tmp_path / "new" / "shared.bin"] * 16))
    opened[3].change_items()
    assert len({stamps.items() for stamps in opened}) == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["shared.bin"]


@pytest.mark.parametrize("content", [b"", b"something else", b"x" * 8 * (SLOTS + 8)])
def test_a_file_of_something_else_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "shared.bin").write_bytes(content)
    with pytest.raises(InputError, match="delete the file"):
        Stamps.open(tmp_path / "shared.bin")
