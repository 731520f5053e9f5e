"""The page of `likewise explain` in a real browser: it draws, fits a phone, and asks nobody for anything."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import likewise

from ..explanation.made_pairs import matching_pair, of_textures


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("match") / "match.html"
    likewise.explain(of_textures(), *matching_pair(), occlusion=True).save(path)
    return path


@pytest.mark.parametrize(("width", "shown", "hidden"), [(1200, "beside", "stacked"), (400, "stacked", "beside")])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page(chromium: Any, page_file: Path, width: int, shown: str, hidden: str, scheme: str) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    assert page.locator(f".match.{shown}").is_visible()
    assert not page.locator(f".match.{hidden}").is_visible()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert "matching regions joined: region 1" in page.locator(f".match.{shown}").get_attribute("aria-label")
    assert page.locator("svg.heat").count() == 4
    drawn = np.asarray(Image.open(BytesIO(page.locator(f".match.{shown}").screenshot())).convert("RGB")).astype(int)
    yellow = (np.abs(drawn - (255, 212, 0)).sum(axis=2) < 30).mean()
    assert yellow > 0.005  # the boxes of region 1
    grey = (np.abs(drawn - 127).sum(axis=2) < 30).mean()
    assert grey > 0.2  # the images themselves
    heat = np.asarray(Image.open(BytesIO(page.locator("svg.heat").first.screenshot())).convert("RGB")).astype(int)
    middle = heat[5:-5, 5:-5]
    assert (middle[..., 0] - middle[..., 2]).max() > 80  # red somewhere
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [page_file.as_uri()]
    context.close()
