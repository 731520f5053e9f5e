"""Thumbnails: a small square of each image, for whoever looks at results where the images themselves are not at hand."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from likewise.data.packing.decode import decode

EDGE = 112  # pixels a side, as many as a report shows, or fewer where an image has no more
QUALITY = 85  # of JPEG


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """One a item, held as JPEG: a tenth of the memory of pixels, and less than the vectors beside them."""

    jpegs: tuple[bytes, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.jpegs)

    @property
    def edge(self) -> int:
        """The side of the largest."""
        return max(Image.open(io.BytesIO(jpeg)).width for jpeg in self.jpegs)

    def image(self, position: int) -> Tensor:
        """uint8 (3, side, side)."""
        return decode(self.jpegs[position], side=None)

    def subset(self, positions: npt.NDArray[np.int64]) -> Thumbnails:
        return Thumbnails(tuple(self.jpegs[position] for position in positions.tolist()))


def make_thumbnail(image: Tensor) -> bytes:
    """The thumbnail of an image uint8 (3, height, width)."""
    return _as_jpeg(_as_pillow(middle_square(image, min(EDGE, *image.shape[1:]))))


def fitting_jpeg(data: bytes, side: int) -> bytes:
    """The whole image in a file's bytes, made to fit into a square of this side, never larger than it is. Raises Undecodable."""
    image = _as_pillow(decode(data, side=side, enlarge=False))
    image.thumbnail((side, side))
    return _as_jpeg(image)


def _as_pillow(image: Tensor) -> Image.Image:
    return Image.fromarray(image.permute(1, 2, 0).contiguous().numpy())


def _as_jpeg(image: Image.Image) -> bytes:
    stored = io.BytesIO()
    image.save(stored, "JPEG", quality=QUALITY)
    return stored.getvalue()


def middle_square(image: Tensor, side: int) -> Tensor:
    """The middle square of an image uint8 (3, height, width), with this side."""
    height, width = image.shape[1:]
    edge = min(height, width)
    top, left = (height - edge) // 2, (width - edge) // 2
    cut = image[:, top : top + edge, left : left + edge]
    if edge == side:
        return cut
    resized = torch.nn.functional.interpolate(cut[None].contiguous(), size=(side, side), mode="bilinear", antialias=True)
    return resized[0]
