"""One folder for all quick items, as they share their trainings; and an item that takes a second."""

from __future__ import annotations

from pathlib import Path

import pytest

from likewise.reproductions.paper_item import PaperItem, read_item

DATA = "glyphs:classes=16,images=6,size=16"
TEXT = """
title = "Two methods"
where = "nowhere"
asks = "Which is better?"
shape = "table"
setup = { data = "glyphs" }

[[parts]]
name = "small"
data = "glyphs"
protocol = "quick"
settings = { steps = 3, batch = 16, dim = 8, backbone = "convnet", metrics = ["R@K", "MAP@R"] }
x = 8

[[parts]]
name = "large"
data = "glyphs"
protocol = "quick"
settings = { steps = 3, batch = 16, dim = 16, backbone = "convnet", metrics = ["R@K", "MAP@R"] }
x = 16

[rows.raw]
method = "raw"

[rows.sharper]
method = "raw"
settings = { "loss.beta" = 40.0 }

[rows.contrastive]
title = "Contrastive loss"
method = "contrastive"

[rows.unknown]
literature = "no code"

[published.small]
raw = { "R@1" = 60.0 }
unknown = { "R@1" = 10.0 }

[[claims]]
says = "raw is best"
kind = "best"
best = "raw"

[[claims]]
says = "more dimensions help"
kind = "above"
over = "parts"
better = "large"
worse = ["small"]
each = ["raw", "contrastive"]
"""


@pytest.fixture(scope="session")
def quick_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("quick") / "out"


def written_item(folder: Path, text: str = TEXT) -> PaperItem:
    path = folder / "rll" / "table-0.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return read_item.__wrapped__(path)  # files of one name differ from test to test
