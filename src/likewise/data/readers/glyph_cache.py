"""Drawn glyphs in the cache: thousands of characters take seconds to draw and milliseconds to read."""

from __future__ import annotations

import hashlib
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
    file = cache_folder() / "glyphs" / f"{_key(asked)}.npy"
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
    """None also for a file that a power cut left torn: it is drawn again."""
    try:
        drawn: Drawing = np.load(file, allow_pickle=False)
    except (OSError, ValueError, EOFError):
        return None
    return drawn


def _write(file: Path, drawn: Drawing) -> None:
    """A cache that cannot be written costs seconds the next time, and nothing else."""
    with suppress(OSError, ValueError):
        write_whole(file, lambda opened: np.save(opened, drawn))
