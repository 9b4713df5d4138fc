"""The site of the pages: it builds without a warning, loads nothing, and its notebooks run."""

import html
import re
import subprocess
import sys
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest
from typer.main import get_command

from slatewise.cli import app
from slatewise.config import Config
from slatewise.data.report import Problem
from slatewise.model.config import ModelConfig

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
DEFAULTS = {
    "model": {"terms": "–", "repeats": "true", "half_lives": "2, 24, 96", "memory": "0.8"},
    "service": {"--host": "127.0.0.1", "--port": "8000", "--run": "–", "--open": "–"},
    "service-settings": {
        "models": "main",
        "tracing": "false",
        "body_bytes": "1,000,000",
        "seconds": "10",
    },
    "experiments": {
        "seeds": "0, 1, 2",
        "nightly": "learning_rate = 0.006, max_epochs = 4, patience = 4, plateau = 2",
    },
}


def test_the_site_has_every_page_and_loads_nothing_from_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sphinx", reason="NO SITE: sphinx is not installed")
    monkeypatch.setenv("SLATEWISE_NOTEBOOKS", "off")
    options = ["-q", "-W", "--keep-going", "-b", "html", "-d", str(tmp_path / "trees")]
    command = [sys.executable, "-m", "sphinx", *options, ROOT / "docs", tmp_path / "site"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")}
    assert pages <= {page.stem for page in (tmp_path / "site").glob("*.html")}
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(
            r'<(?:script|link|img)[^>]*(?:src|href)="(https?:[^"]*)"', page.read_text()
        )
        assert not loaded, page.name
    assert "Thompson" in (tmp_path / "site" / "searchindex.js").read_text()
    for page in (ROOT / "docs").glob("*.md"):
        check_references(page, (tmp_path / "site" / f"{page.stem}.html").read_text())
    made = tables((tmp_path / "site" / "log-format.html").read_text())
    listed = [(problem.what, problem.column or "–", problem.repair) for problem in Problem]
    assert [("problem", "field", "repair"), *listed] in [list(map(tuple, one)) for one in made]
    (made,) = tables((tmp_path / "site" / "http-api.html").read_text())
    there = [
        (f"{method} {route.path_format}", getattr(route, "needs", None))
        for route in routes()
        for method in sorted(route.methods)
    ]
    roles = [(path, "–" if role is None else role.name.lower()) for path, role in there]
    assert [tuple(row[:2]) for row in made[1:]] == roles
    assert all(len(row[2]) > 4 for row in made[1:])


def routes() -> list[Any]:
    http = pytest.importorskip("slatewise.service.http.app", reason="NO SERVICE: no fastapi")
    return list(http.application(lambda metrics: None).routes)


def check_references(page: Path, built: str) -> None:
    """Look for every setting and option that a page asks for, with its default and a text."""
    made = [table for table in tables(built) if table[0][1:] == ["default", "meaning"]]
    listed = {row[0]: row[1] for table in made for row in table[1:]}
    asked = re.findall(r"^```\{(settings|options)\} (\S+)$", page.read_text(), re.MULTILINE)
    assert [table[0][0] for table in made] == [kind[:-1] for kind, _ in asked]
    for table, (kind, name) in zip(made, asked, strict=True):
        names = options(name) if kind == "options" else settings(resolve_name(name))
        assert [row[0] for row in table[1:]] == names
        assert all(len(row[2]) > 4 for row in table), f"{name} has one without a text"
    assert listed.items() >= DEFAULTS.get(page.stem, {}).items()


def tables(built: str) -> list[list[list[str]]]:
    """Return the cells of all tables of a page of the site, with plain quotes."""
    built = re.sub("[‘’]", "'", built)
    return [
        [
            [
                " ".join(html.unescape(re.sub(r"<[^>]+>", "", cell)).split())
                for cell in re.findall(r"<t[hd].*?</t[hd]>", row, re.DOTALL)
            ]
            for row in re.findall(r"<tr.*?</tr>", text, re.DOTALL)
        ]
        for text in re.findall(r"<table.*?</table>", built, re.DOTALL)
    ]


def options(command: str) -> list[str]:
    parameters = get_command(app).commands[command].params  # type: ignore[attr-defined]
    return [part.opts[0] for part in parameters if part.opts[0].startswith("--")]


def settings(config: type[Config]) -> list[str]:
    names = config.setting_names()
    own = config.__annotations__
    return names if config is ModelConfig else [name for name in names if name in own]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda file: file.stem)
def test_a_notebook_runs_from_top_to_bottom(
    notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nbclient = pytest.importorskip("nbclient", reason="NOTEBOOKS NOT RUN: nbclient is missing")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    page = nbformat.read(notebook, as_version=4)
    assert not any(cell.get("outputs") for cell in page.cells), "commit notebooks without outputs"
    place = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(page, timeout=600, resources=place).execute()
    code = [cell for cell in page.cells if cell.cell_type == "code"]
    assert all(cell.execution_count for cell in code)
