"""One case for each kernel of a GPU, without one: by Triton's interpreter.

It is switched on before kernels are imported, so in a process of its own. `make test-kernels` runs
all cases.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KERNELS = "tests/model/kernels/test_gpu.py"
CASES = [
    f"{KERNELS}::test_noise_is_that_of_the_reference",
    f"{KERNELS}::test_items_are_drawn_and_moved_as_by_autograd_and_adam[4-True]",
    f"{KERNELS}::test_means_are_those_of_the_reference",
    f"{KERNELS}::test_scans_are_those_of_one_user_after_the_other",
    f"{KERNELS}::test_choices_are_those_of_the_reference[everything]",
    f"{KERNELS}::test_choices_are_those_of_the_reference[dot, many candidates]",
    "tests/ranking/test_passes.py::test_the_same_items_come_late[too few]",
    "tests/ranking/test_passes.py::test_the_nearest_of_the_best_blocks_are_found",
    "tests/ranking/test_passes.py::test_as_many_items_are_nearer",
    "tests/training/test_dense.py::test_steps_by_kernels_are_those_of_plain_torch[terms]",
]


def test_kernels_for_a_gpu_are_their_references() -> None:
    pytest.importorskip("triton", reason="NO TRITON: kernels for a GPU are NOT tested here")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *CASES],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert "skipped" not in done.stdout
