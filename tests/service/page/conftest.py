"""A shop after two nights, served in this process, and a browser to look at its page with."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import uvicorn

from slatewise.service.http.app import application
from slatewise.service.http.backend import Backend
from slatewise.service.http.security import read_tokens
from slatewise.service.http.setup import Setup
from slatewise.service.store import Store
from slatewise.service.store.records import Item
from tests.service.http.conftest import TOKENS, VARIABLE, bearer, eventually
from tests.service.nights.world import DAY, ITEMS, START, fill, night, settings, visits
from tests.service.sharing import Shared

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

NASTY = "<img src=x onerror=\"alert('lamps & beds')\">"
"""A name that somebody may have given a group."""
ARMS = {"greedy": {"strategy": "greedy"}, "explore": {"strategy": "in-slate-thompson"}}


@dataclass
class Shop:
    """A service in this process."""

    address: str
    backend: Backend


@contextmanager
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    home = tmp_path_factory.mktemp("shop")
    directory, config = home / "service", settings().changed(arms=ARMS)
    directory.mkdir()
    store = Store.open(config.store_url(directory))
    past = [visit for visit in visits(users=60) if visit.slate.time < START + 3 * DAY]
    fill(store, past, [*ITEMS, Item("odd", NASTY)])
    for day in (2, 3):
        assert night(directory, store, day).outcome == "promoted"
    store.close()
    tokens = read_tokens(None, {"SLATEWISE_TOKENS": VARIABLE})
    setup = Setup(directory, config, tokens, home / "rates.bin")
    app = application(partial(Backend.open, setup, None))
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_config=None, lifespan="on"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        eventually(lambda: server.started or not thread.is_alive(), 240)
        assert server.started
        address = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
        _live(address)
        yield Shop(address, app.state.backend)
    finally:
        server.should_exit = True
        thread.join()


@pytest.fixture(scope="session")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared[Shop]]:
    with closing(Shared(partial(opened, tmp_path_factory))) as shops:
        yield shops


@pytest.fixture
def lent(shops: Shared[Shop], request: pytest.FixtureRequest) -> Iterator[Shop]:
    """The service, the same for all until a test fails."""
    with shops.lend(request) as shop:
        yield shop


@pytest.fixture
def shop(lent: Shop) -> str:
    """The address of the service."""
    return lent.address


def _live(address: str) -> None:
    """Let some users come, so that there is something to see."""
    with httpx.Client(base_url=address, headers=bearer("admin"), timeout=60) as client:
        for number in range(60):
            body = {"user_id": f"user {number % 40}", "k": 4, "seed": number}
            slate = client.post("/v1/recommend", json=body).raise_for_status().json()
            clicked = slate["items"][0]["id"] if number % 3 else None
            event = {"slate_id": slate["slate_id"], "clicked": clicked}
            client.post("/v1/feedback", json={"events": [event]}).raise_for_status()


@dataclass
class Visitor:
    """Somebody who looks at the page."""

    page: "Page"
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def enter(self, token: str) -> None:
        self.page.get_by_label("Token").fill(token)
        self.page.get_by_role("button", name="Open").click()

    def show(self, tab: str) -> None:
        self.page.get_by_role("tab", name=tab).click()
        self.page.locator(f"#panel-{tab.lower()}").wait_for(state="visible")

    def photograph(self, name: str) -> None:
        """Keep a picture, where somebody wants to look at it."""
        if folder := os.environ.get("SLATEWISE_SCREENSHOTS"):
            self.page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)


Visit = Callable[..., Visitor]


@pytest.fixture
def visit(lent: Shop, browser: "Browser") -> Iterator[Visit]:
    """Return what opens the page, with a token of a role or without."""
    contexts: list[Any] = []

    def look(
        role: str | None = "admin",
        path: str = "/",
        width: int = 1280,
        scheme: Any = "light",
        **options: Any,
    ) -> Visitor:
        size = {"width": width, "height": 900}
        context = browser.new_context(viewport=size, color_scheme=scheme, **options)  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)  # a busy machine is not a failure
        found = Visitor(page)
        page.on("console", lambda said: found.complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: found.complaints.append(str(error)))
        page.on("request", lambda request: found.asked.append(request.url))
        page.goto(lent.address + path)
        if role is not None:
            found.enter(TOKENS[role])
        return found

    yield look
    for context in contexts:
        for page in context.pages:
            page.unroute_all(behavior="ignoreErrors")  # an answer may be on its way through one
        context.close()
    # What a page asked for is worked out though it is closed, and the next one would be refused.
    eventually(lambda: lent.backend._looking == 0)
