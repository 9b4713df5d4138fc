"""The site of the pages: it builds without a warning, loads nothing, and its notebooks run."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


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
