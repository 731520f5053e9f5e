"""Contact sheet: samples of some classes, and the pictures that are there twice, as one image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageDraw, ImageFont

from likewise.data.dataset import Dataset, Features, Files
from likewise.data.doctor.dataset_report import KIND_WORDS, DatasetReport, Duplicate, NamedItem
from likewise.data.packing.decode import decode, image_bytes
from likewise.wording import printable

TILE, GAP, MARGIN, NAMES, TITLE = 112, 8, 24, 190, 60
GROUP_ROW = TILE + 88  # with two lines above and two below
GROUP_TILES = 4
INK, FAINT, ALARM, GROUND, EMPTY, FRAME = "#1a1a1a", "#6b6b6b", "#b3261e", "#ffffff", "#f1f1f1", "#d8d8d8"


def contact_sheet(
    dataset: Dataset, report: DatasetReport, *, num_classes: int = 12, num_images: int = 8, num_groups: int = 12
) -> Image.Image:
    """`num_classes` classes, evenly chosen, a row of images each; then the worst `num_groups` groups of duplicates side by side."""
    if isinstance(dataset.items, Features):
        raise ValueError(f"{dataset.name} holds features, not images: there is nothing to draw; leave the contact sheet out")
    broken = {entry.item.index for entry in report.broken}
    usable = np.array([i for i in range(len(dataset)) if i not in broken], dtype=np.int64)
    labels = np.unique(dataset.labels[usable])
    chosen = labels[_even(len(labels), num_classes)]
    width = NAMES + num_images * (TILE + GAP) - GAP
    groups = report.duplicates[:num_groups]
    rows = _in_rows(groups, width)
    height = 2 * MARGIN + TITLE + len(chosen) * (TILE + GAP) + (TITLE + len(rows) * GROUP_ROW if rows else 0)
    sheet = Image.new("RGB", (width + 2 * MARGIN, height), GROUND)
    draw = ImageDraw.Draw(sheet)
    large, plain, small = (_font(size) for size in (20, 14, 11))
    draw.text((MARGIN, MARGIN), dataset.name, fill=INK, font=large)
    counts = f"{report.num_items:,} images, {report.num_classes:,} classes; {len(chosen)} of them below"
    draw.text((MARGIN, MARGIN + 28), counts, fill=FAINT, font=plain)
    top = MARGIN + TITLE
    for label in chosen.tolist():
        members = usable[dataset.labels[usable] == label]
        end = _text(draw, (MARGIN, top + TILE // 2 - 22), dataset.class_names[label], plain, INK, NAMES - 12, lines=2)
        draw.text((MARGIN, end + 2), f"{len(members):,} images", fill=FAINT, font=small)
        for place, index in enumerate(members[_even(len(members), num_images)].tolist()):
            sheet.paste(_tile(dataset, index), (MARGIN + NAMES + place * (TILE + GAP), top))
        top += TILE + GAP
    if rows:
        title = "Duplicates" if len(groups) == len(report.duplicates) else f"Duplicates: {len(groups)} of {len(report.duplicates):,} groups"
        draw.text((MARGIN, top + 20), title, fill=INK, font=large)
        top += TITLE
    for row in rows:
        for left, group in row:
            shown = group.items[:GROUP_TILES]
            colour = ALARM if group.across_split or group.across_classes else FAINT
            more = f", {len(group.items) - len(shown):,} more" if len(group.items) > len(shown) else ""
            room = len(shown) * (TILE + GAP) - GAP
            _text(draw, (MARGIN + left, top), f"{KIND_WORDS[group.kind]}{more}", small, INK, room, lines=1)
            _text(draw, (MARGIN + left, top + 15), group.place, small, colour, room, lines=1)
            for place, item in enumerate(shown):
                corner = MARGIN + left + place * (TILE + GAP)
                sheet.paste(_tile(dataset, item.index), (corner, top + 34))
                _text(draw, (corner, top + 36 + TILE), _caption(item), small, FAINT, TILE, lines=2)
        top += GROUP_ROW
    return sheet


def _in_rows(groups: tuple[Duplicate, ...], width: int) -> list[list[tuple[int, Duplicate]]]:
    """The groups one beside the other, each with its left edge."""
    rows: list[list[tuple[int, Duplicate]]] = []
    left = 0
    for group in groups:
        room = min(len(group.items), GROUP_TILES) * (TILE + GAP) - GAP
        if not rows or left + room > width:
            rows.append([])
            left = 0
        rows[-1].append((left, group))
        left += room + 4 * GAP
    return rows


def _caption(item: NamedItem) -> str:
    return f"{item.part}: {item.class_name}" if item.part else item.class_name


def _even(count: int, wanted: int) -> npt.NDArray[np.int64]:
    """At most `wanted` places of 0 .. count - 1, evenly spread, the first among them."""
    return np.arange(count) if count <= wanted else np.arange(wanted) * count // wanted


def _tile(dataset: Dataset, index: int) -> Image.Image:
    items = dataset.items
    if isinstance(items, Files):
        box = None if items.boxes is None else items.boxes[index]
        pixels = decode(image_bytes(items.paths[index]), side=None, box=box).permute(1, 2, 0).numpy()
    else:
        pixels = items.array[index].astype(np.uint8)
    picture = Image.fromarray(np.ascontiguousarray(pixels)).convert("RGB")
    scale = TILE / max(picture.size)
    size = (max(1, round(picture.width * scale)), max(1, round(picture.height * scale)))
    picture = picture.resize(size, Image.Resampling.NEAREST if scale >= 2 else Image.Resampling.LANCZOS)
    tile = Image.new("RGB", (TILE, TILE), EMPTY)
    tile.paste(picture, ((TILE - size[0]) // 2, (TILE - size[1]) // 2))
    ImageDraw.Draw(tile).rectangle((0, 0, TILE - 1, TILE - 1), outline=FRAME)
    return tile


def _font(size: int) -> ImageFont.FreeTypeFont:
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)


def _text(
    draw: ImageDraw.ImageDraw, at: tuple[int, int], words: str, font: ImageFont.FreeTypeFont, colour: str, width: int, *, lines: int
) -> int:
    """Words in at most so many lines of this width; what does not fit ends in three dots. Where the next line would stand."""
    left = " ".join(printable(words).split())
    top = at[1]
    for line in range(lines):
        fits = len(left)
        while fits and draw.textlength(left[:fits], font=font) > width:
            fits -= 1
        if line == lines - 1 and fits < len(left):
            while fits and draw.textlength(left[:fits] + "...", font=font) > width:
                fits -= 1
            shown, left = left[:fits] + "...", ""
        else:
            mark = max(left.rfind(mark, 0, fits) for mark in " _-/") + 1
            end = mark if fits < len(left) and mark > fits // 2 else fits
            shown, left = left[:end], left[end:]
        draw.text((at[0], top), shown, fill=colour, font=font)
        top += round(1.25 * font.size)
        if not left:
            break
    return top
