"""IDX files, in which MNIST is published: bytes in some dimensions, plain or gzipped."""

from __future__ import annotations

import gzip
import math
import zlib
from contextlib import nullcontext
from pathlib import Path
from typing import IO, cast

import numpy as np
import numpy.typing as npt

from likewise.formats.regular_file import UnreadableFile, opened, parsing, size_of
from likewise.formats.unpacking import require_room
from likewise.limits import require_within

REMEDY = "download it again"
BLOCK = 2**24  # bytes read at once


def read_idx(path: Path, *, num_dimensions: int) -> npt.NDArray[np.uint8]:
    """An IDX file of bytes: magic 0, 0, 8, dimensions; the sizes, four bytes each, most significant first; the values."""
    is_packed = path.suffix == ".gz"
    with parsing(path, "IDX file", REMEDY), opened(path) as plain:
        num_bytes = size_of(plain)
        require_within("file_bytes", num_bytes, f"{path} has bytes:")
        try:
            with gzip.open(plain, "rb") if is_packed else nullcontext(plain) as file:
                return _values(path, cast(IO[bytes], file), num_dimensions, num_bytes, is_packed=is_packed)
        except (EOFError, gzip.BadGzipFile, zlib.error) as fault:
            raise UnreadableFile(f"{path} is not a whole gzip file ({fault}): {REMEDY}") from fault


def _values(path: Path, file: IO[bytes], num_dimensions: int, num_bytes: int, *, is_packed: bool) -> npt.NDArray[np.uint8]:
    header = file.read(4 + 4 * num_dimensions)
    magic = int.from_bytes(header[:4], "big")
    expected = 0x0800 + num_dimensions
    if len(header) < 4 + 4 * num_dimensions or magic != expected:
        raise UnreadableFile(f"{path} is not an IDX file of bytes in {num_dimensions} dimensions: magic {magic}, expected {expected}")
    shape = tuple(int(size) for size in np.frombuffer(header, dtype=">u4", offset=4))
    size = math.prod(shape)
    if is_packed:
        require_room(path, size, num_bytes)
    else:
        _require_size(path, shape, num_bytes - len(header))
    blocks = [file.read(min(BLOCK, size - start)) for start in range(0, size, BLOCK)]
    _require_size(path, shape, sum(map(len, blocks)) + len(file.read(1)))
    return np.frombuffer(b"".join(blocks), dtype=np.uint8).reshape(shape)


def _require_size(path: Path, shape: tuple[int, ...], num_bytes: int) -> None:
    size = math.prod(shape)
    if num_bytes != size:
        actual = f"{num_bytes:,}" if num_bytes < size else "more"
        raise UnreadableFile(f"{path} announces {' x '.join(map(str, shape))} = {size:,} bytes but holds {actual}: {REMEDY}")
