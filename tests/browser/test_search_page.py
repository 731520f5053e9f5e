"""The page of `likewise serve` in a real browser: pictures come in, keys work, marks are kept, and nobody else is asked for anything."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from likewise.search.feedback import Feedback
from likewise.search.index import Index

from ..serving.made_index import MadeIndex, as_bytes, made_image, make_index
from ..serving.running import Running

PHONE, DESK = 400, 1280
HOSTILE = "</script><img src=x onerror=window.harmed=1>\"'"
WATCH = """window.violations = [];
document.addEventListener("securitypolicyviolation", event => window.violations.push(event.blockedURI + " " + event.violatedDirective));"""
# A picture as a file in a page's hands.
FILE = """const bytes = Uint8Array.from(atob(given), letter => letter.charCodeAt(0));
const transfer = new DataTransfer();
transfer.items.add(new File([bytes], "photo.png", {type: kind}));"""


@dataclass
class Visit:
    """A page, and all that went wrong on it."""

    page: Any
    tolerated: str = "nothing is"  # a pattern of complaints that a test provokes
    complaints: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)


Open = Callable[..., Visit]


@pytest.fixture(scope="module")
def birds(tmp_path_factory: pytest.TempPathFactory) -> MadeIndex:
    """With a hostile label, and an image without one."""
    made = make_index(tmp_path_factory.mktemp("browser"), calibrated=True)
    folder = made.images.parent
    made_image(0, 90).save(folder / "hostile.png")
    quoted = HOSTILE.replace('"', '""')
    (folder / "more.csv").write_text(f'path,label,place,year\nhostile.png,"{quoted}","{quoted}",1999\n', encoding="utf-8")
    made_image(2, 91).save(folder / "gone.png")
    index = Index.load(made.folder, "cpu")
    index.add([folder / "more.csv", folder / "gone.png"])
    index.close()
    return made


@pytest.fixture(scope="module")
def server(birds: MadeIndex) -> Iterator[Running]:
    running = Running(str(birds.folder), "--upload", "2", "--rate", "0")
    yield running
    running.process.kill()
    running.process.communicate()


@pytest.fixture
def visit(chromium: Any, server: Running) -> Iterator[Open]:
    """In the end nothing may have gone wrong, and nobody else been asked for anything."""
    visits: list[Visit] = []

    def open_page(
        query: str = "", *, width: int = DESK, scheme: str = "light", touch: bool = False, tolerated: str = "nothing is"
    ) -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, has_touch=touch, is_mobile=touch, reduced_motion="reduce"
        )
        found = Visit(context.new_page(), tolerated)
        visits.append(found)

        def allow(route: Any) -> None:
            if route.request.url.startswith(server.address):
                route.continue_()
            else:
                found.elsewhere.append(route.request.url)
                route.abort()

        context.route(lambda url: not url.startswith(("blob:", "data:")), allow)
        found.page.add_init_script(WATCH)
        found.page.on("console", lambda message: found.complaints.append(message.text))
        found.page.on("pageerror", lambda error: found.complaints.append(str(error)))
        found.page.goto(f"{server.address}/{query}")
        found.page.locator(".card").first.wait_for()
        return found

    yield open_page
    for found in visits:
        assert [text for text in found.complaints if not re.search(found.tolerated, text)] == []
        assert found.elsewhere == []
        assert found.page.evaluate("window.violations") == []
        found.page.context.close()


def give(page: Any, how: str, data: bytes, kind: str = "image/png") -> None:
    """Drops or pastes a file."""
    made = {
        "drop": "document.body.dispatchEvent(new DragEvent('drop', {bubbles: true, cancelable: true, dataTransfer: transfer}))",
        "paste": "document.dispatchEvent(new ClipboardEvent('paste', {bubbles: true, clipboardData: transfer}))",
    }
    page.evaluate(f"([given, kind]) => {{ {FILE} {made[how]} }}", [base64.b64encode(data).decode(), kind])


def says(page: Any, words: str) -> None:
    page.wait_for_function("words => document.getElementById('status').textContent.includes(words)", arg=words)


def labels(page: Any) -> list[str]:
    return [str(text) for text in page.locator(".card .caption b").all_inner_texts()]


def focused_id(page: Any) -> int:
    return int(page.evaluate("document.activeElement.closest('.card').dataset.id"))


@pytest.mark.parametrize("how", ["drop", "paste", "choose"])
def test_a_picture_comes_in(visit: Open, birds: MadeIndex, how: str) -> None:
    page = visit().page
    assert page.locator("#status").inner_text() == "Or start from one of these"
    if how == "choose":
        page.set_input_files("#file", files=[{"name": "a.png", "mimeType": "image/png", "buffer": birds.paths[7].read_bytes()}])
    else:
        give(page, how, birds.paths[7].read_bytes())
    says(page, "images most like your picture")
    assert labels(page)[0] == "jade"
    assert page.locator(".card .similarity").first.inner_text() == "1.00"
    assert page.locator("#query img").evaluate("image => image.complete && image.naturalWidth") == 80
    assert page.locator("#verdict").inner_text() != ""
    assert page.locator("#keeping").is_visible()  # says that a mark keeps the picture
    assert "picture=" in page.url


def test_what_is_no_picture_is_told(visit: Open) -> None:
    page = visit(tolerated="422").page
    give(page, "drop", b"plain text", "text/plain")
    says(page, "photo.png is not a picture.")
    give(page, "drop", b"not really", "image/png")
    says(page, "cannot be searched with: not an image")
    give(page, "drop", bytes(2_500_000), "image/png")
    says(page, "2.5 MB, more than the 2 MB that are taken")
    assert page.locator("#status.fault").count() == 1


def test_by_keys_alone(visit: Open, birds: MadeIndex) -> None:
    page = visit("?id=1").page
    says(page, "most like crimson")
    page.locator(".pick").first.focus()
    first = focused_id(page)
    page.keyboard.press("ArrowRight")
    second = focused_id(page)
    assert second != first
    ring = page.evaluate("(() => { const s = getComputedStyle(document.activeElement); return [s.outlineStyle, s.outlineWidth] })()")
    assert ring == ["solid", "3px"]
    page.keyboard.press("ArrowDown")
    below = focused_id(page)
    page.keyboard.press("ArrowUp")
    assert focused_id(page) == second != below
    page.keyboard.press("End")
    page.keyboard.press("Home")
    assert focused_id(page) == first
    page.keyboard.press("ArrowRight")
    page.keyboard.press("y")
    says(page, "Marked as right")
    page.keyboard.press("n")
    says(page, "Marked as wrong")
    assert [pair.is_same for pair in Feedback(birds.folder).pairs()].count(False) == 1
    page.keyboard.press("n")
    says(page, "taken back")
    assert Feedback(birds.folder).pairs() == []
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/?id={second}")
    page.wait_for_function("() => document.activeElement.closest('.card')")  # goes on from the first result
    page.go_back()
    page.wait_for_url("**/?id=1")
    says(page, "most like crimson")


def test_only_one_stop_for_tab_and_a_way_past_all(visit: Open) -> None:
    page = visit("?id=1").page
    assert page.locator(".pick[tabindex='0']").count() == 1
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "pick"


def test_from_result_to_result_and_back(visit: Open) -> None:
    page = visit().page
    page.locator(".card").nth(1).locator(".pick").click()
    page.wait_for_function("() => location.search.startsWith('?id=')")
    says(page, "images most like")
    first = page.url
    shown = labels(page)
    page.locator(".card").nth(4).locator(".pick").click()
    page.wait_for_function("first => location.href !== first", arg=first)
    page.go_back()
    page.wait_for_function("first => location.href === first", arg=first)
    says(page, "images most like")
    names = "names => String([...document.querySelectorAll('.caption b')].map(b => b.textContent)) === names"
    page.wait_for_function(names, arg=",".join(shown))
    page.go_back()
    says(page, "Or start from one of these")
    assert page.locator("#query").is_hidden()
    page.go_forward()
    says(page, "images most like")


@pytest.mark.parametrize("ends", ["throw new DOMException('', 'AbortError')", "return {items: []}"], ids=["cut off", "whole"])
def test_an_answer_that_is_not_waited_for_any_more_is_none(ends: str, visit: Open) -> None:
    """While its body comes, another page was gone to: it is neither shown nor told as a fault."""
    told = visit().page.evaluate(
        f"""async () => {{
            const asking = new AbortController();
            const fetched = window.fetch;
            window.fetch = async () => ({{ ok: true, status: 200, json: async () => {{ asking.abort(); {ends}; }} }});
            return ask("api/items", {{ signal: asking.signal }}).then(() => "an answer", (fault) => fault.name)
                .finally(() => {{ window.fetch = fetched; }});
        }}"""
    )
    assert told == "AbortError"


def test_an_uploaded_picture_survives_back_and_reload(visit: Open, birds: MadeIndex) -> None:
    page = visit().page
    give(page, "drop", birds.paths[8].read_bytes())
    says(page, "most like your picture")
    page.locator(".card").nth(2).locator(".pick").click()
    page.wait_for_function("() => location.search.startsWith('?id=')")
    page.go_back()
    says(page, "most like your picture")
    page.reload()
    says(page, "most like your picture")
    page.wait_for_function("() => document.querySelector('#query img').naturalWidth > 0")


def test_conditions(visit: Open) -> None:
    page = visit("?id=1").page
    page.locator("#filters summary").click()
    page.locator("#column").select_option("label")
    assert "jade" in page.locator("#values option").evaluate_all("options => options.map(option => option.value)")
    page.locator("#value").fill("jade")
    page.keyboard.press("Enter")
    page.wait_for_function("() => [...document.querySelectorAll('.caption b')].every(b => b.textContent === 'jade')")
    assert labels(page) == ["jade"] * 6
    assert "where=label%3Djade" in page.url
    page.locator("#column").select_option("year")
    page.locator("#operator").select_option(">=")
    page.locator("#value").fill("2004")
    page.locator(".condition button").click()
    page.wait_for_function("() => document.querySelectorAll('.card').length === 2")
    page.get_by_role("button", name="Remove: label=jade").click()
    page.wait_for_function("() => document.querySelectorAll('.card').length > 2")
    page.go_back()
    page.wait_for_function("() => document.querySelectorAll('.card').length === 2")


def test_why(visit: Open) -> None:
    page = visit("?id=1").page
    page.locator(".ask-why").nth(1).click()
    dialog = page.locator("#why")
    page.locator("#why-tools").wait_for()
    assert dialog.locator("canvas").evaluate_all("all => all.every(canvas => !canvas.hidden && canvas.width > 1)")
    assert dialog.locator(".region").count() >= 2
    assert "place" in page.locator("#details").inner_text()
    page.locator("#heat").uncheck()
    assert dialog.locator("canvas").first.is_hidden()
    page.keyboard.press("Escape")
    dialog.wait_for(state="hidden")
    page.wait_for_function("() => document.activeElement.className === 'pick'")
    page.keyboard.press("w")
    dialog.wait_for()
    page.go_back()
    dialog.wait_for(state="hidden")
    assert page.url.endswith("?id=1")
    page.locator(".ask-why").first.click()
    page.locator("#why-tools").wait_for()
    page.locator(".close").click()
    dialog.wait_for(state="hidden")


def test_marks_are_kept_with_the_picture(visit: Open, birds: MadeIndex) -> None:
    page = visit().page
    data = as_bytes(made_image(1, 88))
    give(page, "paste", data)
    says(page, "most like your picture")
    page.locator(".mark.right").first.click()
    says(page, "1 pair kept to train on")
    page.locator(".mark.wrong").nth(2).click()
    says(page, "2 pairs kept to train on")
    page.reload()
    says(page, "most like your picture")
    pressed = page.locator(".mark").evaluate_all("all => all.map(mark => mark.getAttribute('aria-pressed'))")
    assert pressed[:6] == ["true", "false", "false", "false", "false", "true"]
    pairs = Feedback(birds.folder).pairs()
    assert [pair.is_same for pair in pairs] == [True, False]
    assert Path(pairs[0].query.path).read_bytes() == data


def test_more_results(visit: Open) -> None:
    page = visit("?id=1").page
    assert page.locator(".card").count() == 24
    page.locator("#more").click()
    page.wait_for_function("() => document.querySelectorAll('.card').length === 25")
    assert page.locator("#more").is_hidden()


@pytest.mark.parametrize("query", ["", "?id=1", "?id=1&why=2"])
def test_it_fits_a_phone(visit: Open, query: str) -> None:
    page = visit(query, width=PHONE, touch=True).page
    if "why" in query:
        page.locator("#why-tools").wait_for()
        box = page.locator("#why").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1] == PHONE
    assert page.locator("#photograph").is_visible()
    assert page.locator("#camera").get_attribute("capture") == "environment"
    heights = page.locator(".actions button:visible").evaluate_all("all => all.map(one => one.getBoundingClientRect().height)")
    assert all(height >= 30 for height in heights)


def test_dark_follows_the_system_and_the_button(visit: Open) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(scheme="light").page, visit(scheme="dark").page
    colours = light.evaluate(ground), dark.evaluate(ground)
    assert colours[0] != colours[1]
    dark.locator("#theme").click()
    assert dark.evaluate(ground) == colours[0]
    dark.reload()
    assert dark.evaluate(ground) == colours[0]  # it is remembered


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_words_can_be_read(visit: Open, scheme: str) -> None:
    """Contrast of at least 4.5 to 1, as WCAG AA asks, between words and what is behind them."""
    page = visit("?id=1", scheme=scheme).page
    for selector in ("#status", "#verdict", ".words", ".similarity", ".actions button", ".brand", "nav a", "#choose", "summary", ".keys"):
        ratio = page.locator(selector).first.evaluate(CONTRAST)
        assert ratio >= 4.5, (selector, ratio)


CONTRAST = """element => {
    const parse = text => text.match(/[\\d.]+/g).map(Number);
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
    let behind = element, ground;
    do { ground = parse(getComputedStyle(behind).backgroundColor); behind = behind.parentElement; } while (ground[3] === 0 && behind);
    const [a, b] = [light(parse(getComputedStyle(element).color)), light(ground)].sort((x, y) => y - x);
    return (a + .05) / (b + .05);
}"""


def test_everything_has_a_name(visit: Open) -> None:
    page = visit("?id=1&why=2").page
    page.locator("#why-tools").wait_for()
    assert page.locator("img").evaluate_all("all => all.filter(image => !image.alt && image.offsetParent).length") == 0
    nameless = "all => all.filter(one => !(one.getAttribute('aria-label') || one.textContent.trim() || one.labels?.length)).length"
    assert page.locator("button, select, input:not([hidden])").evaluate_all(nameless) == 0
    assert page.locator("[role=status][aria-live=polite]").count() == 2
    assert page.locator("html").get_attribute("lang") == "en"
    assert page.locator(".pick").first.get_attribute("aria-label").startswith("Search from ")


def test_names_do_no_harm(visit: Open, server: Running) -> None:
    page = visit("?id=1&where=year%3D1999").page
    says(page, "1 image most like")
    assert labels(page) == [HOSTILE]
    page.locator(".ask-why").click()
    page.locator("#why-tools").wait_for()
    page.keyboard.press("Escape")
    page.locator(".pick").click()
    page.wait_for_function("() => document.querySelector('#query figcaption').textContent.includes('onerror')")
    assert page.evaluate("window.harmed") is None
    page.goto(f"{server.address}/?id=1&where=label%3D%3Cimg%20src=x%20onerror=window.harmed=1%3E")
    says(page, "No image of the index fulfils the conditions.")
    assert page.evaluate("window.harmed") is None


def test_a_server_that_is_gone_is_told(visit: Open) -> None:
    found = visit("?id=1", tolerated="ERR_INTERNET_DISCONNECTED|Failed to fetch")
    found.page.context.set_offline(True)
    found.page.locator(".pick").first.click()
    says(found.page, "The server does not answer.")
    found.page.context.set_offline(False)
    found.page.go_back()
    says(found.page, "images most like")


def test_the_page_of_the_interface(visit: Open, server: Running) -> None:
    page = visit(width=PHONE).page
    page.get_by_role("link", name="API").click()
    page.wait_for_url("**/docs")
    widths = page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
    assert widths[0] <= widths[1]
    assert "/api/search" in page.locator("main").inner_text()
    page.go_back()
    page.locator(".card").first.wait_for()


def test_a_file_that_is_gone_is_told_in_its_place(visit: Open, birds: MadeIndex) -> None:
    (birds.images.parent / "gone.png").unlink()
    page = visit("?id=1&where=path~gone.png", tolerated="410").page
    missing = page.locator(".missing")
    missing.wait_for()
    assert "gone.png is not there any more" in missing.inner_text()
    assert page.locator(".caption b").inner_html() == "gone.<wbr>png"  # where a line may break
