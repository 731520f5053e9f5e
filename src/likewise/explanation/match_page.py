"""An explanation as one page: the images side by side with their matching regions joined, heat maps, the sum, and occlusion."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
from PIL import Image

from likewise.explanation.match_picture import (
    ADDS,
    MOST_COVER,
    TAKES,
    colour_of,
    contribution_in_words,
    heat_layer,
    largest_heat,
    png_bytes,
)
from likewise.explanation.region_pairs import ShownBox
from likewise.reports.markup import Markup, join, table, tag
from likewise.reports.page import framed
from likewise.wording import count_of, listed

if TYPE_CHECKING:
    from likewise.explanation.matching import Explanation, SeenImage

Array = npt.NDArray[np.float64]

GAP = 36  # between the two images
LAYER_SIDE = 112  # of a heat layer, which the browser smooths: it knows no more than some dozens of places
LABEL = 30  # side of a box's number
STYLE = """
.match { display: block; width: 100%; max-width: 62rem; height: auto; border-radius: 8px; }
.match.stacked { display: none; }
.match text { font: 600 22px system-ui, sans-serif; fill: #1b2530; text-anchor: middle; dominant-baseline: central; }
.match .edge { stroke: #1b2530; fill: none; }
.heat { display: block; width: 100%; height: auto; border-radius: 6px; }
.scale { display: flex; align-items: center; gap: .6rem; max-width: 30rem; font-size: .84rem; color: var(--faint); margin-bottom: .8rem; }
.scale i { flex: 1; height: .7rem; border-radius: 99px; border: 1px solid var(--rule); }
.scroll:has(> .terms) { width: fit-content; max-width: 100%; }
.terms { width: auto; }
.scroll:has(> .terms) + .notes { margin-top: .8rem; }
@media (max-width: 40rem) { .match.beside { display: none; } .match.stacked { display: block; max-width: 26rem; } }
"""


def match_page(explanation: Explanation) -> str:
    a, b = explanation.a, explanation.b
    title = f"{a.name} and {b.name}"
    occlusion = _occlusion(explanation) if a.occlusion is not None else Markup("")
    pictures = tag("svg", {"width": 0, "height": 0, "style": "position:absolute", "aria-hidden": "true"}, tag("defs", {}, *_pictures(a, b)))
    body = [
        tag("header", {}, tag("h1", {}, title), *(tag("p", {"class": "headline"}, words) for words in _headlines(explanation))),
        pictures,
        tag("main", {}, _regions(explanation), _heat(explanation), occlusion, _sum(explanation)),
        tag("footer", {}, "Made by likewise. This file needs no network: keep it, mail it, open it anywhere."),
    ]
    return framed(title, join(body), Markup(""), sprites=STYLE)


def _headlines(explanation: Explanation) -> list[str]:
    words = [f"The two images have a cosine similarity of {explanation.similarity:.3f}."]
    if explanation.meaning is not None:
        words.append(f"{explanation.meaning[:1].upper()}{explanation.meaning[1:]}.")
    return words


def _pictures(a: SeenImage, b: SeenImage) -> list[Markup]:
    """Held once, and used wherever they are shown."""
    return [
        tag("image", {"id": f"seen-{name}", "width": seen.picture.width, "height": seen.picture.height, "href": _jpeg_uri(seen.picture)})
        for name, seen in (("a", a), ("b", b))
    ]


def _regions(explanation: Explanation) -> Markup:
    a, b = explanation.a, explanation.b
    if not explanation.pairs:
        words = "No region of one image adds to the similarity with a region of the other."
        return tag("section", {}, tag("h2", {}, "Regions that match most"), tag("p", {}, words), *_both_layouts(explanation))
    total = sum(pair.contribution for pair in explanation.pairs)
    others = _number(explanation.similarity - total, ".3f")
    words = f"The numbered regions add {total:.3f} to the similarity, all other pairs of places {others}."
    rows = [(str(number), *_cells(explanation, pair.contribution)) for number, pair in enumerate(explanation.pairs, 1)]
    seen = "The images are shown as the network sees them, without what its preprocessing cuts off."
    return tag(
        "section",
        {},
        tag("h2", {}, "Regions that match most"),
        *_both_layouts(explanation),
        tag("p", {"class": "note"}, f"First {a.name}, then {b.name}. {words} {seen}"),
        table({"class": "terms"}, ("region", "adds", "of the similarity"), rows),
    )


def _cells(explanation: Explanation, contribution: float) -> tuple[str, str]:
    share = explanation.share(contribution)
    return _number(contribution, "+.4f"), "" if share is None else f"{100 * share:.1f} %"


def _both_layouts(explanation: Explanation) -> list[Markup]:
    """One image beside the other, and on narrow screens one above the other."""
    a, b = explanation.a.picture, explanation.b.picture
    return [
        _joined_regions(explanation, (a.width + GAP, 0), (a.width + GAP + b.width, max(a.height, b.height)), name="beside"),
        _joined_regions(explanation, (0, a.height + GAP), (max(a.width, b.width), a.height + GAP + b.height), name="stacked"),
    ]


def _joined_regions(explanation: Explanation, corner: tuple[int, int], size: tuple[int, int], *, name: str) -> Markup:
    """Both images in a drawing of this size, the second from this corner on."""
    shapes: list[Markup] = [tag("use", {"href": "#seen-a"}), tag("use", {"href": "#seen-b", "x": corner[0], "y": corner[1]})]
    boxes: list[Markup] = []
    for number, pair in enumerate(explanation.pairs, 1):
        of_a, of_b = _scaled(pair.a, explanation.a.picture, (0, 0)), _scaled(pair.b, explanation.b.picture, corner)
        ends = _facing(of_a, of_b, is_beside=corner[0] > 0)
        for width, stroke in ((6, {"class": "edge"}), (3, {"stroke": colour_of(number)})):
            shapes.append(tag("line", {**dict(zip(("x1", "y1", "x2", "y2"), ends, strict=True)), "stroke-width": width, **stroke}))
        words = f"{number}: {contribution_in_words(explanation, pair.contribution)}"
        boxes.append(tag("g", {}, tag("title", {}, words), *(_box(box, number) for box in (of_a, of_b))))
    described = [f"region {n}, {contribution_in_words(explanation, pair.contribution)}" for n, pair in enumerate(explanation.pairs, 1)]
    what = f"{explanation.a.name} and {explanation.b.name}" + (f" with matching regions joined: {listed(described)}" if described else "")
    attributes = {"class": f"match {name}", "viewBox": f"0 0 {size[0]} {size[1]}", "role": "img", "aria-label": what}
    return tag("svg", attributes, *shapes, *reversed(boxes))  # the best on top


Edges = tuple[float, float, float, float]  # left, top, right, bottom


def _scaled(box: ShownBox, picture: Image.Image, corner: tuple[int, int]) -> Edges:
    across, down = picture.size
    left, top = corner
    return left + box.left * across, top + box.top * down, left + box.right * across, top + box.bottom * down


def _facing(of_a: Edges, of_b: Edges, *, is_beside: bool) -> Edges:
    """The middles of the two edges that face each other."""
    if is_beside:
        return of_a[2], (of_a[1] + of_a[3]) / 2, of_b[0], (of_b[1] + of_b[3]) / 2
    return (of_a[0] + of_a[2]) / 2, of_a[3], (of_b[0] + of_b[2]) / 2, of_b[1]


def _box(box: Edges, number: int) -> Markup:
    left, top, right, bottom = box
    outline = {"x": left + 2, "y": top + 2, "width": right - left - 4, "height": bottom - top - 4}
    colour = colour_of(number)
    return join(
        [
            tag("rect", {**outline, "class": "edge", "stroke-width": 6}),
            tag("rect", {**outline, "fill": "none", "stroke": colour, "stroke-width": 3}),
            tag("rect", {"x": left, "y": top, "width": LABEL, "height": LABEL, "fill": colour}),
            tag("text", {"x": left + LABEL / 2, "y": top + LABEL / 2}, str(number)),
        ]
    )


def _heat(explanation: Explanation) -> Markup:
    largest = largest_heat(explanation)
    figures = [_overlaid(name, seen, seen.heat, largest, seen.name) for name, seen in (("a", explanation.a), ("b", explanation.b))]
    is_signed = min(explanation.a.heat.min(), explanation.b.heat.min()) < -largest / 50
    words = "What each place of an image adds to the similarity, with all of the other image."
    return tag(
        "section",
        {},
        tag("h2", {}, "Where the similarity comes from"),
        tag("p", {}, words),
        _scale(largest, "a place", is_signed=is_signed),
        tag("div", {"class": "charts"}, *figures),
    )


def _overlaid(name: str, seen: SeenImage, heat: Array, largest: float, caption: str) -> Markup:
    across, down = seen.picture.size
    small = round(LAYER_SIDE * across / max(across, down)), round(LAYER_SIDE * down / max(across, down))
    uri = "data:image/png;base64," + base64.b64encode(png_bytes(heat_layer(heat, largest, small))).decode()
    row, column = np.unravel_index(int(heat.argmax()), heat.shape)
    from_left, from_top = 100 * (column + 0.5) / heat.shape[1], 100 * (row + 0.5) / heat.shape[0]
    where = f"{caption}; most at {from_left:.0f} % from the left and {from_top:.0f} % from the top"
    drawing = tag(
        "svg",
        {"class": "heat", "viewBox": f"0 0 {across} {down}", "role": "img", "aria-label": where},
        tag("use", {"href": f"#seen-{name}", "style": "filter:grayscale(1)"}),
        tag("image", {"href": uri, "width": across, "height": down, "preserveAspectRatio": "none"}),
    )
    return tag("figure", {}, tag("figcaption", {}, caption), drawing)


def _scale(largest: float, unit: str, *, is_signed: bool) -> Markup:
    adds, takes = (f"rgb({' '.join(str(part) for part in colour.tolist())} / {MOST_COVER})" for colour in (ADDS, TAKES))
    start = f"{takes}, " if is_signed else ""
    ramp = tag("i", {"style": f"background:linear-gradient(to right, {start}transparent, {adds})"})
    least = _number(-largest, ".4f") if is_signed else "0"
    return tag("div", {"class": "scale"}, tag("span", {}, least), ramp, tag("span", {}, f"+{largest:.4f} {unit}"))


def _occlusion(explanation: Explanation) -> Markup:
    """What the network says itself when windows are covered."""
    seen = [("a", explanation.a, explanation.a.occlusion), ("b", explanation.b, explanation.b.occlusion)]
    covered = [(name, image, check) for name, image, check in seen if check is not None]
    largest = float(max(np.abs(check.by_place).max() for _, _, check in covered)) or 1e-12
    figures = []
    for name, image, check in covered:
        agrees = "cannot be told" if check.agreement is None else _number(check.agreement, ".2f")
        figures.append(_overlaid(name, image, check.by_place, largest, f"{image.name}: agreement {agrees}"))
    windows = count_of(covered[0][2].drops.size, "window", "windows")
    words = (
        f"An independent check: each image was covered by its mean colour in {windows}, one after the other, and embedded again. The "
        "colours show by how much the similarity falls, in the mean of the windows that cover a place. The agreement is the rank "
        "correlation, over the windows, of the fall with the sum of the parts above; 1 is full agreement. It need not be 1: a covered "
        "image is a new one, whose lengths and maxima are others."
    )
    is_signed = any(check.by_place.min() < -largest / 50 for _, _, check in covered)
    return tag(
        "section",
        {},
        tag("h2", {}, "What happens when it is covered"),
        tag("p", {}, words),
        _scale(largest, "when covered", is_signed=is_signed),
        tag("div", {"class": "charts"}, *figures),
    )


def _sum(explanation: Explanation) -> Markup:
    rows = [(name, _number(value, "+.4f")) for name, value in [*explanation.parts.items(), ("similarity", explanation.similarity)]]
    places = [f"{rows} x {columns}" for rows, columns in (explanation.a.grid, explanation.b.grid)]
    words = (
        f"The similarity is the sum over all {explanation.contributions.size:,} pairs of {places[0]} places of the first image and "
        f"{places[1]} of the second, and of what belongs to no place: biases and the whitening's mean. In the pictures above that is "
        "spread evenly over the places."
    )
    notes = [f"{note[:1].upper()}{note[1:]}." for note in explanation.notes]
    return tag(
        "section",
        {},
        tag("h2", {}, "The sum"),
        tag("p", {}, words),
        table({"class": "terms"}, ("of", "adds"), rows),
        tag("ul", {"class": "notes"}, *(tag("li", {}, note) for note in notes)),
    )


def _number(value: float, digits: str) -> str:
    return f"{value:{digits}}".replace("-", "\N{MINUS SIGN}")


def _jpeg_uri(picture: Image.Image) -> str:
    written = io.BytesIO()
    picture.save(written, "JPEG", quality=88)
    return "data:image/jpeg;base64," + base64.b64encode(written.getvalue()).decode()
