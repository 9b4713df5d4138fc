"""Download of one file over HTTP, resumed after interruptions and checked for completeness."""

import http.client
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Final

from slatewise.data.public.drive import confirmed_url, page_title
from slatewise.errors import SlatewiseError

BLOCK: Final = 1 << 20
PASSING: Final = frozenset({408, 429, 500, 502, 503, 504})
"""HTTP answers that may be different a moment later."""


class FetchError(SlatewiseError):
    """The file could not be downloaded."""


@dataclass(frozen=True)
class Fetcher:
    """Downloads into `.part` files; gives up after `attempts` in a row without progress."""

    progress: Callable[[str, int, int | None], None] = lambda name, done, total: None
    """Called with the file's name, the bytes fetched so far, and their total if known."""

    attempts: int = 4
    pause_s: float = 2.0
    timeout_s: float = 60.0

    def fetch(self, url: str, part: Path) -> None:
        """Complete the download of `part`, continuing from what it already has."""
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        failures = 0
        while True:
            before = _size(part)
            try:
                self._transfer(opener, url, part)
            except (urllib.error.URLError, http.client.HTTPException, OSError) as error:
                if isinstance(error, urllib.error.HTTPError):
                    error.close()
                    if error.code not in PASSING:
                        raise FetchError(f"{url} answered {error.code} {error.reason}.") from error
                failures = 0 if _size(part) > before else failures + 1
                if failures >= self.attempts:
                    reason = getattr(error, "reason", error)
                    raise FetchError(f"{url} cannot be fetched: {reason}.") from error
                time.sleep(self.pause_s)
            else:
                return

    def _transfer(self, opener: urllib.request.OpenerDirector, url: str, part: Path) -> None:
        with closing(self._open(opener, url, part)) as response:
            done, total = _extent(response, _size(part))
            # Anything but a continuation at the right byte is the file from its beginning.
            with part.open("ab" if done else "wb") as file:
                self.progress(part.stem, done, total)
                while data := response.read(BLOCK):
                    file.write(data)
                    done += len(data)
                    self.progress(part.stem, done, total)
        # `read` reports a connection that closed early as the end of the file.
        if total is not None and done < total:
            raise OSError(f"the connection closed after {done:,} of {total:,} bytes")

    def _open(
        self, opener: urllib.request.OpenerDirector, url: str, part: Path
    ) -> http.client.HTTPResponse:
        response = self._request(opener, url, part)
        if not _is_page(response):
            return response
        with closing(response):
            page = response.read().decode("utf-8", "replace")
        onward = confirmed_url(page, response.url)
        if onward is not None:
            response = self._request(opener, onward, part)
            if not _is_page(response):
                return response
            with closing(response):
                page = response.read().decode("utf-8", "replace")
        raise FetchError(f"{url} answered with a web page, not the file: “{page_title(page)}”.")

    def _request(
        self, opener: urllib.request.OpenerDirector, url: str, part: Path
    ) -> http.client.HTTPResponse:
        start = _size(part)
        request = urllib.request.Request(url, headers={"User-Agent": "slatewise"})
        if start:
            request.add_header("Range", f"bytes={start}-")
        try:
            response = opener.open(request, timeout=self.timeout_s)
        except urllib.error.HTTPError as error:
            if error.code != http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE or not start:
                raise
            # The part is longer than the file: it cannot be a beginning of it.
            error.close()
            part.unlink()
            return self._request(opener, url, part)
        assert isinstance(response, http.client.HTTPResponse)
        return response


def _is_page(response: http.client.HTTPResponse) -> bool:
    return response.headers.get_content_type() == "text/html"


def _extent(response: http.client.HTTPResponse, held: int) -> tuple[int, int | None]:
    """Return how many bytes precede the answer's first, and how many the file has in all."""
    length = response.headers.get("Content-Length")
    size = int(length) if length is not None else None
    continues = (response.headers.get("Content-Range") or "").startswith(f"bytes {held}-")
    if held and response.status == http.HTTPStatus.PARTIAL_CONTENT and continues:
        return held, None if size is None else held + size
    return 0, size


def _size(part: Path) -> int:
    return part.stat().st_size if part.exists() else 0
