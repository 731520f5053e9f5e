"""Images decoded a few at a time, just as packing decodes them, without the packed cache: of a data set, of files, or in Pillow's hands."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import torch
from PIL import Image
from torch import Tensor

from likewise.data.dataset import Dataset, Files, Pixels
from likewise.data.packing.cache import pack, source_files
from likewise.data.packing.decode import Undecodable, decode, from_pillow, image_bytes
from likewise.data.packing.pack_workers import SourceFile, read_source
from likewise.data.packing.packed import PackedImages

Picture = str | Path | Image.Image
FILE_SIDE = 256  # what side="auto" means for files, as in packing


@dataclass(frozen=True)
class DatasetImage:
    """An image of a data set, not yet decoded."""

    key: bytes  # names the file as it is now, or the pixels: a changed image has another
    path: Path
    load: Callable[[], Tensor]  # uint8 (3, height, width); raises Undecodable or OSError
    fault: str = ""  # why it cannot be read, where that is known already


class Unreadable(str):
    """Why a file could not be read this time; the next time it may be there."""


def images_of(dataset: Dataset, side: int | Literal["auto"] | None) -> list[DatasetImage]:
    """The images of a data set in its order, the shorter side to become `side`, as packing has it."""
    if len(dataset) == 0:
        raise ValueError(f"{dataset.name}: there are no images in it")
    if isinstance(dataset.items, Files):
        pixels = pixels_a_side(dataset, side)
        return [_of_file(source, pixels) for source in source_files(dataset.items)]
    if not isinstance(dataset.items, Pixels):
        raise ValueError(f"{dataset.name} holds features, not images: use them as they are")
    packed = pack(dataset, side=side)
    return [
        DatasetImage(_key(repr(array.shape).encode() + array.tobytes()), Path(f"item {number}"), partial(packed.image, number))
        for number, array in enumerate(dataset.items.array)
    ]


def _of_file(source: SourceFile, side: int | None) -> DatasetImage:
    identity = os.fsencode(source.path) + repr((source.box, source.num_bytes, source.changed_ns)).encode()

    def load() -> Tensor:
        return decode(read_source(source), side=side, box=source.box)

    return DatasetImage(_key(identity), source.path, load, source.fault)


def _key(identity: bytes) -> bytes:
    return hashlib.blake2b(identity, digest_size=16).digest()


def pixels_a_side(dataset: Dataset, side: int | Literal["auto"] | None) -> int | None:
    """What "auto" means for the data set."""
    if side == "auto":
        return FILE_SIDE if isinstance(dataset.items, Files) else None
    return side


def loaded(image: DatasetImage) -> Tensor | str:
    """Its pixels, or the reason why not."""
    try:
        return image.load()
    except Undecodable as fault:
        return str(fault)
    except OSError as fault:
        return Unreadable(f"cannot be read: {fault.strerror or fault}")


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
        return decode(image_bytes(Path(picture)), side=side)
    except (Undecodable, OSError) as fault:
        name = f"image {number}" if isinstance(picture, Image.Image) else str(picture)
        if isinstance(fault, FileNotFoundError):
            raise ValueError(f"{name} is not there: expected an image file") from fault
        reason = fault.strerror if isinstance(fault, OSError) else fault
        raise ValueError(f"{name} cannot be embedded: {reason}; repair it or leave it out") from fault
