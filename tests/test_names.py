"""What `import slatewise` offers, without loading it."""

import subprocess
import sys

import slatewise


def test_names_are_listed_before_they_are_loaded() -> None:
    code = (
        "import sys, slatewise; names = dir(slatewise); "
        "print('torch' in sys.modules, set(slatewise.__all__) <= set(names), 'fit' in names)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "True"]


def test_what_the_package_itself_imports_is_not_listed() -> None:
    assert not {"TYPE_CHECKING", "exports", "lazy"} & set(dir(slatewise))


def test_every_name_that_is_listed_is_there() -> None:
    assert all(getattr(slatewise, name) for name in slatewise.__all__)


def test_the_command_line_starts_without_what_only_some_commands_need() -> None:
    heavy = {"numba", "scipy", "sqlalchemy", "torch"}
    code = f"import sys, slatewise.cli; print(*{heavy} & {{*sys.modules}})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not done.stdout.split()
