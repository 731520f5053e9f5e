"""Images in files or in Pillow's hands, decoded batch by batch just as packing decodes them, without the cache."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from PIL import Image
from torch import Tensor

from likewise.data.decode import Undecodable, decode, from_pillow
from likewise.data.packed import PackedImages

Picture = str | Path | Image.Image


def packed_batches(pictures: Sequence[Picture], *, side: int | None, batch: int) -> Iterator[PackedImages]:
    """The pictures in order, `batch` at a time. A ValueError names a picture that cannot be decoded.

    One after the other: decoding silences warnings, which Python cannot do for one thread alone. A large set is better handed over as a
    Dataset, which packing decodes on all cores.
    """
    for start in range(0, len(pictures), batch):
        yield pack_images([_pixels(pictures[number], number, side) for number in range(start, min(start + batch, len(pictures)))])


def pack_images(images: Sequence[Tensor]) -> PackedImages:
    """Images uint8 (3, height, width) of any sizes in one buffer, all with label 0."""
    heights, widths = (torch.tensor([image.shape[axis] for image in images]) for axis in (1, 2))
    sizes = heights * widths * 3
    return PackedImages(
        buffer=torch.cat([image.permute(1, 2, 0).reshape(-1) for image in images]),
        offsets=sizes.cumsum(0) - sizes,
        heights=heights,
        widths=widths,
        labels=torch.zeros_like(sizes),
        indices=torch.arange(len(images)),
    )


def _pixels(picture: Picture, number: int, side: int | None) -> Tensor:
    try:
        if isinstance(picture, Image.Image):
            return from_pillow(picture, side=side)
        return decode(Path(picture).read_bytes(), side=side)
    except (Undecodable, OSError) as fault:
        name = f"image {number}" if isinstance(picture, Image.Image) else str(picture)
        reason = fault.strerror if isinstance(fault, OSError) else fault
        raise ValueError(f"{name} cannot be embedded: {reason}; repair it or leave it out") from fault
