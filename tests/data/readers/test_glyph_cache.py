"""Drawn glyphs in the cache: read again as they were drawn, and drawn again where the file is no good."""

import io
import random
from pathlib import Path

import numpy as np
import pytest

from likewise.data.dataset import Pixels
from likewise.data.readers import glyph_cache
from likewise.data.readers.glyphs import read_glyphs
from likewise.sealing import Mended, with_digest


def drawn(seed: int = 0) -> np.ndarray:
    items = read_glyphs(classes=8, images=3, size=8, seed=seed).items
    assert isinstance(items, Pixels)
    return items.array


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the drawings of this test are kept, however small."""
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path))
    monkeypatch.setattr(glyph_cache, "WORTH_KEEPING", 10)
    return tmp_path / "glyphs"


def test_what_was_drawn_is_read_again(cache: Path) -> None:
    first = drawn()
    (file,) = cache.iterdir()
    np.testing.assert_array_equal(drawn(), first)
    marked, content = first.copy(), io.BytesIO()
    marked[0, 0, 0] ^= 255
    np.save(content, marked)
    file.write_bytes(with_digest(content.getvalue()))
    np.testing.assert_array_equal(drawn(), marked)  # from the file
    assert (drawn(seed=1) != first).any()
    assert len(list(cache.iterdir())) == 2


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00 and no more", b"no array"])
def test_a_torn_file_is_drawn_again(cache: Path, content: bytes) -> None:
    first = drawn()
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    file.write_bytes(content)
    with pytest.warns(Mended, match="was damaged: the glyphs are drawn again"):
        np.testing.assert_array_equal(drawn(), first)
    assert file.read_bytes() == whole


def test_a_flipped_byte_is_never_used(cache: Path) -> None:
    first = drawn()
    (file,) = cache.iterdir()
    whole, rng = file.read_bytes(), random.Random(0)
    for _ in range(10):
        broken = bytearray(whole)
        broken[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
        file.write_bytes(broken)
        with pytest.warns(Mended, match="drawn again"):
            np.testing.assert_array_equal(drawn(), first)


def test_other_code_or_libraries_draw_anew(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn()
    monkeypatch.setattr(glyph_cache, "version", lambda name: "0.0")
    drawn()
    assert len(list(cache.iterdir())) == 2


def test_without_a_cache_it_draws_all_the_same(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = drawn()
    (cache.parent / "file").write_text("no folder")
    monkeypatch.setenv("LIKEWISE_CACHE", str(cache.parent / "file"))
    np.testing.assert_array_equal(drawn(), first)
