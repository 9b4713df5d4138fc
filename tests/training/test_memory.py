import platform
import subprocess
import sys

import pytest

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
    """96 MB a step, which are 23,000 pages if they come from the system every time."""
    found = subprocess.check_output([sys.executable, "-c", STEPS], text=True)
    assert int(found) < 1_000
