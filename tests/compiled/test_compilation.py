import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numba
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slatewise.compiled import compilation, functions
from slatewise.compiled.compilation import compiled, digest, stamp_of, uncounted
from slatewise.features import _popularity_numba
from slatewise.model.kernels.loops import rows, single_user, slate
from slatewise.ranking.loops import drawing, heap

KERNELS = {
    "ranking": heap.keep,
    "another file of ranking": drawing.draw,
    "training": rows.first_appearances,
    "made for its dimensions": slate.slate_kernel(2, False, 0, False, "distance"),
    "features": _popularity_numba.stream,
    "a user's dynamics": single_user.follow_gru,
}


@pytest.mark.parametrize("name", KERNELS)
def test_kernels_are_kept_on_disk_under_the_stamp_of_all_their_code(name: str) -> None:
    kernel = KERNELS[name]
    file = kernel._cache._cache_file  # type: ignore[attr-defined]
    assert file._source_stamp == stamp_of(kernel.py_func)  # type: ignore[attr-defined]


FIRST = """
def first(rows, other):
    chosen = rows.values
    for _ in range(2):
        if other:
            chosen = rows.others
    return chosen[0]
"""


class Rows(NamedTuple):
    values: npt.NDArray[np.float64]
    others: npt.NDArray[np.float64]


@pytest.mark.parametrize(("compile_", "counts"), [(uncounted, False), (compiled, True)])
def test_uncounted_functions_count_no_references(
    compile_: Callable[[Any], Any], counts: bool
) -> None:
    found: dict[str, Any] = {}
    exec(FIRST, found)  # without a file, so that nothing of it is kept on disk
    kernel, rows = compile_(found["first"]), Rows(np.zeros(3), np.ones(3))

    @numba.njit
    def caller(rows, other):  # noqa: ANN001, ANN202
        return kernel(rows, other)

    assert [caller(rows, other) for other in (False, True)] == [0, 1]
    (code,) = kernel.inspect_llvm().values()
    assert ("@NRT_incref(" in code) == counts


def test_a_stamp_is_of_the_folder_of_a_kernel_and_of_the_toolkit() -> None:
    own, toolkit = (digest(Path(module.__file__).parent) for module in (heap, compilation))
    assert stamp_of(heap.keep.py_func) == own + toolkit  # type: ignore[attr-defined]
    assert own != toolkit


def test_a_digest_changes_with_any_file(tmp_path: Path) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        shutil.copytree(Path(heap.__file__).parent, folder)
    assert digest(one) == digest(Path(heap.__file__).parent)
    with (other / "heap.py").open("a") as stream:
        stream.write("# another\n")
    assert digest(other) != digest(one)


SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from kernels import outer
assert outer.__file__.startswith(sys.argv[1])
print(outer.double(np.float32(0)), len(outer.double.stats.cache_hits))
"""
OUTER = """
from slatewise.compiled.compilation import reordered
from slatewise.compiled.functions import exponential
from kernels.inner import add_one
@reordered
def double(x):
    return 2 * add_one(exponential(x))
"""
INNER = """
from slatewise.compiled.compilation import part
@part
def add_one(x):
    return x + 1
"""


def test_the_cache_notices_a_change_in_any_file_that_a_kernel_draws_upon(tmp_path: Path) -> None:
    kernels, toolkit = tmp_path / "kernels", tmp_path / "slatewise" / "compiled"
    kernels.mkdir()
    shutil.copytree(
        Path(compilation.__file__).parent, toolkit, ignore=shutil.ignore_patterns("__pycache__")
    )
    for package in (kernels, toolkit.parent):
        (package / "__init__.py").touch()
    (kernels / "outer.py").write_text(OUTER)
    (kernels / "inner.py").write_text(INNER)

    command = [sys.executable, "-c", SCRIPT, str(tmp_path)]

    def run() -> list[str]:
        return subprocess.check_output(command, text=True).split()

    both = [subprocess.Popen(command, text=True, stdout=subprocess.PIPE) for _ in range(2)]
    outputs = sorted(process.communicate()[0].split() for process in both)
    assert outputs == [["4.0", "0"], ["4.0", "1"]]  # one compiles, the other waits for it
    (kernels / "inner.py").write_text(INNER.replace("x + 1", "x + 2"))
    assert run() == ["6.0", "0"]
    assert run() == ["6.0", "1"]
    changed = (toolkit / "functions.py").read_text()
    changed = changed.replace("mantissa * float_of", "_ONE + mantissa * float_of")
    (toolkit / "functions.py").write_text(changed)
    assert run() == ["8.0", "0"]


TYPED = """
from typing import NamedTuple
from slatewise.compiled.compilation import compiled
class Pair(NamedTuple):
    one: float
    other: float
@compiled
def total(pair):
    return pair.one + pair.other
print(total(Pair(1.0, 2.0)), len(total.stats.cache_hits))
"""


def test_a_type_that_was_renamed_does_not_break_the_cache(tmp_path: Path) -> None:
    def run(text: str) -> str:
        (tmp_path / "typed.py").write_text(text)
        command = [sys.executable, "-c", "import typed"]
        return subprocess.check_output(command, text=True, cwd=tmp_path).strip()

    assert run(TYPED) == "3.0 0"
    assert run(TYPED) == "3.0 1"
    assert run(TYPED.replace("Pair", "Two")) == "3.0 0"


@given(x=st.floats(-1e4, 0, width=32))
def test_the_exponential_is_exact_to_a_few_roundings(x: float) -> None:
    expected = np.exp(x) if x >= -80 else 0.0
    assert abs(functions.exponential(np.float32(x)) - expected) <= 2e-7 * expected


def test_the_exponential_of_nan_is_nan() -> None:
    assert np.isnan(functions.exponential(np.float32(np.nan)))
    assert functions.exponential(np.float32(-np.inf)) == 0
