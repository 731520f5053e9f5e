"""The page of a paper in a real Chromium: it fits a telephone, and says its verdicts there too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from likewise.reproductions.pages import write_pages

from ..reproductions.made import made_reproduction

WIDTHS = (1280, 400)


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return write_pages(made_reproduction(["rll/table-1", "unbiased/figure-1", "unified/figure-1"]), tmp_path_factory.mktemp("papers"))


@pytest.fixture(params=WIDTHS)
def page(request: pytest.FixtureRequest, chromium: Any) -> Iterator[Any]:
    context = chromium.new_context(viewport={"width": request.param, "height": 900}, offline=True)
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    yield opened
    context.close()


def test_pages_fit(page: Any, pages: list[Path]) -> None:
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    for path in pages:
        page.goto(path.as_uri())
        assert page.evaluate("document.documentElement.scrollWidth") == page.viewport_size["width"]
        hidden = page.evaluate(
            """() => [...document.querySelectorAll('.claims tbody tr')].filter(
                row => ![...row.querySelectorAll('.badge')].some(badge => badge.getBoundingClientRect().width > 0)).length"""
        )
        assert hidden == 0, "every claim shows its verdict"
        assert page.locator("figure svg text").count() > 10, "charts have words"
    assert not faults
