"""How the source is kept: names that are used once, modules of a readable length, plain words."""

import ast
import re
from collections import defaultdict
from functools import cache
from pathlib import Path

import slatewise

SOURCE = Path(slatewise.__file__).parent
LONGEST = 400
"""Lines of a module; of GPU kernels, which are one function each, 100 more."""
PARTICIPLES = {"Told", "Said", "Met", "Known", "Settled", "Weighed", "Understood", "Described"}
PARTICIPLES |= {"Judged", "Tried", "Loaded", "Observed", "Recommended", "Given", "Taken"}


@cache
def classes() -> list[tuple[str, str, str]]:
    """Return the package, name and module of every public class."""
    return [
        (module.relative_to(SOURCE).parts[0], node.name, module.relative_to(SOURCE).as_posix())
        for module in sorted(SOURCE.rglob("*.py"))
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]


def test_no_package_has_two_public_classes_of_one_name() -> None:
    homes = defaultdict(list)
    for package, name, module in classes():
        homes[package, name].append(module)
    assert {key: modules for key, modules in homes.items() if len(modules) > 1} == {}


def test_a_class_is_called_by_a_noun() -> None:
    assert [name for _, name, _ in classes() if name in PARTICIPLES] == []


def test_no_module_is_too_long_to_read() -> None:
    lengths = {path: len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    allowed = {path: LONGEST + 100 * (path.parent.name == "gpu") for path in lengths}
    assert {path.name: n for path, n in lengths.items() if n > allowed[path]} == {}


def test_the_service_is_made_of_packages_alone() -> None:
    assert [file.name for file in (SOURCE / "service").glob("*.py")] == ["__init__.py"]


def test_files_that_a_change_touches_are_there() -> None:
    page = (SOURCE.parents[1] / "CONTRIBUTING.md").read_text()
    table = page.partition("## What a change touches")[2].partition("A part needs")[0]
    named = re.findall(r"`([\w/]+\.py)`", table)
    assert len(named) > 10
    for name in named:
        path = SOURCE / name
        assert path.parent.is_dir() if path.stem == "NAME" else path.is_file(), name
