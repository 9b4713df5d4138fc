"""A file server on this machine that misbehaves on demand."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit


@dataclass
class Server:
    """Serves `files` by their Google Drive id, and remembers what it was asked."""

    files: dict[str, bytes]
    ranges: bool = True
    break_after: list[int] = field(default_factory=list)
    """For each coming answer, the bytes after which the connection breaks; then none do."""

    statuses: list[int] = field(default_factory=list)
    """For each coming answer, an HTTP status instead of the file; then the file."""

    confirm: set[str] = field(default_factory=set)
    """Files that come behind a confirmation page."""

    page: str = ""
    """A page to answer everything with."""

    sized: bool = True
    asked: list[tuple[str, str]] = field(default_factory=list)
    """(id, Range header) of every request."""

    url: str = ""


def form(file_id: str) -> str:
    return f"""<!DOCTYPE html><html><head><title>Google Drive - Virus scan warning</title></head>
    <body><form id="search"><input type="hidden" name="q" value="x"></form>
    <form id="download-form" action="/download?from=page" method="get">
    <input type="submit" value="Download anyway"/>
    <input type="hidden" name="id" value="{file_id}"><input type="hidden" name="confirm" value="t">
    <input type="hidden" name="uuid" value="a-1&amp;b"></form></body></html>"""


@contextmanager
def serve(server: Server) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            query = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
            server.asked.append((query["id"], self.headers.get("Range", "")))
            if server.statuses:
                self.send_error(server.statuses.pop(0))
            elif server.page:
                self.answer(200, server.page.encode(), "text/html; charset=utf-8")
            elif query["id"] in server.confirm and query.get("uuid") != "a-1&b":
                self.answer(200, form(query["id"]).encode(), "text/html; charset=utf-8")
            elif query["id"] not in server.files:
                self.send_error(404)
            else:
                self.send_file(server.files[query["id"]])

        def send_file(self, content: bytes) -> None:
            wanted = self.headers.get("Range")
            if not wanted or not server.ranges:
                self.answer(200, content, "application/octet-stream")
                return
            start = int(wanted.removeprefix("bytes=").removesuffix("-"))
            if start >= len(content):
                self.send_error(416)
                return
            span = f"bytes {start}-{len(content) - 1}/{len(content)}"
            self.answer(206, content[start:], "application/octet-stream", span)

        def answer(self, status: int, content: bytes, kind: str, span: str = "") -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            if span:
                self.send_header("Content-Range", span)
            if server.sized:
                self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            end = server.break_after.pop(0) if server.break_after else len(content)
            self.wfile.write(content[:end])

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        server.url = f"http://127.0.0.1:{http.server_address[1]}"
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            http.shutdown()
            thread.join()
