"""The page in a real Chromium: drawn, quiet, usable by keyboard and ear, and kept by its roles."""

import re
from typing import TYPE_CHECKING

import httpx
import pytest

from tests.service.http.conftest import TOKENS, bearer
from tests.service.page.conftest import NASTY, Visit, Visitor

if TYPE_CHECKING:
    from playwright.sync_api import Route

axe_module = pytest.importorskip("axe_playwright_python.sync_playwright")
expect = pytest.importorskip("playwright.sync_api").expect
expect.set_options(timeout=60_000)
pytestmark = pytest.mark.xdist_group("page")

DRAWN = {
    "Now": "#panel-now .figure svg.main-svg .scatterlayer .point",
    "Try": "#panel-try .pick",
    "Map": "#panel-map .legend .chip",
    "Learn": "#panel-learn .figure svg.main-svg .scatterlayer .point",
    "Operate": "#panel-operate tbody tr",
}
COVERED = """
() => {
  const canvas = document.querySelector('#panel-map canvas');
  const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
  return new Set(new Uint32Array(data.buffer)).size > 20;
}
"""


def unquiet(visitor: Visitor) -> list[str]:
    """Return what the browser complained of, the refusal of a missing token apart."""
    return [said for said in visitor.complaints if "401 (Unauthorized)" not in said]


def require_accessible(visitor: Visitor) -> None:
    found = axe_module.Axe().run(visitor.page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    assert not serious, [
        (one["id"], one["help"], [node["html"] for node in one["nodes"]][:3]) for one in serious
    ]


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), (390, "dark")], ids=["desk-light", "phone-dark"]
)
def test_every_tab_is_drawn_quietly_and_accessibly(
    visit: Visit, shop: str, width: int, scheme: str
) -> None:
    visitor = visit(width=width, scheme=scheme)
    for tab, drawn in DRAWN.items():
        visitor.show(tab)
        visitor.page.locator(drawn).first.wait_for()
        require_accessible(visitor)
        assert visitor.page.evaluate("document.documentElement.scrollWidth") <= width, tab
        visitor.photograph(f"{tab.lower()}-{scheme}-{width}")
    visitor.show("Map")
    visitor.page.wait_for_function(COVERED)
    expect(visitor.page.get_by_text("All 19 items on offer")).to_be_visible()
    expect(visitor.page.locator("#panel-map").get_by_text(NASTY).first).to_be_visible()
    assert not unquiet(visitor)
    assert all(url.startswith(shop) for url in visitor.asked)
    assert not any(token in url for url in visitor.asked for token in TOKENS.values())


def test_figures_tell_what_the_service_learned(visit: Visit) -> None:
    visitor = visit()
    visitor.show("Learn")
    learn = visitor.page.locator("#panel-learn")
    learn.locator(".figure svg.main-svg .scatterlayer .point").first.wait_for()
    figures = learn.locator(".figure:not([hidden])")
    nights = learn.get_by_role("table", name="Nights of model main").locator("tbody tr")
    expect(figures).to_have_count(3)
    expect(nights).to_have_count(2)
    visitor.show("Now")
    rows = visitor.page.get_by_role("table", name="Arms of the experiment").locator("tbody tr")
    expect(rows).to_have_count(2)
    expect(rows.nth(1)).to_contain_text("in-slate-thompson")


def test_a_loaded_log_is_what_a_new_service_has_to_show(visit: Visit) -> None:
    visitor = visit(None)

    def without_answers(route: "Route") -> None:
        answer = route.fetch()
        found = answer.json()
        for arm in found["arms"].values():
            arm["seen"] = 0
        route.fulfill(response=answer, json=found)

    visitor.page.route("**/v1/experiment", without_answers)
    visitor.enter(TOKENS["read"])
    card = visitor.page.locator("#panel-now .card").filter(has_text="The loaded log")
    card.locator(".figure svg.main-svg .scatterlayer .point").first.wait_for()
    expect(card).to_contain_text("slates from")
    expect(card).to_contain_text("of them with a click")
    require_accessible(visitor)
    card.get_by_role("button", name="Try the model").click()
    visitor.page.locator("#panel-try .pick").first.wait_for()
    assert not unquiet(visitor)


