"""PackedImages: decoded images one after the other in one uint8 buffer, in a mapped file, in memory or on a GPU.

The file: 64 bytes that name the format, the pixels (each image height x width x 3), the index (an .npz), and a tail of 48 bytes with the
index's length and SHA-256. It is complete or it does not open: the tail is written last. The index holds a CRC-32 of every image, which is
held against the pixels when they are first used (`ImageChecks`).
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import struct
import warnings
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.sealing import Damaged, tell_mended

FORMAT_VERSION = 1
HEAD = b"likewise packed images 1\n".ljust(64, b"\0")
TAIL = struct.Struct("<8sQ32s")  # mark, length of the index, its SHA-256
TAIL_MARK = b"LWPACKED"

Int64s = npt.NDArray[np.int64]


class DamagedCache(Damaged):
    """A packed file that is not as it was written."""


@dataclass(frozen=True)
class Problem:
    """An image that could not be packed."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"

    def as_json(self) -> dict[str, str]:
        return {"path": str(self.path), "reason": self.reason}


class NoneDecoded(ValueError):
    """Not one of some images can be decoded."""

    def __init__(self, message: str, problems: tuple[Problem, ...]) -> None:
        super().__init__(f"{message}; the first: {problems[0]}")
        self.problems = problems


def left_out(problems: Sequence[object], *, what: str = "images") -> str:
    """What to tell the user of images that could not be packed: how many, and the first with its reason."""
    if len(problems) == 1:
        return f"1 {what.removesuffix('s')} could not be decoded and was left out: {problems[0]}"
    return f"{len(problems):,} {what} could not be decoded and were left out, the first: {problems[0]}"


@dataclass(frozen=True, eq=False)
class ImageChecks:
    """Which images of a packed file were found to be as they were written: each is looked at once in a process, when it is first used."""

    path: Path
    offsets: Int64s  # (images of the file,) rising
    sizes: Int64s  # (images of the file,) bytes
    checksums: Int64s  # (images of the file,) CRC-32
    is_right: npt.NDArray[np.bool_]  # (images of the file,) those that were looked at
    inode: int  # of the file that the buffer is a map of: another one may have its name by now
    mend: Callable[[int], bytes | None] | None = None  # the pixels of an image of the file, decoded again; None: it cannot be

    def look_at(self, buffer: Tensor, offsets: Int64s) -> list[int]:
        """The numbers of images that are damaged for good among those that begin there; others were written again, and it was said."""
        numbers = np.searchsorted(self.offsets, offsets)
        if self.is_right[numbers].all():
            return []
        pixels = memoryview(buffer.numpy())  # type: ignore[arg-type]
        damaged = []
        for number in np.unique(numbers[~self.is_right[numbers]]).tolist():
            start, size = int(self.offsets[number]), int(self.sizes[number])
            if zlib.crc32(pixels[start : start + size]) == self.checksums[number] or self._is_mended(number, start):
                self.is_right[number] = True
            else:
                damaged.append(number)
        return damaged

    def _is_mended(self, number: int, start: int) -> bool:
        """Whether its pixels were decoded again from the file that they came from, and written where they were."""
        content = None if self.mend is None else self.mend(number)
        if content is None or zlib.crc32(content) != self.checksums[number]:
            return False
        try:
            with self.path.open("r+b") as file:
                if os.fstat(file.fileno()).st_ino != self.inode:
                    return False
                file.seek(len(HEAD) + start)
                file.write(content)
        except OSError:
            return False
        tell_mended(f"{self.path}: image {number} was damaged; it was decoded again, and the file is whole")
        return True


