"""Thumbnails: a small square of each image, for whoever looks at results where the images themselves are not at hand."""

from __future__ import annotations

import io
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from likewise.data.decode import decode

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
    square = middle_square(image, min(EDGE, *image.shape[1:]))
    stored = io.BytesIO()
    Image.fromarray(square.permute(1, 2, 0).contiguous().numpy()).save(stored, "JPEG", quality=QUALITY)
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
