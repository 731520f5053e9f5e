"""Glyphs: characters drawn with the fonts that come with matplotlib. A class is a character; any number of images of any size."""

from __future__ import annotations

import hashlib
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter, ImageFont

from likewise.data.dataset import Dataset, Pixels
from likewise.data.readers.glyph_alphabet import ALPHABET, characters_of, font_files

# How an image varies; lengths are shares of its side. Tuned so that losses rank: see docs/experiments.md.
ROTATION = 25.0  # degrees either way
SHEAR = 0.25
SMALLEST, LARGEST = 0.6, 0.95  # longer side of the character
STROKE = 1 / 24  # the outline is widened by up to this
BLUR = 1 / 32  # standard deviation, up to
NOISE = 0.15  # standard deviation of the noise, up to, in shares of white
FINE = 2  # characters are drawn this many times finer


def read_glyphs(*, classes: int = 400, images: int = 20, size: int = 32, seed: int = 0) -> Dataset:
    """`classes` characters (half train, half test, none in both), `images` of each, `size` x `size` pixels.

    The seed decides which characters come first, their parts and every stroke. The same seed gives the same first images of the same
    first characters, bit for bit, whatever `classes` and `images` are.
    """
    if not 4 <= classes <= len(ALPHABET):
        raise ValueError(f"glyphs: classes={classes}: expected 4 to {len(ALPHABET)}, as many characters as look different")
    if images < 1:
        raise ValueError(f"glyphs: images={images}: expected at least 1 image a class")
    if not 8 <= size <= 512:
        raise ValueError(f"glyphs: size={size}: expected 8 to 512 pixels")
    characters = sorted(ALPHABET, key=lambda character: hashlib.sha256(f"{seed}:{character}".encode()).digest())[:classes]
    held = {face: characters_of(file) for face, file in font_files().items()}
    pixels = np.empty((classes * images, size, size), dtype=np.uint8)
    for i, character in enumerate(characters):
        faces = [face for face, codes in held.items() if ord(character) in codes]
        extents = {face: _extent(face, character) for face in faces}
        drawable = [face for face in faces if extents[face] > 0]
        if not drawable:
            raise ValueError(f"none of matplotlib's fonts draws {character!r} any more: choose other characters with another seed")
        for j in range(images):
            random = np.random.Generator(np.random.PCG64([seed % 2**64, ord(character), j]))
            face = drawable[int(random.integers(len(drawable)))]
            pixels[i * images + j] = _drawn(character, face, extents[face], size, random)
    labels = np.repeat(np.arange(classes), images)
    parts = np.where(labels % 2 == 0, "train", "test").astype(np.str_)
    return Dataset("glyphs", Pixels(pixels), labels.astype(np.int64), tuple(characters), parts)


def _drawn(character: str, face: str, extent: float, size: int, random: np.random.Generator) -> npt.NDArray[np.uint8]:
    turn, slant, squeeze, length, stroke, blur, dark, light, left, top, swap, noise = random.random(12).tolist()
    side = FINE * size
    longer = (SMALLEST + (LARGEST - SMALLEST) * length) * side
    mask = _font(face, max(4, min(round(longer / extent), 8 * side))).getmask(
        character, mode="L", stroke_width=int(stroke * (STROKE * side + 1))
    )
    drawn = Image.frombytes("L", mask.size, bytes(mask))
    angle = np.deg2rad(ROTATION) * (2 * turn - 1)
    shear = SHEAR * (2 * slant - 1)
    stretch = 1 + 0.2 * (2 * squeeze - 1)
    # from a place in the image to one in the drawing: turn, then shear and stretch, about both centres
    cosine, sine = float(np.cos(angle)), float(np.sin(angle))
    a, b, d, e = FINE * (cosine + shear * sine) * stretch, FINE * (-sine + shear * cosine) * stretch, FINE * sine, FINE * cosine
    x, y = size * (0.5 + 0.1 * (left - 0.5)), size * (0.5 + 0.1 * (top - 0.5))
    affine = (a, b, drawn.width / 2 - a * x - b * y, d, e, drawn.height / 2 - d * x - e * y)
    image = drawn.transform((size, size), Image.Transform.AFFINE, affine, resample=Image.Resampling.BILINEAR)
    ink = np.asarray(image.filter(ImageFilter.GaussianBlur(BLUR * size * blur)), dtype=np.float32) / 255
    ground, level = 0.3 * dark, 1 - 0.3 * light
    values = ground + (level - ground) * ink + (NOISE * noise) * random.standard_normal((size, size), dtype=np.float32)
    values = np.clip(values, 0, 1)
    drawn_values: npt.NDArray[np.uint8] = np.rint(255 * (1 - values if swap < 0.5 else values)).astype(np.uint8)
    return drawn_values


def _extent(face: str, character: str) -> float:
    """Longer side of the character's ink, in shares of the font size."""
    left, top, right, bottom = _font(face, 64).getmask(character, mode="L").getbbox() or (0, 0, 0, 0)
    return float(max(right - left, bottom - top)) / 64


@cache
def _font(face: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(font_files()[face]), size)