@dataclass(frozen=True, eq=False)
class PackedImages:
    """Labelled images of any sizes in one buffer. `indices` are the data set's numbers of the images that are here."""

    buffer: Tensor  # uint8 (bytes,); the rest stays on the CPU, where batches are planned
    offsets: Tensor  # int64 (images,) first byte of each image
    heights: Tensor  # int64 (images,)
    widths: Tensor  # int64 (images,)
    labels: Tensor  # int64 (images,) as the data set gave them
    indices: Tensor  # int64 (images,)
    skipped: tuple[Problem, ...] = ()
    path: Path | None = None
    checks: ImageChecks | None = field(default=None, repr=False)  # None: the buffer is not of a file

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def device(self) -> torch.device:
        return self.buffer.device

    @property
    def num_bytes(self) -> int:
        """Bytes of pixels of the images here, which may be fewer than the buffer holds."""
        return int((self.heights * self.widths).sum()) * 3

    @property
    def edge(self) -> int:
        """The shorter side of the image whose shorter side is the longest."""
        return int(torch.minimum(self.heights, self.widths).max())

    def image(self, position: int) -> Tensor:
        """uint8 (3, height, width): a view of the buffer, to be read only."""
        if not -len(self) <= position < len(self):
            raise IndexError(f"image {position} of {len(self)}")
        if self.checks is not None:
            self.look_at(np.array([position]))
        offset, height, width = int(self.offsets[position]), int(self.heights[position]), int(self.widths[position])
        return self.buffer[offset : offset + height * width * 3].view(height, width, 3).permute(2, 0, 1)

    def subset(self, positions: Tensor | Int64s) -> PackedImages:
        """The images at these positions, in this order, over the same buffer."""
        chosen = torch.as_tensor(positions, dtype=torch.int64)
        moved = {name: getattr(self, name)[chosen] for name in ("offsets", "heights", "widths", "labels", "indices")}
        return replace(self, **moved)

    def relabelled(self, labels: Tensor | Int64s) -> PackedImages:
        """The same images with other labels."""
        given = torch.as_tensor(labels, dtype=torch.int64)
        if given.shape != self.labels.shape:
            raise ValueError(f"labels of shape {tuple(given.shape)} for {len(self)} images: every image needs one label")
        return replace(self, labels=given)

    def to(self, device: torch.device | str) -> PackedImages:
        """With the buffer on the device: only the bytes of the images here, where this is a subset."""
        device = concrete_device(device)
        if device == self.device:
            return self
        if self.num_bytes != len(self.buffer):
            return self.compact(device)
        self.verify()
        return replace(self, buffer=self.buffer.to(device), checks=None)

    def compact(self, device: torch.device | str) -> PackedImages:
        """In a new buffer on the device, with the bytes of the images here and no others."""
        self.verify()
        sizes = self.heights * self.widths * 3
        offsets = sizes.cumsum(0) - sizes
        buffer = torch.empty(self.num_bytes, dtype=torch.uint8, device=device)
        for new, old, size in zip(offsets.tolist(), self.offsets.tolist(), sizes.tolist(), strict=True):
            buffer[new : new + size].copy_(self.buffer[old : old + size])
        return replace(self, buffer=buffer, offsets=offsets, checks=None)

    def verify(self) -> None:
        """Every image here is as it was written, or DamagedCache says which is not."""
        self.look_at(np.arange(len(self)))

    def look_at(self, positions: Int64s) -> None:
        """The same of some images: whoever reads the buffer itself asks before. Costs nothing for those that were looked at before."""
        if self.checks is None:
            return
        damaged = self.checks.look_at(self.buffer, self.offsets.numpy()[positions])
        if damaged:
            what = f"{len(damaged)} of {len(positions)} images looked at differ from their checksums, first number {damaged[0]}"
            raise DamagedCache(f"{self.path}: {what}; delete that file, and the images are packed again")


def concrete_device(device: torch.device | str) -> torch.device:
    """As a tensor names the device it is on: "cuda" is the current one by its number, a CPU has none."""
    given = torch.device(device)
    if given.type == "cpu":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device()) if given.type == "cuda" and given.index is None else given


@dataclass(frozen=True, eq=False)
class PackedIndex:
    """What the file says of its images and of the files they came from."""

    offsets: Int64s
    heights: Int64s
    widths: Int64s
    checksums: Int64s
    indices: Int64s
    stamps: Int64s  # (items of the data set, 2) size and time of change of each source file
    skipped: tuple[Problem, ...]
    contents: Int64s | None = None  # (items of the data set, 2) when the system last changed each source, and CRC-32 of its bytes or -1


