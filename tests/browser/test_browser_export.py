"""The page of `likewise export --browser` in a real Chromium with the network off: from a file, and from any static server."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import likewise
from likewise.data.augmentation import Augmentation
from likewise.exporting.exporter import export
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.network import NetworkSpec, make_network
from likewise.search.hits import Hits
from likewise.search.index import Index

from ..optional import needs_node_modules, needs_package

WAIT = 30_000  # milliseconds, of a busy machine
NUM_KINDS, NUM_EACH = 12, 4
Open = Callable[..., Any]


def drawn(kind: int, number: int) -> Image.Image:
    """A pattern of its own for every kind, in another light each time, of another size."""
    rng = np.random.default_rng(kind)
    coarse = Image.fromarray(rng.integers(0, 256, (4, 4, 3), dtype=np.uint8)).resize(
        (70 + 9 * number, 60 + 5 * kind), Image.Resampling.BICUBIC
    )
    light = np.random.default_rng((kind, number))
    return Image.fromarray(
        (np.asarray(coarse) * light.uniform(0.7, 1) + light.normal(0, 12, (*coarse.size[::-1], 3))).clip(0, 255).astype(np.uint8)
    )


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Index:
    needs_package("onnx")
    needs_package("onnxruntime")
    folder = tmp_path_factory.mktemp("browser")
    for kind in range(NUM_KINDS):
        for number in range(NUM_EACH):
            label = "<b>bold</b> & co" if kind == 0 else f"kind {kind}"
            path = folder / "pictures" / label.replace("/", "\N{FRACTION SLASH}") / f"{kind}-{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            drawn(kind, number).save(path)
    model = Embedder(make_network(NetworkSpec("convnet_small", dim=32), seed=0).eval(), Preprocessing(40, Augmentation(32, "centre")))
    paths = sorted((folder / "pictures").rglob("*.png"))
    calibration = likewise.calibrate(model.embed(paths), [path.parent.name for path in paths], false_accepts=0.2)
    index = likewise.Index.build(replace(model, calibration=calibration), folder / "pictures", out=folder / "pictures.index")
    (folder / "pictures" / "kind 1" / "1-0.png").unlink()
    return index


@pytest.fixture(scope="module")
def address(request: pytest.FixtureRequest, index: Index) -> Iterator[str]:
    """Of the page in a folder, unless a test is told otherwise."""
    form = getattr(request, "param", "folder")
    runtime = needs_node_modules("onnxruntime-web")
    exported = export(index.folder / "model", index.folder.parent / form, browser=index, runtime=runtime, one_file=form == "one file")
    assert exported.page is not None
    if form != "served":
        yield exported.page.as_uri()
        return

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(exported.page.parent)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/index.html"
    server.shutdown()
    server.server_close()


@pytest.fixture
def opened(chromium: Any, address: str) -> Iterator[Open]:
    """Opens the page with the network off; whatever leaves the machine, is blocked by the page's policy or goes wrong is a fault."""
    contexts, faults = [], []

    def local(route: Any) -> None:
        url = route.request.url
        if url.startswith(("file:", "blob:", "data:", "http://127.0.0.1:")):
            route.continue_()
        else:
            faults.append(f"asked for {url}")
            route.abort()

    def open_page(**settings: Any) -> Any:
        context = chromium.new_context(**settings)
        contexts.append(context)
        if address.startswith("file:"):
            context.set_offline(True)  # which would cut off the static server too
        context.route("**/*", local)
        page = context.new_page()
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.on("console", lambda told: faults.append(told.text) if told.type in ("error", "warning") else None)
        page.goto(address)
        page.get_by_text("Ready.").wait_for(timeout=WAIT)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert faults == []


def ask(page: Any, file: Path) -> None:
    before = page.locator("#heading").inner_text() if page.locator("#found").is_visible() else ""
    page.set_input_files("#file", file)
    page.locator("#heading", has_text=file.name).wait_for(timeout=WAIT)
    assert page.locator("#heading").inner_text() != before


def results(page: Any) -> list[tuple[str, str, float]]:
    """(name, words, similarity) of what is shown."""
    told = []
    for line in page.locator("#results li").all():
        words, similarity = line.locator(".said").inner_text().rsplit(", ", 1)
        told.append((line.locator(".name").inner_text(), words, float(similarity)))
    return told


def same_as_search(shown: list[tuple[str, str, float]], hits: Hits) -> None:
    """To the three digits that are shown; whatever is that near may swap places."""
    assert len(shown) == len(hits)
    by_name = {Path(hit.path).name: hit for hit in hits}
    for (name, words, similarity), hit in zip(shown, hits, strict=True):
        assert similarity == pytest.approx(hit.similarity, abs=2e-3)
        if name in by_name:
            assert similarity == pytest.approx(by_name[name].similarity, abs=2e-3)
        assert words == hit.words or words == by_name[name].words


