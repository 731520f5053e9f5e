"""In-Shop Clothes Retrieval (DeepFashion): 7,982 items of clothing; the test part is queries against a separate gallery."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from likewise.checks import known_name
from likewise.data.dataset import Box, Dataset, Part
from likewise.data.readers.listing import ListedImage, Published, columns, dataset_of, text_lines, whole
from likewise.wording import quoted

PUBLISHED = {"train": Published(25_882, 3_997), "query": Published(14_218, 3_985), "gallery": Published(12_612, 3_985)}
_PARTITION, _BOXES = "list_eval_partition.txt", "list_bbox_inshop.txt"


def recognises_inshop(path: Path) -> bool:
    partition = _find(path, _PARTITION)
    if partition is None:
        return False
    with partition.open(encoding="utf-8", errors="replace") as file:  # other DeepFashion sets have a list of this name too
        return "item_id" in file.readline() + file.readline()


def read_inshop(path: Path, *, boxes: bool = False, strict: bool = False) -> Dataset:
    """list_eval_partition.txt (image_name item_id evaluation_status), at the top or in Eval/; images in img/ or Img/img/.

    boxes: cut to list_bbox_inshop.txt (at the top or in Anno/); the usual protocol does not.
    """
    partition = _find(path, _PARTITION)
    if partition is None:
        raise ValueError(f"{path} is not In-Shop: expected {_PARTITION} there or in Eval/")
    lines = _below_header(partition, "image_name item_id evaluation_status")
    box_of = _boxes(path) if boxes else {}
    root = path / "Img" if (path / "Img" / "img").is_dir() else path
    rows = []
    for image, item, status in columns(partition, lines, 3, first_line=3):
        if status not in ("train", "query", "gallery"):
            known_name(f"evaluation_status in {partition}", status, ("train", "query", "gallery"))
        if boxes and image not in box_of:
            raise ValueError(f"{path}: {quoted(image)} has no box in {_BOXES}: the files belong to different versions")
        rows.append(ListedImage(root / image, item, cast(Part, status), box_of.get(image)))
    return dataset_of("inshop", rows, strict=strict, published=PUBLISHED)


def _find(path: Path, name: str) -> Path | None:
    places = (path / name, path / "Eval" / name, path / "Anno" / name)
    return next((place for place in places if place.is_file()), None)


def _below_header(file: Path, header: str) -> list[str]:
    """The lines below the two of the header: how many there are, and the names of the columns."""
    lines = text_lines(file)
    if len(lines) < 2 or lines[1].split() != header.split():
        raise ValueError(f"{file}, line 2: {quoted(lines[1] if len(lines) > 1 else '')}: expected the header {header!r}")
    if whole(file, lines[0].strip()) != len(lines) - 2:
        raise ValueError(f"{file} says it lists {lines[0].strip()[:20]} images, but has {len(lines) - 2} lines: download it again")
    return lines[2:]


def _boxes(path: Path) -> dict[str, Box]:
    file = _find(path, _BOXES)
    if file is None:
        raise ValueError(f"boxes=True needs {_BOXES} in {path} or in Anno/, which is not there")
    boxes: dict[str, Box] = {}
    for image, _, _, *corners in columns(file, _below_header(file, "image_name clothes_type pose_type x_1 y_1 x_2 y_2"), 7, first_line=3):
        left, top, right, bottom = (whole(file, corner) for corner in corners)
        boxes[image] = left, top, right, bottom
    return boxes
