"""Addresses of public files on Google Drive, and its confirmation page for large ones."""

from html.parser import HTMLParser
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

DRIVE = "https://drive.google.com"


def file_url(file_id: str, base_url: str = DRIVE) -> str:
    """Return the address of a shared file's content."""
    return f"{base_url}/uc?{urlencode({'export': 'download', 'id': file_id})}"


def confirmed_url(page: str, page_url: str) -> str | None:
    """Return where the "download anyway" button of a page leads; None if it has no such button.

    Files too large for a virus scan (about 100 MB) come behind a form whose hidden fields, among
    them a one-time id, have to be sent along.
    """
    form = _DownloadForm()
    form.feed(page)
    if form.action is None:
        return None
    action = urlsplit(urljoin(page_url, form.action))
    fields = dict(parse_qsl(action.query)) | form.hidden
    return action._replace(query=urlencode(fields)).geturl()


def page_title(page: str) -> str:
    """Return the title of a page, which tells a quota notice from a sign-in page."""
    form = _DownloadForm()
    form.feed(page)
    return " ".join(form.title.split())


class _DownloadForm(HTMLParser):
    """Collects the page's title and the form whose id says it downloads."""

    def __init__(self) -> None:
        super().__init__()
        self.action: str | None = None
        self.hidden: dict[str, str] = {}
        self.title = ""
        self._inside = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        # The id was "downloadForm" until 2022.
        if tag == "form" and given.get("id") in ("download-form", "downloadForm"):
            self._inside, self.action = "form", given.get("action", "")
        elif tag == "title":
            self._inside = "title"
        elif tag == "input" and self._inside == "form" and given.get("type") == "hidden":
            self.hidden[given.get("name", "")] = given.get("value", "")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data
