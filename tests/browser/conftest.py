"""A real Chromium for the tests of pages. Missing, the tests are skipped; under LIKEWISE_CI they fail instead."""

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)


def _missing(what: str) -> None:
    message = f"{what} is missing, which these tests open pages with"
    if os.environ.get("LIKEWISE_CI"):
        pytest.fail(message)
    pytest.skip(message)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """The browser, headless."""
    program = shutil.which("chromium")
    if program is None:
        _missing("the program chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("the package playwright")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        yield browser
        browser.close()