def test_a_click_in_try_moves_the_user_and_her_slates(visit: Visit) -> None:
    visitor = visit("read")
    visitor.show("Try")
    greedy = visitor.page.locator('[data-strategy="greedy"] .pick')
    greedy.first.wait_for()
    shown = greedy.all_inner_texts()
    first = greedy.first.get_attribute("data-item")
    visitor.page.keyboard.press("Tab")  # the tip follows a keyboard's focus, not a pointer's
    greedy.first.focus()
    tip = visitor.page.get_by_role("tooltip")
    expect(tip).to_contain_text("What each term adds to the utility")
    expect(tip).to_contain_text("distance")
    visitor.page.keyboard.press("Enter")
    visitor.page.get_by_role("button", name=f"Take back the click on {first}").wait_for()
    after = greedy.all_inner_texts()
    assert after != shown
    # The keyboard goes on where it was, with the item that took the place of the clicked one.
    focused = visitor.page.evaluate("document.activeElement.dataset.item")
    assert focused == greedy.first.get_attribute("data-item") != first
    expect(tip).to_contain_text(focused)
    assert all(first not in text.split() for text in after)
    visitor.page.get_by_role("button", name="Draw again").click()
    visitor.page.get_by_role("button", name=f"Take back the click on {first}").click()
    visitor.page.get_by_text("A new user").wait_for()
    focused = "document.activeElement.getAttribute('aria-label')"
    assert visitor.page.evaluate(focused) == "Items that the user clicked"
    assert greedy.all_inner_texts() == shown  # nothing about greedy is random
    assert not unquiet(visitor)


def test_a_wrong_token_is_refused_and_forgotten(visit: Visit) -> None:
    visitor = visit(None)
    visitor.enter("wrong-token-0123456789")
    visitor.page.get_by_text("The service does not know this token.").wait_for()
    assert visitor.page.evaluate("sessionStorage.length") == 0
    expect(visitor.page.get_by_role("tab")).to_have_count(0)
    require_accessible(visitor)
    visitor.enter(TOKENS["read"])
    visitor.page.get_by_role("tab", name="Now").wait_for()
    visitor.page.reload()
    visitor.page.get_by_role("tab", name="Now").wait_for()  # entered once
    visitor.page.get_by_role("button", name="Sign out").click()
    visitor.page.get_by_label("Token").wait_for()


@pytest.mark.parametrize(
    ("role", "hides", "erases"),
    [("read", False, False), ("write", True, False), ("admin", True, True)],
)
def test_a_role_sees_what_it_may(visit: Visit, role: str, hides: bool, erases: bool) -> None:
    visitor = visit(role)
    visitor.show("Operate")
    operate = visitor.page.locator("#panel-operate")
    operate.get_by_role("table", name="Models").wait_for()
    operate.get_by_role("table", name="Items").wait_for()
    for changes in ("Hide chairs-0", "Remove chairs-0", "Offer"):
        expect(operate.get_by_role("button", name=changes)).to_have_count(int(hides))
    refused = operate.get_by_text("needs a token with role admin")
    expect(refused).to_have_count(0 if erases else 3)
    expect(operate.get_by_label("Person")).to_have_count(int(erases))
    expect(operate.get_by_role("button", name="Roll back main")).to_have_count(int(erases))


def test_an_operator_hides_items_weighs_arms_erases_and_rolls_back(visit: Visit) -> None:
    visitor = visit()
    visitor.show("Operate")
    page = visitor.page
    page.get_by_label("Search").fill("chairs-5")
    page.get_by_role("button", name="Hide chairs-5").focus()
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Show chairs-5").wait_for()
    focused = "document.activeElement.getAttribute('aria-label')"
    assert page.evaluate(focused) == "Show chairs-5"
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Hide chairs-5").wait_for()
    page.get_by_role("button", name="Stop explore").click()
    page.get_by_role("button", name="Start explore").wait_for()
    expect(page.get_by_text("The arms were changed here")).to_be_visible()
    page.get_by_role("button", name="Return to the settings").click()
    page.get_by_role("button", name="Stop explore").wait_for()
    page.get_by_label("Person").fill("user 3")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Erase user 3").click()
    page.get_by_role("dialog").get_by_role("button", name="Erase").click()
    page.get_by_text("user 3 is erased").first.wait_for()
    page.get_by_role("button", name="Roll back main").click()
    require_accessible(visitor)
    page.get_by_role("dialog").get_by_role("button", name="Roll back").click()
    page.get_by_text("rolled back from 2").wait_for()
    assert not unquiet(visitor)


@pytest.mark.parametrize("weight", ["-1", ""])
def test_a_weight_that_is_none_is_not_sent(weight: str, visit: Visit) -> None:
    visitor = visit()
    visitor.show("Operate")
    page = visitor.page
    page.get_by_label("Weight of explore").fill(weight)
    page.get_by_role("button", name="Set weights").click()
    field = page.get_by_label("Weight of explore")
    assert field.evaluate("(field) => document.activeElement === field")
    assert not any(url.endswith("/v1/arms") for url in visitor.asked)
    expect(page.get_by_text("The arms are those of the settings")).to_be_visible()


