"""Photograph what the pages show: `page.png` and `now.png` of a shop, and `report.png`.

    python examples/live_marketplace.py --keep demo/shop/service
    python docs/images/photograph.py page demo/shop/service
    python docs/images/photograph.py report demo/studies/report.html

Needs Chromium and playwright, as the tests of the page do.
"""

import argparse
import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType

from playwright.sync_api import Page, sync_playwright

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"
SLATES = 200
"""Slates asked for before the picture of Now."""
CLICKS = 3
"""Items that the user of the picture has clicked."""


def photograph_page(page: Page, service: Path) -> None:
    """Serve a kept shop; keep what Now shows, and Try of an invented user, with one reason."""
    example = _example()
    with example.server(service, EXAMPLES / "service.toml", 1) as client:
        page.goto(f"{client.base_url}/#now")
        page.locator(".js-plotly-plot").first.wait_for()
        for number in range(SLATES):
            client.post("/v1/recommend", json={"user_id": f"reader-{number}", "k": 10})
        page.wait_for_timeout(7_000)  # requests are counted every five seconds
        page.screenshot(path=HERE / "now.png", clip={"x": 0, "y": 0, "width": 1280, "height": 760})
        page.goto(f"{client.base_url}/#try")
        picks = page.locator('[data-strategy="in-slate-thompson"] .pick')
        for number in range(CLICKS):
            picks.nth(number).click()
            page.locator(".chips li").nth(number).wait_for()
        page.wait_for_timeout(1_500)  # what is new fades
        page.locator('[data-strategy="thompson"] .pick').nth(1).hover()
        page.screenshot(path=HERE / "page.png")


def photograph_report(page: Page, report: Path) -> None:
    """Keep the first screen of a report."""
    page.goto(report.resolve().as_uri())
    page.screenshot(path=HERE / "report.png")


def _example() -> ModuleType:
    path = EXAMPLES / "live_marketplace.py"
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        sys.exit(f"{path} is not there.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def main() -> None:
    """Take the picture that is asked for."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("page", "report"))
    parser.add_argument("of", type=Path, help="directory of the service, or file of the report")
    options = parser.parse_args()
    names = ("chromium", "chromium-browser", "google-chrome")
    found = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox"])
        size, take = {
            "page": ((1280, 975), photograph_page),
            "report": ((1100, 780), photograph_report),
        }[options.what]
        page = browser.new_page(viewport={"width": size[0], "height": size[1]})
        page.set_default_timeout(300_000)  # a busy machine is not a failure
        take(page, options.of)
        browser.close()


if __name__ == "__main__":
    main()
