import platform
import subprocess
import sys

import pytest

from slatewise.training import memory

STEPS = """
import resource, sys
import torch
from slatewise.training.memory import keep_freed_memory
assert keep_freed_memory()
def step():
    blocks = [torch.ones(6_000_000) for _ in range(4)]
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(3):
    step()
before = faults()
for _ in range(5):
    step()
print(faults() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no say in it")
def test_what_a_step_frees_is_there_for_the_next() -> None:
    """96 MB a step, which are 23,000 pages if they come from the system every time.

    As the heap happens to lie, one block of 24 MB may not fit where the last ones were.
    """
    found = subprocess.check_output([sys.executable, "-c", STEPS], text=True)
    assert int(found) < 7_000


FREED = """
import psutil
import torch
from slatewise.training.memory import give_back_freed_memory
kept = []
for _ in range(2_000):
    torch.ones(15_000)  # below what glibc asks of the system by itself
    kept.append(torch.ones(15_000))
last = kept.pop()  # at the end of the heap: it holds up all that is freed before it
kept.clear()
before = psutil.Process().memory_info().rss
assert give_back_freed_memory()
print(before - psutil.Process().memory_info().rss)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no say in it")
def test_what_is_not_needed_again_is_given_back() -> None:
    """Of 120 MB that were freed."""
    found = subprocess.check_output([sys.executable, "-c", FREED], text=True)
    assert int(found) > 80e6


def test_another_c_library_has_no_say_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.ctypes, "CDLL", lambda name: object())
    assert not memory.give_back_freed_memory()
    assert not memory.keep_freed_memory.__wrapped__()
