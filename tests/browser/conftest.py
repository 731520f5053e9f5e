"""A real Chromium for the tests of pages."""

from collections.abc import Iterator
from typing import Any

import pytest

from ..optional import needs_package, needs_program

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser, headless."""
    program = needs_program("chromium")
    needs_package("playwright")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()
