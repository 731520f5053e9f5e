"""Glyphs: characters drawn with the fonts that come with matplotlib. A class is a character; any number of images of any size."""

from __future__ import annotations

import hashlib
import math
from functools import cache

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageFilter, ImageFont

from likewise.data.dataset import Dataset, Pixels
from likewise.data.readers.glyph_alphabet import ALPHABET, characters_of, font_files
from likewise.data.readers.glyph_cache import kept_drawing

Array = npt.NDArray[np.float32]

# How an image varies; lengths are shares of its side. Tuned so that losses rank: see docs/experiments.md.
ROTATION = 25.0  # degrees either way
SHEAR = 0.3
SMALLEST, LARGEST = 0.6, 0.95  # longer side of the character
STRETCH = 0.2
SHIFT = 0.05
STROKE = 1 / 40  # how far a stroke may widen, about
LEVELS = tuple(0.15 + 0.05 * i for i in range(8))  # where a stroke is cut: low is wide
BLUR = 1 / 24  # standard deviation, up to
NOISE = 0.25  # standard deviation of the noise, up to, in shares of white
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
    pixels = kept_drawing((seed, characters, images, size), lambda: _drawn(characters, images, size, seed))
    labels = np.repeat(np.arange(classes), images)
    parts = np.where(labels % 2 == 0, "train", "test").astype(np.str_)
    return Dataset("glyphs", Pixels(pixels), labels.astype(np.int64), tuple(characters), parts)


def _drawn(characters: list[str], images: int, size: int, seed: int) -> npt.NDArray[np.uint8]:
    """(characters x images, size, size), the images of a character one after the other."""
    codes_of_face = {face: characters_of(file) for face, file in font_files().items()}
    pixels = np.empty((len(characters) * images, size, size), dtype=np.uint8)
    ink, noise = (np.empty((images, size, size), dtype=np.float32) for _ in range(2))
    tones = np.empty((images, 4, 1, 1), dtype=np.float32)
    for i, character in enumerate(characters):
        faces = [face for face, codes in codes_of_face.items() if ord(character) in codes]
        extents = {face: _extent(face, character) for face in faces}
        drawable = [face for face in faces if extents[face] > 0]
        if not drawable:
            raise ValueError(f"none of matplotlib's fonts draws {character!r} any more: choose other characters with another seed")
        for j in range(images):
            random = np.random.Generator(np.random.PCG64([seed % 2**64, ord(character), j]))
            face = drawable[int(random.integers(len(drawable)))]
            shape, tone = random.random(8).tolist(), random.random(4)
            ink[j] = _ink(character, face, extents[face], size, shape)
            noise[j] = random.standard_normal((size, size), dtype=np.float32)
            tones[j] = tone[:, None, None]
        pixels[i * images : (i + 1) * images] = _toned(ink, noise, tones)
    return pixels


def _ink(character: str, face: str, extent: float, size: int, choices: list[float]) -> npt.NDArray[np.uint8]:
    """The character, white on black, turned, sheared, stretched, thickened and blurred."""
    turn, slant, squeeze, length, stroke, blur, left, top = choices
    side = FINE * size
    longer = (SMALLEST + (LARGEST - SMALLEST) * length) * side
    mask = _font(face, max(4, min(round(longer / extent), 8 * side))).getmask(character, mode="L")
    margin = math.ceil(3 * STROKE * side)
    drawn = Image.new("L", (mask.size[0] + 2 * margin, mask.size[1] + 2 * margin))
    drawn.paste(Image.frombytes("L", mask.size, bytes(mask)), (margin, margin))
    # a blurred stroke cut at a lower level is a wider stroke
    blurred = np.asarray(drawn.filter(ImageFilter.GaussianBlur(STROKE * side)))
    drawn = Image.fromarray(_cut(round(stroke * (len(LEVELS) - 1)))[blurred])
    angle = math.radians(ROTATION) * (2 * turn - 1)
    shear, stretch = SHEAR * (2 * slant - 1), 1 + STRETCH * (2 * squeeze - 1)
    # from a place in the image to one in the drawing, about both centres
    cosine, sine = math.cos(angle), math.sin(angle)
    a, b, d, e = FINE * (cosine + shear * sine) * stretch, FINE * (shear * cosine - sine) * stretch, FINE * sine, FINE * cosine
    x, y = size * (0.5 + SHIFT * (2 * left - 1)), size * (0.5 + SHIFT * (2 * top - 1))
    affine = (a, b, drawn.width / 2 - a * x - b * y, d, e, drawn.height / 2 - d * x - e * y)
    image = drawn.transform((size, size), Image.Transform.AFFINE, affine, resample=Image.Resampling.BILINEAR)
    return np.asarray(image.filter(ImageFilter.GaussianBlur(BLUR * size * blur)))


def _toned(ink: Array, noise: Array, tones: Array) -> npt.NDArray[np.uint8]:
    """Ink of one grey on a ground of another, noisy; light on dark or dark on light."""
    dark, light, swap, strength = (tones[:, i] for i in range(4))
    ground, level = 0.3 * dark, 1 - 0.3 * light
    values = np.clip(ground + (level - ground) * (ink / 255) + (NOISE * strength) * noise, 0, 1)
    toned: npt.NDArray[np.uint8] = np.rint(255 * np.where(swap < 0.5, 1 - values, values)).astype(np.uint8)
    return toned


def _extent(face: str, character: str) -> float:
    """Longer side of the character's ink, in shares of the font size."""
    left, top, right, bottom = _font(face, 64).getmask(character, mode="L").getbbox() or (0, 0, 0, 0)
    return float(max(right - left, bottom - top)) / 64


@cache
def _cut(choice: int) -> npt.NDArray[np.uint8]:
    """Grey value -> that of a stroke with a sharp edge at one of the levels."""
    sharp = 4 * (np.arange(256) / 255 - LEVELS[choice]) + 0.5
    cut: npt.NDArray[np.uint8] = np.rint(255 * np.clip(sharp, 0, 1)).astype(np.uint8)
    return cut


@cache
def _font(face: str, size: int) -> ImageFont.FreeTypeFont:
    return ImageFont.truetype(str(font_files()[face]), size, layout_engine=ImageFont.Layout.BASIC)
