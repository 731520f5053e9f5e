"""An explanation as pictures: heat maps over both images, and regions that match as numbered boxes joined by lines."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from likewise.explanation.region_pairs import ShownBox
from likewise.wording import printable

if TYPE_CHECKING:
    from likewise.explanation.matching import Explanation, SeenImage

Array = npt.NDArray[np.float64]
Colour = tuple[int, int, int]

# Told apart by the colour-blind, and light enough to stand out on photographs.
PAIR_COLOURS: tuple[str, ...] = ("#ffd400", "#56d4f5", "#ff8a4c", "#7ee08a", "#f3a6d8")
ADDS, TAKES = np.array((255, 62, 0)), np.array((40, 120, 255))  # what adds to the similarity, and what takes from it
MOST_COVER = 0.72  # of a picture, where the heat is largest
GAP, MARGIN, CAPTION = 36, 24, 26
INK, FAINT, GROUND = "#1b2530", "#5c6671", "#ffffff"


def png_bytes(image: Image.Image) -> bytes:
    written = io.BytesIO()
    image.save(written, "PNG", compress_level=3)  # a tenth more bytes, a twentieth of the time
    return written.getvalue()


def largest_heat(explanation: Explanation) -> float:
    """What one place adds or takes at most: full colour, the same in both images."""
    return float(max(np.abs(explanation.a.heat).max(), np.abs(explanation.b.heat).max(), 1e-12))


def heat_layer(heat: Array, largest: float, size: tuple[int, int]) -> Image.Image:
    """The heat as a transparent RGBA layer of this size (width, height), smooth between the middles of places."""
    smooth = np.asarray(Image.fromarray((heat / largest).astype(np.float32)).resize(size, Image.Resampling.BICUBIC)).clip(-1, 1)
    colours = np.where(smooth[..., None] >= 0, ADDS, TAKES)
    cover = 255 * MOST_COVER * np.abs(smooth[..., None])
    return Image.fromarray(np.concatenate([colours, cover], axis=2).round().astype(np.uint8))


def with_heat(image: SeenImage, largest: float) -> Image.Image:
    """The picture in grey under its heat."""
    grey = image.picture.convert("L").convert("RGBA")
    return Image.alpha_composite(grey, heat_layer(image.heat, largest, grey.size)).convert("RGB")


def match_picture(explanation: Explanation) -> Image.Image:
    """The two images with their matching regions above, with their heat below."""
    largest = largest_heat(explanation)
    a, b = explanation.a.picture, explanation.b.picture
    tall, wide = max(a.height, b.height), a.width + b.width + GAP
    font, small = ImageFont.load_default(18), ImageFont.load_default(13)
    rows = 2 * (tall + CAPTION) + 2 * CAPTION
    sheet = Image.new("RGB", (wide + 2 * MARGIN, rows + 2 * MARGIN), GROUND)
    draw = ImageDraw.Draw(sheet)
    second = MARGIN + a.width + GAP
    draw.text((MARGIN, MARGIN), f"similarity {explanation.similarity:.3f}", fill=INK, font=font)
    top = MARGIN + 2 * CAPTION
    for left, image in ((MARGIN, explanation.a), (second, explanation.b)):
        draw.text((left, top - 20), _fitting(draw, image.name, small, image.picture.width), fill=FAINT, font=small)
        sheet.paste(image.picture, (left, top))
    _draw_pairs(draw, explanation, (MARGIN, top), (second, top), ImageFont.load_default(20))
    top += tall + CAPTION
    draw.text((MARGIN, top - 20), f"what each place adds: full colour is {largest:.4f}", fill=FAINT, font=small)
    sheet.paste(with_heat(explanation.a, largest), (MARGIN, top))
    sheet.paste(with_heat(explanation.b, largest), (second, top))
    shares = [f"{number}: {contribution_in_words(explanation, pair.contribution)}" for number, pair in enumerate(explanation.pairs, 1)]
    draw.text((MARGIN, top + tall + 6), _fitting(draw, "     ".join(shares), small, wide), fill=INK, font=small)
    return sheet


def colour_of(number: int) -> str:
    """Of the first, second, ... pair of regions."""
    return PAIR_COLOURS[(number - 1) % len(PAIR_COLOURS)]


def contribution_in_words(explanation: Explanation, contribution: float) -> str:
    """ "+0.034 (5 %)": what it adds, and its share where there is something to have a share of."""
    share = explanation.share(contribution)
    return f"{contribution:+.3f}" + ("" if share is None else f" ({100 * share:.1f} %)")


def _draw_pairs(
    draw: ImageDraw.ImageDraw,
    explanation: Explanation,
    corner_a: tuple[int, int],
    corner_b: tuple[int, int],
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
) -> None:
    size_a, size_b = explanation.a.picture.size, explanation.b.picture.size
    joined = [
        (number, colour_of(number), _pixels(pair.a, size_a, corner_a), _pixels(pair.b, size_b, corner_b))
        for number, pair in enumerate(explanation.pairs, 1)
    ]
    for _, colour, of_a, of_b in joined:
        line = (of_a[2], (of_a[1] + of_a[3]) / 2, of_b[0], (of_b[1] + of_b[3]) / 2)
        draw.line(line, fill=INK, width=5)
        draw.line(line, fill=colour, width=2)
    for number, colour, *boxes in reversed(joined):  # the best on top
        for left, top, right, bottom in boxes:
            draw.rectangle((left, top, right, bottom), outline=INK, width=5)
            draw.rectangle((left + 1, top + 1, right - 1, bottom - 1), outline=colour, width=3)
            draw.rectangle((left, top, left + 24, top + 24), fill=colour)
            draw.text((left + 12, top + 12), str(number), fill=INK, font=font, anchor="mm")


def _pixels(box: ShownBox, size: tuple[int, int], corner: tuple[int, int]) -> tuple[float, float, float, float]:
    wide, tall = size
    left, top = corner
    return left + box.left * wide, top + box.top * tall, left + box.right * wide - 1, top + box.bottom * tall - 1


def _fitting(draw: ImageDraw.ImageDraw, text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, room: int) -> str:
    """As much of the text as there is room for."""
    text = printable(text)
    while text and draw.textlength(text, font=font) > room:
        text = text[:-2] + "\N{HORIZONTAL ELLIPSIS}"
    return text
