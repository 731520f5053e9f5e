"""Contact sheets in a real browser: pictures are there, a phone needs no sideways scrolling, nobody is asked for anything."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from likewise.search.grouping.contact_pages import copies_page, groups_page
from likewise.search.index import Index

from ..search.pictures import class_folders, small_embedder


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("sheets")
    class_folders(folder / "photos" / ("long " * 20), classes=3, images=8)
    index = Index.build(small_embedder(), folder / "photos")
    found = {"copies": folder / "copies.html", "groups": folder / "groups.html"}
    found["copies"].write_text(copies_page("Copies", index.duplicates(0.999999), most=50), encoding="utf-8")
    found["groups"].write_text(groups_page("Groups", index.cluster(3), most=50), encoding="utf-8")
    index.close()
    return found


@pytest.mark.parametrize("which", ["copies", "groups"])
@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (400, "dark")])
def test_the_page(chromium: Any, pages: dict[str, Path], which: str, width: int, scheme: str) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(pages[which].as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    pictures = page.evaluate("[...document.images].map(image => [image.naturalWidth, image.alt])")
    assert all(natural > 0 and alt for natural, alt in pictures)
    assert len(pictures) == (24 if which == "groups" else page.locator(".sheet li").count())
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [pages[which].as_uri()]
    context.close()
