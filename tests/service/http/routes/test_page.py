"""The files of the page: public, checked by the browser, and nothing else of the disk."""

from pathlib import Path

import pytest

from slatewise.service.http.routes import page
from tests.service.http.conftest import TestClient

FILES = sorted(file.name for file in Path(page.__file__).parents[2].joinpath("page").iterdir())


@pytest.mark.parametrize(
    "path", ["/", "/docs", *(f"/page/{name}" for name in FILES if "." in name)]
)
def test_files_need_no_token_and_have_a_strict_policy(anvil: TestClient, path: str) -> None:
    if path.endswith(".py"):
        assert anvil.get(path, headers={"Authorization": ""}).status_code == 404
        return
    answer = anvil.get(path, headers={"Authorization": ""})
    assert answer.status_code == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    again = anvil.get(path, headers={"If-None-Match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


def test_nothing_in_the_page_is_inline_or_comes_from_elsewhere() -> None:
    for name in ("index.html", "docs.html"):
        text = Path(page.__file__).parents[2].joinpath("page", name).read_text(encoding="utf-8")
        assert "style=" not in text
        assert "<style" not in text
        assert "//" not in text.replace("<!doctype", "")
        assert "</script>" not in text.replace('"></script>', "")


@pytest.mark.parametrize("name", ["..", "%2e%2e%2fapp.py", "__init__.py", "nothing.js"])
def test_other_files_are_not_served(anvil: TestClient, name: str) -> None:
    assert anvil.get(f"/page/{name}").status_code in (404, 200 if name == ".." else 404)
    assert "import" not in anvil.get(f"/page/{name}").text


def test_a_missing_plotly_is_said(anvil: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "find_spec", lambda name: None)
    page._asset.cache_clear()
    try:
        missing = anvil.get("/page/plotly.min.js")
    finally:
        page._asset.cache_clear()
    assert missing.status_code == 404
    assert "pip install" in missing.json()["remedy"]
