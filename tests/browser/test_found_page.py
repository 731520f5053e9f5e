"""The page of a search in a real browser: every picture is there, nothing is fetched, and it fits a narrow screen."""

from pathlib import Path
from typing import Any

import pytest

from likewise.search.hits import Hit, Hits
from likewise.search.likeness import PROBABLY, VERY_LIKELY
from likewise.search.search_page import search_page

from ..search.pictures import class_folders


@pytest.mark.parametrize("width", [400, 1300])
def test_pictures_are_shown(width: int, chromium: Any, tmp_path: Path) -> None:
    photos = class_folders(tmp_path / "photos")
    odd = "</script><script>document.title='broken out'</script>"
    hits = [
        Hit(str(path), 0.9 - number / 10, odd, number, {"place": odd * 3}, 0.8, PROBABLY if number else VERY_LIKELY)
        for number, path in enumerate(photos[:5])
    ]
    gone = Hit("/nowhere/gone.png", 0.1, None, 9, {}, None, None)
    queries = [(str(photos[0]), Hits([*hits, gone], is_known=True)), (str(photos[1]), Hits(is_known=False))]
    (tmp_path / "page.html").write_text(search_page("Search", queries, conditions=[odd], is_calibrated=True))
    page = chromium.new_page(viewport={"width": width, "height": 800})
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text))
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("[...document.images].map(image => image.complete && image.naturalWidth)") == [40] * 7
    assert page.locator(".found").count() == 2
    assert page.locator(".found li").count() == 6
    assert page.get_by_text("the file is gone").count() == 1
    assert page.get_by_text("No image fulfils the conditions.").count() == 1
    assert page.get_by_text("unknown: nothing here is nearer").count() == 1
    assert page.title() == "Search"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert faults == []
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    page.close()
