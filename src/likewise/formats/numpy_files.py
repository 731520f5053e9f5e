"""numpy's files: .npy, and .npz, a zip file of them. Sizes are held against what the file holds before memory is taken for them.

Nothing pickled is ever loaded. Arrays come in the machine's byte order, no wider than 64 bits a number,
and bytes as text.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from likewise.formats.regular_file import opened, parsing, size_of
from likewise.formats.unpacking import require_room
from likewise.limits import require_within

Array = npt.NDArray[Any]

FILE, ARCHIVE = "numpy file", "numpy archive"
SAVE_FILE = "expected what numpy.save writes for numbers or text"
SAVE_ARCHIVE = "expected what numpy.savez writes for numbers or text"
ENDING = ".npy"  # of what is in an archive
LAST_LETTER = 0x10FFFF  # of Unicode
ZIP_START, FILE_START = b"PK\x03\x04", b"\x93NUMPY"


@dataclass(frozen=True)
class ArrayHeader:
    """What an array says of itself before its numbers."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    is_fortran: bool

    @property
    def num_bytes(self) -> int:
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy(path: Path) -> Array:
    """The array in the file."""
    with parsing(path, FILE, SAVE_FILE), opened(path) as file:
        size = size_of(file)
        require_within("file_bytes", size, f"{path} has bytes:")
        header = _header(file)
        return _numbers(file, header, size - file.tell())


def map_npy(path: Path) -> Array:
    """The array in the file, read from the disk as it is looked at."""
    with parsing(path, FILE, SAVE_FILE), opened(path) as file:
        header = _header(file)
        _require_there(header, size_of(file) - file.tell())
        order = "F" if header.is_fortran else "C"
        return np.memmap(path, header.dtype, "r", offset=file.tell(), shape=header.shape, order=order)  # type: ignore[call-overload,no-any-return]


class NumpyArchive:
    """An open .npz file."""

    def __init__(self, path: Path, file: zipfile.ZipFile) -> None:
        self.path, self._file = path, file
        entries = [entry for entry in file.infolist() if not entry.is_dir()]
        require_within("columns", len(entries), f"{path} has arrays:")
        self._entries = {entry.filename.removesuffix(ENDING): entry for entry in entries}

    @property
    def names(self) -> list[str]:
        return list(self._entries)

    def __contains__(self, name: object) -> bool:
        return name in self._entries

    def header(self, name: str) -> ArrayHeader:
        """Shape and kind of an array, of which nothing else is read."""
        with self._opened(name) as file:
            return _header(file)

    def array(self, name: str) -> Array:
        with self._opened(name) as file:
            header = _header(file)
            return _numbers(file, header, self._entries[name].file_size - file.tell())

    @contextmanager
    def _opened(self, name: str) -> Iterator[IO[bytes]]:
        with parsing(self.path, f"{ARCHIVE}: array {name!r}", SAVE_ARCHIVE):
            entry = self._entries[name]
            if entry.flag_bits & 1:
                raise ValueError("it is encrypted")
            require_room(self.path, entry.file_size, entry.compress_size)
            with self._file.open(entry) as file:
                yield file


@contextmanager
def open_npz(path: Path) -> Iterator[NumpyArchive]:
    """The archive, whose arrays are read when they are asked for."""
    with ExitStack() as held:
        with parsing(path, ARCHIVE, SAVE_ARCHIVE):
            file = held.enter_context(opened(path))
            require_within("file_bytes", size_of(file), f"{path} has bytes:")
            if file.read(len(FILE_START)) == FILE_START:
                raise ValueError("it is a single array: name it .npy")
            archive = NumpyArchive(path, zipfile.ZipFile(file))
        yield archive


def read_npz(path: Path) -> dict[str, Array]:
    """All arrays of the archive."""
    with open_npz(path) as archive:
        return {name: archive.array(name) for name in archive.names}


def _header(file: IO[bytes]) -> ArrayHeader:
    start = file.read(8)
    if start.startswith(ZIP_START):
        raise ValueError("it is an archive: name it .npz")
    if start[: len(FILE_START)] != FILE_START or len(start) < 8:
        raise ValueError("it does not begin as such a file does")
    read = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}.get(start[6])
    if read is None:
        raise ValueError(f"it is of version {start[6]}, which holds tables or what is newer than this")
    shape, is_fortran, dtype = read(file)
    if dtype.kind not in "biufSU" or dtype.subdtype is not None:
        raise ValueError(f"it holds {dtype}, neither numbers nor text")
    if any(isinstance(size, bool) or size < 0 for size in shape) or (not dtype.itemsize and 0 not in shape):
        raise ValueError(f"it says it is of shape {shape}")
    if shape:
        require_within("rows", shape[0], "it says it has rows:")
    return ArrayHeader(tuple(shape), dtype, is_fortran)


def _require_there(header: ArrayHeader, num_bytes: int) -> None:
    if header.num_bytes > num_bytes:
        raise ValueError(
            f"it says it holds {' x '.join(map(str, header.shape))} values, {header.num_bytes:,} bytes, but {max(0, num_bytes):,} are left"
        )


def _numbers(file: IO[bytes], header: ArrayHeader, num_bytes: int) -> Array:
    """What comes after the header; `num_bytes` are left of the file."""
    _require_there(header, num_bytes)
    flat = np.empty(math.prod(header.shape), dtype=header.dtype)
    view, filled = memoryview(flat.view(np.uint8)), 0  # type: ignore[arg-type]
    while filled < len(view):
        count = file.readinto(view[filled : filled + 2**24])  # type: ignore[attr-defined]
        if not count:
            raise ValueError(f"it ends after {filled:,} of {len(view):,} bytes")
        filled += count
    if isinstance(file, zipfile.ZipExtFile):
        file.read(1)  # the end, where the checksum is compared
    if header.dtype.kind == "U" and flat.size and flat.view(f"{header.dtype.byteorder}u4").max() > LAST_LETTER:
        raise ValueError("its text has letters that there are not")
    array = flat.reshape(header.shape[::-1]).T if header.is_fortran else flat.reshape(header.shape)
    if header.dtype.kind == "f" and header.dtype.itemsize > 8:
        with np.errstate(over="ignore"):  # what overflows is infinite, and found as that
            return array.astype(np.float64)
    if header.dtype.kind == "S":
        return np.char.decode(array, "utf-8")
    return array if header.dtype.isnative else array.astype(header.dtype.newbyteorder("="))