def test_an_operator_adds_and_removes_an_item(visit: Visit, shop: str) -> None:
    visitor = visit("write")
    visitor.show("Operate")
    page, path = visitor.page, f"{shop}/v1/items/lamp%20%2F%201"

    def ask() -> httpx.Response:
        return httpx.get(path, headers=bearer("read"), timeout=60)

    page.get_by_role("table", name="Items").wait_for()
    page.get_by_label("Add or change").fill("lamp / 1")
    page.get_by_label("in group").fill("lamps")
    page.get_by_label("features").fill("price 3")
    page.keyboard.press("Enter")
    page.get_by_text("Features are JSON").wait_for()
    page.get_by_label("features").fill('{"price": 3}')
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Hide lamp / 1").wait_for()
    found = ask().json()
    assert (found["group"], found["state"]) == ("lamps", "shown")
    assert found["features"] == {"price": 3}
    page.get_by_role("button", name="Remove lamp / 1").click()
    require_accessible(visitor)
    page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    assert ask().status_code == httpx.codes.OK
    page.get_by_role("button", name="Remove lamp / 1").click()
    page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    page.get_by_text("No item has that in its id or group.").wait_for()
    assert ask().status_code == httpx.codes.NOT_FOUND
    assert not unquiet(visitor)


def test_a_table_that_is_drawn_again_keeps_the_keyboard(visit: Visit) -> None:
    visitor = visit("read")
    redrawn = """
    async () => {
      const { fill, h, table } = await import("/page/dom.js");
      const [place, columns] = [h("div"), [{ name: "arm", of: (arm) => arm }]];
      document.body.append(place);
      for (const arms of [["a"], ["a", "b"]]) {
        fill(place, table("Arms drawn twice", columns, arms));
        if (arms.length === 1) place.querySelector(".scroll").focus();
      }
      return [document.activeElement.getAttribute("aria-label"), document.activeElement.innerText];
    }
    """
    label, words = visitor.page.evaluate(redrawn)
    assert label == "Arms drawn twice"
    assert "b" in words.split()


def test_a_finger_reaches_reasons_and_every_column(visit: Visit) -> None:
    visitor = visit(width=390, has_touch=True, is_mobile=True)
    page = visitor.page
    page.get_by_role("tab", name="Try").tap()
    item = page.locator('[data-strategy="greedy"] .item').first
    item.get_by_role("button", name="Why").tap()
    expect(page.get_by_role("tooltip")).to_contain_text("What each term adds to the utility")
    expect(page.get_by_role("button", name="Take back")).to_have_count(0)  # no click of the user
    page.get_by_role("tab", name="Operate").tap()
    items = page.get_by_role("region", name="Items", exact=True)
    items.locator("tbody tr").first.wait_for()
    expect(items).to_have_class(re.compile(r"\bwide\b"))
    arms = page.get_by_role("region", name="Arms", exact=True).locator("tr")
    expect(arms).to_have_count(3)  # it has a request of its own
    page.set_viewport_size({"width": 1280, "height": 900})
    page.wait_for_function(  # a function: to evaluate a text is against the page's policy
        "() => !document.querySelector('#panel-operate .scroll').matches('.wide')"
    )
    row = items.locator("tbody tr").first.bounding_box()
    assert row is not None
    assert row["height"] < 50


def test_tabs_are_reached_by_keyboard(visit: Visit) -> None:
    visitor = visit()
    visitor.page.get_by_role("tab", name="Now").focus()
    for tab in ("Try", "Map", "Learn", "Operate", "Now"):
        visitor.page.keyboard.press("ArrowRight")
        visitor.page.locator(f"#panel-{tab.lower()}").wait_for(state="visible")
        assert visitor.page.evaluate("document.activeElement.textContent") == tab


def test_without_plotly_the_page_says_so_and_shows_numbers(visit: Visit) -> None:
    visitor = visit(None)
    visitor.page.route("**/plotly.min.js", lambda route: route.fulfill(status=404))
    visitor.enter(TOKENS["read"])
    visitor.show("Learn")
    learn = visitor.page.locator("#panel-learn")
    learn.get_by_text("Plotly is not installed beside the service.").first.wait_for()
    expect(learn.get_by_role("table", name="Posterior scale of items")).to_be_visible()


