"""The report in a real browser: nothing is fetched, nothing complains, everything is drawn."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from slatewise.experiments.store import StudyResult
from slatewise.report import build_report
from slatewise.report.contents import Report, StudyEntry
from slatewise.report.figures import Bar, intervals
from slatewise.report.page import html_page
from slatewise.report.section import Figure, Section

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DRAWN = """
() => [...document.querySelectorAll('.plot')].map((place) => {
  const drawing = place.querySelector('svg.main-svg');
  const box = drawing ? drawing.getBoundingClientRect() : { width: 0, height: 0 };
  const marks = place.querySelectorAll('.point, .heatmaplayer image, .js-line').length;
  return [box.width, box.height, marks, place.clientWidth];
})
"""


class Opened(NamedTuple):
    page: "Page"
    complaints: list[str]
    asked: list[str]


def opened(browser: "Browser", file: Path, width: int) -> Opened:
    """Open the report; return the page, what it complained of and what it asked for."""
    page = browser.new_page(viewport={"width": width, "height": 800})
    page.set_default_timeout(120_000)  # a busy machine is not a failure
    complaints: list[str] = []
    asked: list[str] = []
    page.on("console", lambda said: complaints.append(f"{said.type}: {said.text}"))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(file.as_uri())
    page.wait_for_function(  # a figure has several drawings; the colours come last
        "() => [...document.querySelectorAll('.plot')].every((plot) =>"
        " plot.querySelector('svg.main-svg') && plot.layout.modebar?.color)"
    )
    return Opened(page, complaints, asked)


@pytest.fixture(scope="module")
def report(studies: Path) -> Path:
    return build_report(studies)


@pytest.fixture(scope="module")
def desk(browser: "Browser", report: Path) -> Iterator[Opened]:
    yield (shown := opened(browser, report, 1200))
    shown.page.close()


@pytest.fixture(scope="module")
def phone(browser: "Browser", report: Path) -> Iterator[Opened]:
    yield (shown := opened(browser, report, 375))
    shown.page.close()


@pytest.fixture(params=["desk", "phone"])
def either(request: pytest.FixtureRequest) -> Opened:
    shown: Opened = request.getfixturevalue(request.param)
    return shown


def test_every_figure_is_drawn_and_nothing_is_fetched(either: Opened, report: Path) -> None:
    page, complaints, asked = either
    assert not complaints
    assert asked == [report.as_uri()]
    drawn = page.evaluate(DRAWN)
    assert len(drawn) == 7
    for across, down, marks, room in drawn:
        assert 200 < across <= room + 1
        assert down > 100
        assert marks > 0
    width = page.evaluate("window.innerWidth")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_titles_of_axes_stay_inside_their_figures(either: Opened) -> None:
    outside = either.page.evaluate(
        """() => [...document.querySelectorAll('.plot')].flatMap((plot) => {
          const room = plot.getBoundingClientRect();
          return [...plot.querySelectorAll('.xtitle, .ytitle')].filter((title) => {
            const box = title.getBoundingClientRect();
            return box.left < room.left - 1 || box.right > room.right + 1;
          }).map((title) => title.textContent);
        })"""
    )
    assert not outside


def test_names_leave_half_of_a_figure_on_a_phone_and_do_not_meet(phone: Opened) -> None:
    """Names of arms are as long as 'slate-gru-hier-in-slate-thompson, last 3 days'."""
    shown = phone.page.evaluate(
        """() => [...document.querySelectorAll('.plot')].map((plot) => {
          const boxes = (kind) => [...plot.querySelectorAll(kind)].map((tick) => {
            const { left, right, top, bottom } = tick.getBoundingClientRect();
            return { left, right, top, bottom };
          });
          const [names, ticks] = [boxes('.ytick text'), boxes('.xtick text')];
          return { width: plot.clientWidth, names, ticks };
        })"""
    )
    for figure in shown:
        names = sorted(figure["names"], key=lambda box: float(box["top"]))
        assert all(box["right"] - box["left"] < figure["width"] / 2 for box in names)
        assert all(a["bottom"] <= b["top"] + 1 for a, b in pairwise(names))
        ticks = sorted(figure["ticks"], key=lambda box: float(box["left"]))
        assert all(a["right"] < b["left"] for a, b in pairwise(ticks))


def test_tables_scroll_inside_themselves_on_a_phone(phone: Opened) -> None:
    page = phone.page
    page.evaluate("document.querySelectorAll('details').forEach((part) => { part.open = true; })")
    sizes = page.evaluate(
        "[...document.querySelectorAll('.scroll')].map((e) => [e.clientWidth, e.scrollWidth])"
    )
    assert all(shown <= 375 for shown, _ in sizes)
    assert any(shown < whole for shown, whole in sizes)
    assert page.evaluate("document.documentElement.scrollWidth") <= 375


def test_the_page_and_its_figures_are_dark_where_that_is_wanted(
    browser: "Browser", report: Path
) -> None:
    context = browser.new_context(color_scheme="dark")
    page = context.new_page()
    page.goto(report.as_uri())
    page.wait_for_function(
        "() => [...document.querySelectorAll('.plot')].every("
        "(plot) => plot.layout && plot.layout.paper_bgcolor === '#15181d')",
        timeout=120_000,
    )
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(21, 24, 29)"
    page.wait_for_function(  # what is rare is near the colour of the paper
        "() => [...document.querySelectorAll('.plot')].flatMap((plot) => plot.data)"
        ".filter((trace) => trace.type === 'heatmap').every((trace) => trace.reversescale === true)"
    )
    context.close()


def test_wide_tables_say_that_they_go_on(phone: Opened) -> None:
    wide = phone.page.evaluate(
        "[...document.querySelectorAll('section > .scroll')].map("
        "(e) => [e.scrollWidth > e.clientWidth + 1, e.classList.contains('wide')])"
    )
    assert any(overflows for overflows, _ in wide)
    assert all(overflows == said for overflows, said in wide)


@pytest.mark.parametrize("width", [1024, 1400])
def test_tables_fit_a_screen(browser: "Browser", report: Path, width: int) -> None:
    page, _, _ = opened(browser, report, width)
    beyond = page.evaluate(
        "[...document.querySelectorAll('section > .scroll')]"
        ".filter((e) => e.scrollWidth > e.clientWidth + 1)"
        ".map((e) => e.querySelector('th:nth-child(2)').textContent)"
    )
    assert beyond == []
    page.close()


def test_hovering_over_a_point_tells_its_number(desk: Opened) -> None:
    page, complaints, _ = desk
    point = page.locator(".plot .scatterlayer .trace").nth(1).locator(".point").first
    point.scroll_into_view_if_needed()
    label = page.locator(".plot .hoverlayer .hovertext").first
    expect = pytest.importorskip("playwright.sync_api").expect
    for last in (False, False, True):  # it may have been drawn anew under the pointer
        page.mouse.move(0, 0)
        box = point.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        try:
            expect(label).to_contain_text("[", timeout=30_000)
            break
        except AssertionError:
            if last:
                raise
    assert not complaints


def test_the_report_prints_with_its_settings(desk: Opened) -> None:
    page, complaints, _ = desk
    printed = page.pdf()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 50_000
    assert page.evaluate("[...document.querySelectorAll('details')].every((part) => part.open)")
    assert not complaints


LONG_NAMES = [f"slate-gru-hier-{arm}, last 3 days" for arm in ("thompson", "in-slate-thompson")]


def test_long_names_are_broken_on_a_phone(
    browser: "Browser", studies: Path, tmp_path: Path
) -> None:
    drawn = Figure("Arms", *intervals([Bar(name, 0.1, 0, 0.2) for name in LONG_NAMES], "x"), "")
    entry = StudyEntry(StudyResult.load(studies / "toy"), Section("Toy", figures=[drawn]))
    file = tmp_path / "page.html"
    file.write_text(html_page(Report([entry], [], [])), encoding="utf-8")
    page, complaints, _ = opened(browser, file, 375)
    names = page.evaluate(
        "[...document.querySelectorAll('.ytick text')].map((name) => [name.textContent,"
        " name.getBoundingClientRect().width, name.querySelectorAll('tspan').length])"
    )
    assert len(names) == 2
    for text, width, lines in names:
        assert text.replace(" ", "") in {name.replace(" ", "") for name in LONG_NAMES}
        assert width < 0.5 * 375
        assert lines == 3
    assert not complaints
    page.close()
