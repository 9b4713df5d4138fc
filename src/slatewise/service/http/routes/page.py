"""The page for people: files of this package, and Plotly's script as it is installed.

They hold no data, so they need no token; what the page shows, it asks of the API with the token
that its user entered.
"""

import gzip
from dataclasses import dataclass
from functools import cache
from hashlib import blake2b
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from slatewise.errors import install_remedy
from slatewise.service.http.problems import Problem

router = APIRouter()

PLOTLY: Final = "plotly.min.js"
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        # Plotly sets markers of legends as data; nothing is fetched.
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    # Asked for again every time, and answered with 304 as long as it is the same.
    "Cache-Control": "no-cache",
    "Vary": "Accept-Encoding",
}
_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}


@dataclass(frozen=True)
class Asset:
    """A file as it is sent."""

    content: bytes
    packed: bytes
    kind: str
    tag: str

    @classmethod
    def of(cls, content: bytes, name: str) -> "Asset":
        """Prepare a file."""
        tag = f'"{blake2b(content, digest_size=12).hexdigest()}"'
        return cls(content, gzip.compress(content, 6, mtime=0), _KINDS[Path(name).suffix], tag)


@router.get("/", include_in_schema=False)
def show_page(request: Request) -> Response:
    """Return the page."""
    return _sent(request, "index.html")


@router.get("/docs", include_in_schema=False)
def show_docs(request: Request) -> Response:
    """Return the page that shows the API."""
    return _sent(request, "docs.html")


@router.get("/page/{name}", include_in_schema=False)
def show_asset(request: Request, name: str) -> Response:
    """Return a script, a style or a picture of the page."""
    return _sent(request, name)


def _sent(request: Request, name: str) -> Response:
    # Only names that the folder lists: nothing of a request becomes a path.
    asset = _asset(name) if name in _names() else None
    if asset is None:
        remedy = "The page is at /."
        if name == PLOTLY:
            remedy = f"Figures need Plotly. {install_remedy('serve')}"
        raise Problem(404, "There is no such file.", remedy)
    headers = _HEADERS | {"ETag": asset.tag}
    if request.headers.get("if-none-match") == asset.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(asset.packed, 200, headers | {"Content-Encoding": "gzip"}, asset.kind)
    return Response(asset.content, 200, headers, asset.kind)


@cache
def _names() -> frozenset[str]:
    own = {file.name for file in files("slatewise.service.page").iterdir()}
    return frozenset({name for name in own if Path(name).suffix in _KINDS} | {PLOTLY})


@cache
def _asset(name: str) -> Asset | None:
    """Read a file once; None for Plotly's script where it is not installed."""
    if name != PLOTLY:
        return Asset.of(files("slatewise.service.page").joinpath(name).read_bytes(), name)
    # Found without being imported, which takes a second and is of no use here.
    spec = find_spec("plotly")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        file = Path(folder) / "package_data" / PLOTLY
        if file.is_file():
            return Asset.of(file.read_bytes(), name)
    return None
