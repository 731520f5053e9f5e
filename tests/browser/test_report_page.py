"""The report in a real browser: it draws, sorts, shows what is pointed at, fits a phone, and asks nobody for anything."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from likewise.reports.page import Shared, report_page

from ..reports.made_up import HOSTILE, made_up

PHONE, DESK = 400, 1280
SCORES = ["MAP@R", "R@1", "RP", "mAP", "NMI", "R@2", "R@4", "R@8"]


@dataclass
class Visit:
    """A page, and all that went wrong on it."""

    page: Any
    complaints: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    plain = made_up(folder / "a", num_classes=16)
    hostile = made_up(folder / "b", datasets=("glyphs", HOSTILE[0]), hostile=True, num_classes=8)
    pages = {"plain": folder / "plain.html", "hostile": folder / "hostile.html"}
    for name, results in (("plain", plain), ("hostile", hostile)):
        pages[name].write_text(report_page(Shared.of(results)), encoding="utf-8")
    return pages


@pytest.fixture
def visit(chromium: Any, reports: dict[str, Path]) -> Iterator[Open]:
    """Opens a report from disk; in the end nothing may have gone wrong and nothing been asked for but the file itself."""
    contexts: list[Any] = []
    visits: list[Visit] = []

    def open_report(which: str = "plain", *, width: int = DESK, scheme: str = "light", touch: bool = False) -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch, reduced_motion="reduce"
        )
        contexts.append(context)
        found = Visit(context.new_page())
        visits.append(found)
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.on("request", lambda request: found.requests.append(request.url))
        found.page.goto(reports[which].as_uri())
        return found

    yield open_report
    for found in visits:
        assert found.complaints == []
        assert [url for url in found.requests if not url.startswith("data:")] == [found.page.url.split("#")[0]]
    for context in contexts:
        context.close()


def pixels(locator: Any) -> np.ndarray:
    return np.asarray(Image.open(BytesIO(locator.screenshot())).convert("RGB")).astype(int)


def column(page: Any, number: int) -> list[str]:
    cells = page.locator("table.board").first.locator("tbody").first.locator(f"tr > :nth-child({number})")
    return [str(cell) for cell in cells.evaluate_all("cells => cells.map(cell => cell.dataset.sort)")]


def test_sorting_by_click_and_by_key(visit: Open) -> None:
    page = visit().page
    heads = page.locator("table.board").first.locator("thead button")
    before = [float(value) for value in column(page, 2)]
    assert before == sorted(before, reverse=True)
    heads.nth(1).click()
    assert [float(value) for value in column(page, 2)] == sorted(before)
    assert page.locator("table.board th").nth(1).get_attribute("aria-sort") == "ascending"
    heads.nth(0).focus()
    page.keyboard.press("Enter")
    names = column(page, 1)
    assert names == sorted(names, key=str.lower)
    page.keyboard.press("Enter")
    assert column(page, 1) == names[::-1]


def test_pointing_at_the_map_shows_the_picture(visit: Open) -> None:
    page = visit().page
    canvas, card = page.locator(".stage canvas"), page.locator(".card")
    canvas.scroll_into_view_if_needed()
    assert card.is_hidden()
    at = _an_item(page)
    page.mouse.move(*at)
    card.wait_for(state="visible")
    assert card.locator("b").inner_text() != ""
    assert pixels(card.locator(".thumb")).std() > 10
    page.mouse.move(5, 5)
    card.wait_for(state="hidden")


def test_the_map_by_keyboard_and_by_touch(visit: Open) -> None:
    page = visit(width=PHONE, touch=True).page
    card, canvas = page.locator(".card"), page.locator(".stage canvas")
    canvas.focus()
    page.keyboard.press("ArrowRight")
    card.wait_for(state="visible")
    first = card.inner_text()
    page.keyboard.press("ArrowRight")
    assert card.inner_text() != first
    page.keyboard.press("Escape")
    card.wait_for(state="hidden")
    canvas.scroll_into_view_if_needed()
    page.touchscreen.tap(*_an_item(page))
    card.wait_for(state="visible")


def test_the_map_changes_with_the_method(visit: Open) -> None:
    page = visit().page
    canvas = page.locator(".stage canvas")
    before = pixels(canvas)
    page.locator(".step").nth(1).click()
    page.wait_for_function("document.querySelector('.map-method').selectedIndex === 1")
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    after = pixels(canvas)
    assert (before != after).any(axis=-1).mean() > 0.002
    page.locator(".pictures").check()
    assert (pixels(canvas) != after).any(axis=-1).mean() > 0.02


def test_ranked_lists_show_pictures_with_marks(visit: Open) -> None:
    page = visit().page
    tiles = page.locator(".panel.chosen .list li .thumb")
    assert tiles.count() == 5 * 8
    for number in (0, 17, 39):
        assert pixels(tiles.nth(number)).std() > 10
    assert page.locator(".picks .group").all_inner_texts() == ["typical", "most disputed", "worst"]
    page.locator(".picks button").last.click()
    assert page.locator(".panel").last.is_visible()
    signs = page.locator(".panel.chosen .list li.miss b")
    assert signs.first.inner_text().startswith("✗")
    assert page.locator(".panel.chosen").count() == 1
    page.locator(".panel.chosen li").first.hover()
    page.locator(".tip").wait_for(state="visible")
    assert page.locator(".tip b").inner_text() != ""


@pytest.mark.parametrize("which", ["plain", "hostile"])
def test_nothing_is_cut_at_a_desk(visit: Open, which: str) -> None:
    """At 1,280 pixels no table needs to be scrolled sideways, details open, and the leaderboard shows its scores, time and memory."""
    page = visit(which, width=DESK).page
    page.evaluate("document.querySelectorAll('details').forEach(details => { details.open = true })")
    boxes = page.locator(".scroll:visible").evaluate_all("boxes => boxes.map(box => [box.scrollWidth, box.clientWidth])")
    assert len(boxes) > 5
    assert all(inside <= room for inside, room in [*boxes, page.evaluate("[document.documentElement.scrollWidth, innerWidth]")])
    heads = page.locator("table.board").first.locator("thead th:visible").all_inner_texts()
    assert [name.strip() for name in heads] == ["method", *SCORES, "p", "training", "memory"]
    assert page.locator(".more:visible").count() == 0


@pytest.mark.parametrize(("width", "shown"), [(900, 3 + 2), (PHONE, 0)])
def test_a_narrower_window_has_fewer_scores_until_they_are_asked_for(visit: Open, width: int, shown: int) -> None:
    page = visit(width=width).page
    board = page.locator("table.board").first
    heads, box = board.locator("thead th:visible"), page.locator(".scroll").first
    assert heads.count() == 1 + 2 + shown
    assert box.evaluate("box => box.scrollWidth <= box.clientWidth")
    page.locator(".more input").first.check()
    assert heads.count() == 1 + len(SCORES) + 3


@pytest.mark.parametrize("which", ["plain", "hostile"])
def test_it_fits_a_phone(visit: Open, which: str) -> None:
    page = visit(which, width=PHONE).page
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    page.locator(".more input").first.check()
    table = page.locator(".scroll").first
    table.evaluate("box => { box.scrollLeft = 300 }")
    assert table.evaluate("box => box.scrollLeft") > 0
    head = page.locator("table.board tbody th").first
    assert head.bounding_box()["x"] == pytest.approx(table.bounding_box()["x"], abs=2)  # the method stays in sight


def test_dark_follows_the_system_and_the_button(visit: Open) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(scheme="light").page, visit(scheme="dark").page
    colours = light.evaluate(ground), dark.evaluate(ground)
    assert colours[0] != colours[1]
    dark.locator("#theme").click()
    assert dark.evaluate(ground) == colours[0]
    line = "getComputedStyle(document.querySelector('figure svg [data-method] path[style*=stroke-width]')).stroke"
    assert dark.evaluate(line) == light.evaluate(line)
    dark.locator("#theme").click()
    assert dark.evaluate(line) != light.evaluate(line)


def test_a_method_stands_out_in_the_charts(visit: Open) -> None:
    page = visit().page
    page.locator(".key button").nth(1).click()
    number = page.locator(".key button").nth(1).get_attribute("data-method")
    assert page.locator(f"svg [data-method='{number}'].focused").count() >= 2
    assert page.locator("svg .focused").count() == page.locator(f"svg [data-method='{number}']").count()


def test_names_do_no_harm_and_data_sets_switch(visit: Open) -> None:
    page = visit("hostile").page
    assert page.evaluate("window.harmed") is None
    assert page.locator("img").count() == 0
    buttons = page.locator(".choice button")
    assert buttons.nth(1).inner_text() == HOSTILE[0]
    buttons.nth(1).click()
    shown = page.locator("section:visible h2").all_inner_texts()
    assert f"Leaderboard: {HOSTILE[0]}" in shown
    assert "Leaderboard: glyphs" not in shown
    page.locator(".classes:visible button").first.hover()
    assert page.evaluate("window.harmed") is None


def _an_item(page: Any) -> tuple[float, float]:
    """Where the first item of the map is on the screen, after the page's own rule for places."""
    found = page.evaluate(
        """() => {
            const items = JSON.parse(document.getElementById("data").textContent).items["0"];
            const canvas = document.querySelector(".stage canvas"), box = canvas.getBoundingClientRect();
            const [x, y] = items.places[document.querySelector(".map-method").value];
            const scale = (Math.min(box.width, box.height) - 52) / 1000;
            return [box.left + box.width / 2 + (x - 500) * scale, box.top + box.height / 2 + (y - 500) * scale];
        }"""
    )
    return float(found[0]), float(found[1])
