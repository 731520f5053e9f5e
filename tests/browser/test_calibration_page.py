"""The page of `likewise calibrate` in a real browser: it draws, fits a phone, and asks nobody for anything."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from likewise.cli import app
from likewise.models.embedder import Embedder
from likewise.models.network import NetworkSpec, make_network

CLASSES, ITEMS, DIM = 30, 8, 16


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an embedder that gives vectors as they are: classes overlap, so that every curve has a shape."""
    folder = tmp_path_factory.mktemp("calibrated")
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(CLASSES), ITEMS)
    vectors = rng.normal(size=(CLASSES, DIM))[labels] + 1.5 * rng.normal(size=(len(labels), DIM))
    np.savez(folder / "vectors.npz", embeddings=vectors.astype(np.float32), labels=labels)
    Embedder(make_network(NetworkSpec("identity", head="none", in_features=DIM), seed=0), None).save(folder / "model")
    done = CliRunner().invoke(app, ["calibrate", str(folder / "model"), str(folder / "vectors.npz")])
    assert done.exit_code == 0, done.output
    return folder / "model" / "calibration.html"


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page(chromium: Any, page_file: Path, width: int, scheme: str) -> None:
    context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    complaints: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(page_file.as_uri())
    assert page.locator("h1").inner_text().endswith("vectors.npz")
    assert page.locator(".headline").inner_text().startswith("From a similarity of 0.")
    # nothing is cut off: neither the page nor the table scrolls sideways
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator(".scroll").evaluate_all("all => all.map(one => one.scrollWidth - one.clientWidth)") == [0]
    assert page.locator("table.thresholds tbody tr").count() >= 2
    figures = page.locator("figure svg")
    assert figures.count() == 3
    for number in range(3):
        box = figures.nth(number).bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
        assert box["height"] > 150
    drawn = np.asarray(Image.open(BytesIO(figures.nth(1).screenshot())).convert("RGB")).astype(int)
    greenish = (drawn[..., 1] - drawn[..., 0] > 60).any(axis=1)
    assert greenish.mean() > 0.3  # the curve of what is kept falls from the top to the bottom
    assert complaints == []
    assert [url for url in requests if not url.startswith("data:")] == [page_file.as_uri()]
    context.close()


def test_the_words_in_the_plot_are_not_struck_through(chromium: Any, page_file: Path) -> None:
    """The line of the threshold does not run through the names of the curves."""
    page = chromium.new_page(viewport={"width": 1280, "height": 900})
    page.goto(page_file.as_uri())
    plot = page.locator("figure svg").nth(1)
    names = plot.locator("text", has_text="true matches kept").bounding_box()
    drawn = "all => all.filter(one => (one.getAttribute('style') || '').includes('var(--faint)')).map(one => one.getBoundingClientRect())"
    upright = plot.locator("path").evaluate_all(f"{drawn}.filter(box => box.width < 2 && box.height > 100).map(box => box.x)")
    assert upright
    assert not [x for x in upright if names["x"] <= x <= names["x"] + names["width"]]
    page.close()
