"""How long the page waits for its map and for slates to try, and how smoothly the map moves.

The server's part is measured in this process: the first map of a version finds its axes and reads
views, later ones count groups and draw the sample again (the service does so every ten seconds at
most). `try` makes and explains slates of three strategies for a user with three clicks. The floor
is reading the means of all items once. With `--browser`, Chromium draws the sample while it is
zoomed, without a graphics card: `draw` is what a tenth of the frames keep, since a busy machine
lengthens the others. A screen shows a frame every 16.7 ms.
"""

import json
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from harness import Row, Target, parse, parser, report, seconds
from shop import made_up_run
from slatewise.service.http.routes.insight import map_json
from slatewise.service.insight.trial import try_strategies
from slatewise.service.serving.items import ItemLog
from slatewise.service.serving.live import Live
from slatewise.service.serving.request import Request
from slatewise.service.serving.users import ANONYMOUS
from slatewise.slates.strategies import named_strategy
from slatewise.training import runs

SIZES = (20_000, 1_300_000)
LIMIT = 20_000
STRATEGIES = ("greedy", "thompson", "in-slate-thompson")
MINIATURE = {"SIZES": (500, 2_000), "LIMIT": 1_000}
FRAMES = 90
ZOOM = """
async (frames) => {
  const { MapCanvas } = await import('/page/canvas.js');
  const [draw, times] = [MapCanvas.prototype.draw, []];
  MapCanvas.prototype.draw = function timed() {
    const begun = performance.now();
    draw.call(this);
    times.push(performance.now() - begun);
  };
  const canvas = document.querySelector('#panel-map canvas');
  const box = canvas.getBoundingClientRect();
  for (let frame = 0; frame < frames; frame += 1) {
    canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: frame % 60 < 30 ? -8 : 8,
      clientX: box.x + box.width / 2, clientY: box.y + box.height / 2, cancelable: true }));
    await new Promise(requestAnimationFrame);
  }
  return times.sort((a, b) => a - b)[Math.floor(times.length / 10)];
}
"""


def main() -> None:
    """Measure two sizes of catalogue."""
    arguments = parser(__doc__)
    arguments.add_argument("--browser", action="store_true", help="draw in Chromium too")
    options = parse(arguments, globals())
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for items in SIZES:
            rows.append(_measure(Path(folder) / str(items), items, browser=options.browser))
    large = rows[-1]
    targets = [
        Target("seconds for the first map", large["first_s"], 5.0),
        Target("seconds for a later map", large["again_s"], 2.0),
        Target("megabytes of an answer", large["answer_mb"], 2.0),
    ]
    if options.browser:
        targets.append(Target("milliseconds to draw", large["draw_ms"], 33.0))
    columns = {
        "items": "{:,}",
        "floor_s": "{:.3f}",
        "first_s": "{:.2f}",
        "again_s": "{:.2f}",
        "answer_mb": "{:.2f}",
        "try_ms": "{:.0f}",
        "draw_ms": "{:.1f}",
    }
    report(options, "Map and trials of the page", columns, rows, targets)


def _measure(run: Path, items: int, *, browser: bool) -> Row:
    made_up_run(items, run)
    live = Live.of_run("main", "1", runs.load(run), run, ItemLog())
    live.table.set_available(np.arange(items), True)
    live.catalogue.shown = items
    rows, answers = np.arange(items), list[bytes]()
    first = seconds(lambda: answers.append(map_json(live, LIMIT)))
    request = Request(clicks=("1", "2", "3"), k=8)
    strategies = [named_strategy(name) for name in STRATEGIES]
    lookup = ANONYMOUS.lookup(request.clicks)
    trial = lambda: try_strategies(live, lookup, request, strategies, 1, 1)  # noqa: E731
    trial()  # compiled code is loaded
    return {
        "items": items,
        "floor_s": seconds(lambda: live.table.means_of(rows).sum(), 3),
        "first_s": first,
        "again_s": seconds(lambda: map_json(live, LIMIT), 3),
        "answer_mb": len(answers[0]) / 1e6,
        "try_ms": 1_000 * seconds(trial, 5),
        "draw_ms": _frame(answers[0]) if browser else float("nan"),
    }


def _frame(answer: bytes) -> float:
    """Return milliseconds a frame of the map, in a browser that gets these answers."""
    from playwright.sync_api import Route, sync_playwright  # noqa: PLC0415

    tried = {"clicked": [], "path": [], "spread": [0, 0], "slates": [], "unknown": [], "notes": []}
    answers: dict[str, Any] = {"/v1/token": {"role": "read", "open": True}, "/v1/try": tried}

    def fulfil(route: Route) -> None:
        path = "/" + route.request.url.split("/", 3)[3].split("#")[0]
        if path.startswith("/v1/map"):
            route.fulfill(body=answer, content_type="application/json")
        elif path.startswith("/v1/"):
            route.fulfill(body=json.dumps(answers.get(path, {})), content_type="application/json")
        else:
            name = path.rpartition("/")[2] or "index.html"
            kinds = {"html": "text/html", "css": "text/css", "svg": "image/svg+xml"}
            kind = kinds.get(name.rpartition(".")[2], "text/javascript")
            content = files("slatewise.service.page").joinpath(name).read_bytes()
            route.fulfill(body=content, content_type=kind)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox"]
        )
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        page.route("**/*", fulfil)
        page.goto("http://127.0.0.1:9/#map")
        page.locator("#panel-map .legend .chip").first.wait_for()
        found = page.evaluate(ZOOM, FRAMES)
        browser.close()
    return float(found)


if __name__ == "__main__":
    main()
