"""All thumbnails a page shows, in one picture."""

from __future__ import annotations

import base64
import math
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import numpy.typing as npt
from PIL import Image

LARGEST_SIDE = 40  # of a thumbnail, in pixels
QUALITIES = (82, 70, 55, 40, 25)


@dataclass(frozen=True, eq=False)
class Sprite:
    """Tiles in rows of `columns`; `place` says which tile an item is."""

    uri: str
    columns: int
    rows: int
    side: int
    place: dict[int, int]


def make_sprite(thumbnails: npt.NDArray[np.uint8], items: npt.NDArray[np.int64], *, most_bytes: int) -> Sprite:
    """The thumbnails of these items, in the best quality that keeps the picture below `most_bytes`, or else the lowest."""
    side = min(LARGEST_SIDE, thumbnails.shape[1])
    columns = max(1, math.ceil(math.sqrt(len(items))))
    rows = max(1, math.ceil(len(items) / columns))
    sheet = Image.new("RGB", (columns * side, rows * side), "white")
    for place, item in enumerate(items.tolist()):
        tile = Image.fromarray(np.ascontiguousarray(thumbnails[item]))
        if tile.size != (side, side):
            tile = tile.resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(tile, (place % columns * side, place // columns * side))
    content = b""
    for quality in QUALITIES:
        written = BytesIO()
        sheet.save(written, format="WEBP", quality=quality, method=4)
        content = written.getvalue()
        if len(content) <= most_bytes:
            break
    uri = "data:image/webp;base64," + base64.b64encode(content).decode()
    return Sprite(uri, columns, rows, side, {item: place for place, item in enumerate(items.tolist())})
