"""Thumbnails: the test images small and square, for the report."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import torch

from likewise.data.packed import PackedImages
from likewise.training.feeds import Feed

SIDE, SMALL_SIDE = 64, 32
MANY = 20_000  # items, beyond which they are smaller


def write_thumbnails(feed: Feed, path: Path) -> Path | None:
    """uint8 (items, side, side, 3) as .npy, the middle square of each image; None for vectors. Images smaller than the side stay so."""
    if not isinstance(feed.source, PackedImages):
        return None
    packed = feed.source
    side = min(SIDE if len(feed) <= MANY else SMALL_SIDE, int(torch.minimum(packed.heights, packed.widths).max()))
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(f"{path.name}.{os.getpid()}.part")
    with part.open("wb") as file:  # not through a map of the file: on a full disk that kills the process
        np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": (len(feed), side, side, 3)})
        for position in range(len(feed)):
            file.write(_square(packed.image(position), side).permute(1, 2, 0).contiguous().numpy().tobytes())
    part.replace(path)
    return path


def _square(image: torch.Tensor, side: int) -> torch.Tensor:
    """The middle square of an image uint8 (3, height, width), with this side."""
    height, width = image.shape[1:]
    edge = min(height, width)
    top, left = (height - edge) // 2, (width - edge) // 2
    cut = image[:, top : top + edge, left : left + edge]
    if edge == side:
        return cut
    resized = torch.nn.functional.interpolate(cut[None].contiguous(), size=(side, side), mode="bilinear", antialias=True)
    return resized[0]