@pytest.mark.parametrize("address", ["folder", "one file", "served"], indirect=True)
def test_a_chosen_picture_finds_what_search_finds(opened: Open, index: Index, tmp_path: Path) -> None:
    page = opened()
    said, known = set(), set()
    for number, query in enumerate((drawn(3, 9), drawn(0, 7), Image.new("RGB", (1, 1), "red"))):
        path = tmp_path / f"query {number}.png"
        query.save(path)
        ask(page, path)
        hits = index.search(path, k=24)
        same_as_search(results(page), hits)
        assert page.locator("#unknown").is_visible() is (hits.is_known is False)
        known.add(hits.is_known)
        said |= {words for _, words, _ in results(page)}
    assert len(said) > 2, said
    assert known == {True, False}
    assert page.locator("#status").inner_text().startswith(f"{len(index)} pictures compared in")
    assert page.locator("#results b").count() == 0  # a class's name is text, whatever is in it
    assert ".<wbr>png" in page.locator("#results .name").first.inner_html()  # where a line may break


def test_a_result_is_searched_from_and_more_are_shown(opened: Open, index: Index, tmp_path: Path) -> None:
    page = opened()
    drawn(5, 8).save(tmp_path / "query.png")
    ask(page, tmp_path / "query.png")
    page.locator("#more").click()
    assert page.locator("#results li").count() == len(index)
    assert page.locator("#more").is_hidden()
    third = page.locator("#results button").nth(2)
    name = third.locator(".name").inner_text()
    third.focus()
    page.keyboard.press("Enter")
    page.locator("#heading", has_text="Like ").wait_for()
    assert results(page)[0][0] == name
    assert results(page)[0][2] == pytest.approx(1, abs=2e-3)
    without = page.locator("#results li", has=page.locator(".nothing"))
    page.locator("#more").click()
    assert without.count() == 1  # whose file was gone
    assert without.locator(".name").inner_text() == "1-0.png"
    images = page.locator("#results img")
    assert all(image.get_attribute("alt") for image in images.all())
    page.locator("#results img").first.scroll_into_view_if_needed()
    assert page.evaluate("document.querySelector('#results img').naturalWidth") > 0


def test_what_is_not_a_picture_is_said(opened: Open, tmp_path: Path) -> None:
    page = opened()
    (tmp_path / "notes.txt").write_text("not a picture")
    page.set_input_files("#file", tmp_path / "notes.txt")
    page.get_by_text("notes.txt is not a picture that this browser can read").wait_for(timeout=WAIT)
    assert page.locator("#found").is_hidden()
    drawn(2, 6).save(tmp_path / "query.png")
    ask(page, tmp_path / "query.png")  # and the page goes on


def test_a_dropped_picture_with_transparency_and_orientation(opened: Open, index: Index, tmp_path: Path) -> None:
    """As likewise reads it: transparent is white, EXIF turns."""
    page = opened()
    picture = drawn(4, 5).convert("RGBA")
    picture.putalpha(Image.linear_gradient("L").resize(picture.size).point(lambda value: 255 if value > 90 else 0))
    picture.save(tmp_path / "clear.png")
    exif = Image.Exif()
    exif[0x0112] = 6
    drawn(6, 5).save(tmp_path / "turned.png", exif=exif)
    assert abs(index.search(tmp_path / "turned.png")[0].similarity - index.search(drawn(6, 5))[0].similarity) > 0.01
    for name in ("clear.png", "turned.png"):
        content = (tmp_path / name).read_bytes()
        page.evaluate(
            """([name, bytes]) => {
                const data = new DataTransfer();
                data.items.add(new File([new Uint8Array(bytes)], name, { type: "image/png" }));
                dispatchEvent(new DragEvent("drop", { dataTransfer: data, cancelable: true }));
            }""",
            [name, list(content)],
        )
        page.locator("#heading", has_text=name).wait_for(timeout=WAIT)
        same_as_search(results(page), index.search(tmp_path / name, k=24))


@pytest.mark.parametrize("settings", [{"color_scheme": "dark"}, {"viewport": {"width": 400, "height": 800}}])
def test_dark_and_narrow(opened: Open, tmp_path: Path, settings: dict[str, Any]) -> None:
    page = opened(**settings)
    drawn(2, 6).save(tmp_path / "a query with a very long name that has to be broken into several lines somewhere.png")
    ask(page, next(tmp_path.iterdir()))
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(18, 23, 28)" if "color_scheme" in settings else "rgb(252, 252, 251)")
    page.get_by_text("What the similarities mean").click()
    assert "two items pass for one class" in page.locator("#words").inner_text()