def write_index(file: BinaryIO, index: PackedIndex) -> None:
    """Index and tail, at the file's position."""
    stored = io.BytesIO()
    names = ("offsets", "heights", "widths", "checksums", "indices", "stamps", "contents")
    arrays = {name: getattr(index, name) for name in names if getattr(index, name) is not None}
    skipped = json.dumps([[os.fsdecode(problem.path), problem.reason] for problem in index.skipped]).encode()
    np.savez(stored, skipped=np.frombuffer(skipped, dtype=np.uint8), **arrays)
    content = stored.getvalue()
    file.write(content)
    file.write(TAIL.pack(TAIL_MARK, len(content), hashlib.sha256(content).digest()))


def rewrite_index(path: Path, index: PackedIndex) -> None:
    """The index in the place of one with as many images and items, which takes as many bytes. If this is cut short, it is packed anew."""
    with path.open("r+b") as file:
        file.seek(len(HEAD) + int((index.heights * index.widths).sum()) * 3)
        write_index(file, index)


def read_index(path: Path) -> PackedIndex:
    """The index, after its checksum and the file's length were found right. Raises DamagedCache, or OSError."""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        if size < len(HEAD) + TAIL.size:
            raise DamagedCache(f"{path}: only {size} bytes")
        file.seek(size - TAIL.size)
        mark, length, digest = TAIL.unpack(file.read(TAIL.size))
        file.seek(0)
        if mark != TAIL_MARK or length > size - len(HEAD) - TAIL.size or file.read(len(HEAD)) != HEAD:
            raise DamagedCache(f"{path}: not a packed file of format {FORMAT_VERSION}, or cut off")
        file.seek(size - TAIL.size - length)
        content = file.read(length)
    if hashlib.sha256(content).digest() != digest:
        raise DamagedCache(f"{path}: the index differs from its checksum")
    with np.load(io.BytesIO(content), allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    skipped = tuple(Problem(Path(where), reason) for where, reason in json.loads(arrays.pop("skipped").tobytes()))
    index = PackedIndex(**arrays, skipped=skipped)
    if len(HEAD) + int((index.heights * index.widths).sum()) * 3 + length + TAIL.size != size:
        raise DamagedCache(f"{path}: {size} bytes are not what the index adds up to")
    return index


def open_packed(path: Path, index: PackedIndex, labels: Int64s, *, mend: Callable[[int], bytes | None] | None = None) -> PackedImages:
    """The file mapped into memory, `labels` those of the whole data set.

    mend: the pixels of an image, by its number in the data set, decoded again.
    """
    sizes = index.heights * index.widths * 3
    of_file = None if mend is None else lambda number: mend(int(index.indices[number]))
    return PackedImages(
        buffer=_mapped(path, int(sizes.sum())),
        offsets=torch.from_numpy(index.offsets),
        heights=torch.from_numpy(index.heights),
        widths=torch.from_numpy(index.widths),
        labels=torch.from_numpy(labels[index.indices]),
        indices=torch.from_numpy(index.indices),
        skipped=index.skipped,
        path=path,
        checks=ImageChecks(path, index.offsets, sizes, index.checksums, np.zeros(len(sizes), dtype=bool), path.stat().st_ino, of_file),
    )


def _mapped(path: Path, num_bytes: int) -> Tensor:
    if num_bytes == 0:
        return torch.empty(0, dtype=torch.uint8)
    pixels = np.memmap(path, dtype=np.uint8, mode="r", offset=len(HEAD), shape=(num_bytes,))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch has no read-only tensors and says so; a private writable map would have to fit in memory
        return torch.from_numpy(pixels)


def pack_pixels(array: npt.NDArray[np.uint8], labels: Int64s) -> PackedImages:
    """Images of one size that are in memory already: (images, height, width) grey or (images, height, width, 3)."""
    if array.dtype != np.uint8 or array.ndim not in (3, 4) or (array.ndim == 4 and array.shape[3] != 3) or 0 in array.shape:
        raise ValueError(f"pixels must be uint8 (images, height, width) or (images, height, width, 3), not {array.dtype} {array.shape}")
    colour = array if array.ndim == 4 else np.repeat(array[..., None], 3, axis=3)
    num, height, width, _ = colour.shape
    return PackedImages(
        buffer=torch.from_numpy(np.array(colour).reshape(-1)),
        offsets=torch.arange(num) * (height * width * 3),
        heights=torch.full((num,), height),
        widths=torch.full((num,), width),
        labels=torch.from_numpy(np.array(labels)),
        indices=torch.arange(num),
    )
