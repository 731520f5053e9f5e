"""Drawn glyphs in the cache: thousands of characters take seconds to draw and milliseconds to read.

A file ends with its digest: one that is not as it was written is drawn again.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import features

from likewise.data.packing.cache import cache_folder
from likewise.files import write_whole
from likewise.sealing import tell_mended, with_digest, without_digest

WORTH_KEEPING = 2000  # images; fewer are drawn in a moment
MOST_BYTES = 64 * 2**20  # of one drawing: the cache is for what is read again and again

Drawing = npt.NDArray[np.uint8]


def kept_drawing(asked: tuple[int, list[str], int, int], draw: Callable[[], Drawing]) -> Drawing:
    """What `draw` gives for (seed, characters, images of each, size), from the cache where it is there.

    Named by what decides the pixels: what was asked, the drawing code, and the libraries with their fonts.
    """
    _, characters, images, size = asked
    shape = (len(characters) * images, size, size)
    if len(characters) * images < WORTH_KEEPING or int(np.prod(shape)) > MOST_BYTES:
        return draw()
    file = cache_folder() / "glyphs" / f"{_key(asked)}.glyphs"
    kept = _read(file)
    if kept is not None and kept.shape == shape and kept.dtype == np.uint8:
        return kept
    drawn = draw()
    _write(file, drawn)
    return drawn


def _key(asked: tuple[Any, ...]) -> str:
    digest = hashlib.sha256(repr(asked).encode())
    for name in ("glyphs.py", "glyph_alphabet.py"):
        digest.update((Path(__file__).parent / name).read_bytes())
    versions = (version("matplotlib"), version("pillow"), features.version("freetype2"), version("numpy"))
    digest.update(repr(versions).encode())
    return digest.hexdigest()[:24]


def _read(file: Path) -> Drawing | None:
    """None also for a file that is not as it was written: it is drawn again."""
    try:
        content = without_digest(file.read_bytes())
    except OSError:
        return None
    if content is None:
        tell_mended(f"{file} was damaged: the glyphs are drawn again")
        return None
    drawn: Drawing = np.load(io.BytesIO(content), allow_pickle=False)
    return drawn


def _write(file: Path, drawn: Drawing) -> None:
    """A cache that cannot be written costs seconds the next time, and nothing else."""
    content = io.BytesIO()
    np.save(content, drawn)
    with suppress(OSError, ValueError):
        write_whole(file, with_digest(content.getvalue()))