def test_the_api_is_shown_by_our_own_page(visit: Visit, shop: str) -> None:
    visitor = visit("read", "/docs")
    operations = visitor.page.locator("details.operation")
    expect(operations).to_have_count(25)
    operations.first.locator("summary").click()
    expect(visitor.page.get_by_role("table", name="Body of POST /v1/recommend")).to_be_visible()
    require_accessible(visitor)
    assert not unquiet(visitor)
    assert all(url.startswith(shop) for url in visitor.asked)


def test_the_loaded_log_says_how_much_of_it_is_shown(visit: Visit) -> None:
    visitor = visit(None)
    start, day = "2026-03-{:02}T00:00:00Z", {"source": "web", "slates": 4, "clicked": 1}
    answers: dict[str, object] = {
        "experiment": {"arms": {}, "reference": "main", "since": start.format(1)},
        "experiment/history": {"periods": [], "few_views": 3, "seconds": 60},
        "loaded": {"days": [day | {"start": start.format(number)} for number in (1, 2, 2, 5)]},
    }

    def answer(route: "Route") -> None:
        route.fulfill(json=answers[route.request.url.rpartition("/v1/")[2]])

    for path in answers:
        visitor.page.route(f"**/v1/{path}", answer)
    visitor.enter(TOKENS["read"])
    words = visitor.page.get_by_text("16 slates from 1 Mar 2026 to 5 Mar 2026")
    words.wait_for()
    assert "the newest 3 days of the log, 25.0 % of them with a click." in words.inner_text()


def test_marks_and_labels_at_the_end_of_an_axis_are_whole(visit: Visit) -> None:
    visitor = visit()
    visitor.show("Learn")
    plot = visitor.page.locator("#panel-learn .js-plotly-plot").first
    plot.locator(".point").first.wait_for()
    shown, ends = plot.evaluate(
        "(plot) => [plot.data[1].x.concat(plot.data[1].y),"
        " ['xaxis', 'yaxis'].map((axis) => plot.layout[axis].range[1])]"
    )
    assert all(end > max(shown) for end in ends)
    assert plot.evaluate("(plot) => plot.data[1].cliponaxis") is False


def test_a_tab_names_itself_and_its_dates_are_one_line(visit: Visit) -> None:
    visitor = visit(width=390)
    for tab in DRAWN:
        visitor.show(tab)
        assert visitor.page.title() == f"{tab} – slatewise"
    since = visitor.page.get_by_role("region", name="Models", exact=True).locator("td").nth(1)
    assert since.evaluate("(cell) => getComputedStyle(cell).whiteSpace") == "nowrap"


def test_signing_in_says_which_part_is_the_token(visit: Visit) -> None:
    visitor = visit(None)
    form = visitor.page.locator("#sign-in")
    form.wait_for()
    assert "it is what follows the colon" in form.inner_text()
    require_accessible(visitor)


@pytest.mark.parametrize("counts", [[1, 20, 300, 3], [1, 19, 2, 3]])
def test_a_reliability_curve_leaves_out_points_of_few_slates(
    counts: list[int], visit: Visit
) -> None:
    visitor = visit(None)
    bins = [
        {"predicted": predicted, "observed": 0.3, "count": count}
        for predicted, count in zip((0.2, 0.3, 0.4, 0.7), counts, strict=True)
    ]

    def with_bins(route: "Route") -> None:
        answer = route.fetch()
        found = answer.json()
        for night in found["nights"]["main"]:
            night["scores"]["new"]["reliability"] = bins
        route.fulfill(response=answer, json=found)

    visitor.page.route("**/v1/nights", with_bins)
    visitor.enter(TOKENS["read"])
    visitor.show("Learn")
    card = visitor.page.locator("#panel-learn .card").filter(has_text="Reliability")
    if max(counts) >= 20:
        card.locator(".point").first.wait_for()
        plot = card.locator(".js-plotly-plot")
        assert plot.evaluate("(plot) => plot.data[1].x") == [0.3, 0.4]
    else:
        expect(card).to_contain_text("Too little for a figure yet")
        expect(card.locator(".figure")).to_be_hidden()
    card.locator("summary").click()
    expect(card.locator("tbody tr")).to_have_count(len(bins))


def test_slates_beside_each_other_leave_room_for_groups(visit: Visit) -> None:
    visitor = visit(width=1024)
    visitor.show("Try")
    names = visitor.page.locator("#panel-try .what")
    names.first.wait_for()
    assert min(names.evaluate_all("(all) => all.map((one) => one.clientWidth)")) >= 100
    # Bars are averages over the posterior, which is not what greedy ranks by.
    greedy = visitor.page.locator(".slate").filter(has_text="Greedy")
    expect(greedy).to_contain_text("highest utility")
