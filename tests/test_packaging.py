"""What the package says of itself agrees: its version, its extras, how it is installed."""

import re
import runpy
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import yaml

import slatewise
from tests.test_docs import commands, fences

ROOT = Path(__file__).parents[1]


def texts() -> Iterator[tuple[str, str]]:
    """Yield every page, module and script that may say how to install something."""
    for folder in ("docs", "src", "clients", "deploy", "examples", "benchmarks"):
        for suffix in ("md", "py", "js", "ts", "ipynb"):
            for path in sorted((ROOT / folder).rglob(f"*.{suffix}")):
                yield str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")
    for path in sorted(ROOT.glob("*.md")):
        yield path.name, path.read_text(encoding="utf-8")


def test_the_version_is_the_newest_of_the_changelog_and_the_one_to_cite() -> None:
    released = re.findall(r"^## (\d\S*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"]
    assert released[0] == cited == slatewise.__version__


def test_the_distribution_says_whose_it_is_and_where_it_runs() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    project = found["project"]
    assert project["authors"] == [{"name": "slatewise developers"}]
    assert project["urls"]["Paper"].startswith("https://arxiv.org/abs/")
    assert (ROOT / project["readme"]).is_file()
    assert "Typing :: Typed" in project["classifiers"]
    assert (ROOT / "src" / "slatewise" / "py.typed").is_file()
    for number in ("3.11", "3.12"):
        assert f"Programming Language :: Python :: {number}" in project["classifiers"]
    packed = found["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    assert all([*ROOT.glob(name.removeprefix("/"))] for name in packed)
    for page in ("SECURITY.md", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md"):
        assert any((ROOT / page) in ROOT.glob(name.removeprefix("/")) for name in packed)


def test_nothing_is_installed_by_a_name_that_is_not_on_pypi() -> None:
    by_name = re.compile(r"pip install(?: -\S+)*\s+[\"']?slatewise\b")
    assert [name for name, text in texts() if by_name.search(text)] == []


def test_every_extra_that_is_named_exists() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {
        extra
        for _, text in texts()
        for group in re.findall(r"'\.\[([\w,]+)\]'|install_remedy\([\"'](\w+)", text)
        for extra in "".join(group).split(",")
    }
    assert len(named) > 5
    assert named <= {*project["optional-dependencies"]}


def test_the_release_check_runs_what_the_first_page_shows() -> None:
    check = runpy.run_path(str(ROOT / "deploy" / "check_install.py"))
    page = ROOT / "docs" / "start.md"
    ran = [command[1:] for command in check["commands"](page.read_text(encoding="utf-8"))]
    shown = [one for fence in fences(page) if fence.kind == "sh" for one in commands(fence.text)]
    assert len(shown) == 6
    assert [command for command in ran if command[0] != "-c"] == shown
    assert sum(command[0] == "-c" for command in ran) == 1
    make = ["make", "-n", "dist"]
    steps = subprocess.run(make, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert "deploy/check_install.py ../../docs/start.md" in steps


def test_the_first_page_shows_the_test_command_that_ci_runs() -> None:
    shown = [one.text for one in fences(ROOT / "README.md") if one.kind == "sh"]
    two = [line.split("#")[0].strip() for line in shown[0].splitlines()]
    assert two == ["make demo", "make test"]
    assert two[1] in (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
