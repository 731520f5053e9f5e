"""The cache of packed images: each image file is decoded once, whatever is trained on it afterwards.

A packed file is named by what went in: the paths, the boxes, the size. Labels are the data set's, so that other labels for the same
files need no second packing. The size and time of change of every source file are in the index, and a checksum of its bytes that is
looked at where the system touched the file since: a file that was changed or removed is noticed, even at equal size and time, and the
whole is packed again in the same place. A packed file is written whole or not at all; one process at a time, the others wait and then use
what it wrote. What a killed run left behind goes when anything is next packed in the folder. An image whose pixels are not as they were
written is decoded again when it is first used.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
import numpy.typing as npt
import torch
from filelock import Timeout

from likewise.data.dataset import Dataset, Files, Pixels
from likewise.data.packing.decode import Undecodable, decode, resized_size
from likewise.data.packing.pack_workers import Decoded, Outcome, Settings, SourceChanged, SourceFile, num_bytes, pack_chunks, read_source
from likewise.data.packing.packed import (
    FORMAT_VERSION,
    HEAD,
    DamagedCache,
    NoneDecoded,
    PackedImages,
    PackedIndex,
    Problem,
    open_packed,
    pack_pixels,
    read_index,
    rewrite_index,
    write_index,
)
from likewise.environment import num_cores
from likewise.files import is_unfinished, locked, locked_telling, write_whole
from likewise.progress import ProgressCallback
from likewise.sealing import tell_mended

CHUNK_IMAGES = 32
CHUNK_BYTES = 32 * 2**20  # of files: a chunk of large photographs is cut shorter
IMAGES_PER_WORKER = 2000  # starting a process costs as much time as decoding so many: it imports torch


def cache_folder() -> Path:
    """$LIKEWISE_CACHE, or likewise in the user's cache folder."""
    given, users = os.environ.get("LIKEWISE_CACHE"), os.environ.get("XDG_CACHE_HOME")
    if given:
        return Path(given)
    try:
        return Path(users or Path.home() / ".cache") / "likewise"
    except RuntimeError as fault:
        raise ValueError("this user has no home folder to keep packed images in: set LIKEWISE_CACHE to a folder") from fault


def pack(
    dataset: Dataset,
    *,
    side: int | Literal["auto"] | None = "auto",
    enlarge: bool = True,
    folder: Path | str | None = None,
    strict: bool = False,
    workers: int | None = None,
    on_progress: ProgressCallback | None = None,
    verify: bool = False,
) -> PackedImages:
    """The images of a data set, decoded, the shorter side made `side`; from the cache where they are in it.

    side         "auto": 256 for files, their own size for images in memory; None: their own size.
    enlarge      False leaves images smaller than `side` as they are.
    folder       where packed files lie; `packed` in cache_folder() unless given.
    strict       an image that cannot be decoded is an error; otherwise it is left out and named in `skipped`.
    workers      processes; None: one for each core, fewer for few images.
    on_progress  is told how many images are packed; None: silent.
    verify       hold every cached image against its checksum; what is damaged is packed again.
    """
    if side != "auto" and side is not None and not (isinstance(side, int) and side >= 1):
        raise ValueError(f"side={side!r}: expected a number of pixels, None to keep each image's size, or 'auto'")
    if workers is not None and workers < 1:
        raise ValueError(f"workers={workers}: expected at least 1, or None for one a core")
    if len(dataset) == 0:
        raise ValueError(f"{dataset.name}: no images to pack")
    if isinstance(dataset.items, Pixels):
        return _pack_pixels(dataset.items, dataset.labels, None if side == "auto" else side, enlarge)
    if not isinstance(dataset.items, Files):
        raise ValueError(f"{dataset.name} holds features, not images: use them as they are, without packing")
    side = 256 if side == "auto" else side
    home = Path(folder) if folder is not None else cache_folder() / "packed"
    sources = source_files(dataset.items)
    target = home / f"{file_name_of(dataset.name)}-{_key(sources, side, enlarge)}.packed"
    mend = partial(_pixels_again, sources, side, enlarge)
    packed = _reusable(target, sources, dataset.labels, verify, mend)
    if packed is None:
        with _alone(target, on_progress):
            packed = _reusable(target, sources, dataset.labels, verify, mend)  # another process may have packed it meanwhile
            if packed is None:
                _remove_leftovers(home, but=target)
                _tell_if_damaged(target)
                _write(target, dataset.name, sources, side, enlarge, strict, _num_workers(workers, len(sources)), on_progress)
                packed = open_packed(target, read_index(target), dataset.labels, mend=mend)
    if strict and packed.skipped:
        raise ValueError(_strict_message(packed.skipped[0]))
    return packed


def _pack_pixels(items: Pixels, labels: npt.NDArray[np.int64], side: int | None, enlarge: bool) -> PackedImages:
    packed = pack_pixels(items.array, labels)
    size = (0, 0) if side is None else resized_size(int(packed.heights[0]), int(packed.widths[0]), side, enlarge=enlarge)
    if side is None or size == (int(packed.heights[0]), int(packed.widths[0])):
        return packed
    images = (packed.image(i)[None] for i in range(len(packed)))
    resized = [torch.nn.functional.interpolate(image, size=size, mode="bilinear", antialias=True)[0] for image in images]
    return pack_pixels(torch.stack(resized).permute(0, 2, 3, 1).contiguous().numpy(), labels)


def source_files(items: Files) -> list[SourceFile]:
    """The files as they are now: by absolute path, size and time of change."""
    boxes = items.boxes or (None,) * len(items)
    return [_source(Path(os.path.abspath(path)), box) for path, box in zip(items.paths, boxes, strict=True)]


def _source(path: Path, box: tuple[int, int, int, int] | None) -> SourceFile:
    try:
        status = path.stat()
    except OSError as fault:
        return SourceFile(path, box, -1, -1, f"cannot be read: {fault.strerror}")
    return SourceFile(path, box, status.st_size, status.st_mtime_ns, touched_ns=status.st_ctime_ns)


def _stamps(sources: list[SourceFile]) -> npt.NDArray[np.int64]:
    return np.array([(source.num_bytes, source.changed_ns) for source in sources], dtype=np.int64)


def _key(sources: list[SourceFile], side: int | None, enlarge: bool) -> str:
    digest = hashlib.sha256(repr((FORMAT_VERSION, side, enlarge)).encode())
    for source in sources:
        digest.update(os.fsencode(source.path) + b"\0" + repr(source.box).encode() + b"\n")
    return digest.hexdigest()[:24]


def file_name_of(name: str) -> str:
    """A data set's name as the start of a file's name."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name)[:40].strip("_") or "images"


def _num_workers(workers: int | None, num_images: int) -> int:
    if sys.platform == "win32":
        return 1  # a pipe cannot be handed over there as it is here
    if workers is not None:
        return min(workers, num_images)
    return max(1, min(num_cores(), num_images // IMAGES_PER_WORKER))


def _reusable(
    target: Path, sources: list[SourceFile], labels: npt.NDArray[np.int64], verify: bool, mend: Callable[[int], bytes | None]
) -> PackedImages | None:
    try:
        index = read_index(target)
        if not np.array_equal(index.stamps, _stamps(sources)) or not _are_unchanged(target, index, sources):
            return None
        packed = open_packed(target, index, labels, mend=mend)
        if verify:
            packed.verify()
        return packed
    except (FileNotFoundError, DamagedCache):
        return None
    except OSError as fault:
        raise OSError(fault.errno, f"the packed file cannot be read: {fault.strerror}", str(target)) from fault


def _are_unchanged(target: Path, index: PackedIndex, sources: list[SourceFile]) -> bool:
    """Whether sources of the same size and time still have the same bytes. Only those are read that the system touched since: a new
    name, another owner or a backup's link does that too, so that it is written down in the index when it was looked at.
    """
    if index.contents is None:  # of an earlier version
        return True
    touched = np.array([source.touched_ns for source in sources], dtype=np.int64)
    looked_at = np.flatnonzero((touched != index.contents[:, 0]) & (index.contents[:, 1] >= 0))
    for number in looked_at.tolist():
        try:
            if zlib.crc32(sources[number].path.read_bytes()) != index.contents[number, 1]:
                return False
        except OSError:
            return False
    if len(looked_at):
        contents = index.contents.copy()
        contents[:, 0] = touched
        with suppress(OSError):  # it is looked at again the next time
            rewrite_index(target, replace(index, contents=contents))
    return True


def _pixels_again(sources: list[SourceFile], side: int | None, enlarge: bool, number: int) -> bytes | None:
    """The pixels of an image as packing decodes it; None where its file is gone or was changed."""
    try:
        image = decode(read_source(sources[number]), side=side, enlarge=enlarge, box=sources[number].box)
    except (OSError, SourceChanged, Undecodable):
        return None
    return image.permute(1, 2, 0).contiguous().numpy().tobytes()


def _tell_if_damaged(target: Path) -> None:
    """Of a file that is about to be packed again."""
    try:
        read_index(target)
    except DamagedCache as damage:
        tell_mended(f"a packed file is damaged, and the images are packed again: {damage}")
    except OSError:
        pass


@contextmanager
def _alone(target: Path, on_progress: ProgressCallback | None) -> Iterator[None]:
    with ExitStack() as held:
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            waiting = f"waiting for another process that packs {target.name}"
            held.enter_context(locked_telling(_lock_of(target), waiting, on_progress))
        except OSError as fault:
            hint = "give another folder, or set LIKEWISE_CACHE"
            raise OSError(fault.errno, f"no packed file can be written here ({fault.strerror}): {hint}", str(target.parent)) from fault
        yield


def _lock_of(target: Path) -> Path:
    return target.with_name(f"{target.name}.lock")


def _remove_leftovers(home: Path, *, but: Path) -> None:
    """Unfinished files of runs that are gone: those whose lock is free. Ours is held by us."""
    for leftover in filter(is_unfinished, home.iterdir()):
        target = leftover.with_name(leftover.name[1:]).with_suffix("")
        if target == but:
            leftover.unlink(missing_ok=True)
            continue
        try:
            with locked(_lock_of(target), timeout=0):
                leftover.unlink(missing_ok=True)
        except (Timeout, OSError):
            continue


def _write(
    target: Path,
    name: str,
    sources: list[SourceFile],
    side: int | None,
    enlarge: bool,
    strict: bool,
    num_workers: int,
    on_progress: ProgressCallback | None,
) -> None:
    outcomes: list[Outcome] = []

    def write(file: BinaryIO) -> None:
        file.write(HEAD)
        file.flush()
        settings = Settings(Path(file.name), side, enlarge)
        with closing(pack_chunks(list(_chunks(sources)), settings, start=len(HEAD), num_workers=num_workers)) as packing:
            for done in packing:
                outcomes.extend(done)
                if strict:
                    _stop_at_fault(sources, outcomes, len(outcomes) - len(done))
                if on_progress is not None:
                    on_progress(f"packing {name}", len(outcomes), len(sources))
        index = _index(sources, outcomes)
        if not len(index.indices):
            raise NoneDecoded(f"{name}: none of {len(sources)} images can be packed", index.skipped)
        file.seek(0, os.SEEK_END)
        write_index(file, index)

    try:
        write_whole(target, write)
    except OSError as fault:
        if fault.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        size = num_bytes(outcomes) / 2**30
        hint = "free some space, or set LIKEWISE_CACHE to a folder on a larger disk"
        what = f"{os.strerror(fault.errno)} after {size:.2f} GiB of packed images: nothing was kept; {hint}"
        raise OSError(fault.errno, what, str(target.parent)) from fault


def _chunks(sources: list[SourceFile]) -> Iterator[list[SourceFile]]:
    chunk: list[SourceFile] = []
    size = 0
    for source in sources:
        if chunk and (len(chunk) == CHUNK_IMAGES or size + source.num_bytes > CHUNK_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(source)
        size += source.num_bytes
    yield chunk


def _stop_at_fault(sources: list[SourceFile], outcomes: list[Outcome], start: int) -> None:
    for number in range(start, len(outcomes)):
        outcome = outcomes[number]
        if isinstance(outcome, str):
            raise ValueError(_strict_message(Problem(sources[number].path, outcome)))


def _strict_message(problem: Problem) -> str:
    return f"{problem} (strict: repair or remove it, or pack without strict to leave it out)"


def _index(sources: list[SourceFile], outcomes: list[Outcome]) -> PackedIndex:
    kept = np.array([number for number, outcome in enumerate(outcomes) if isinstance(outcome, Decoded)], dtype=np.int64)
    images = [outcome for outcome in outcomes if isinstance(outcome, Decoded)]
    heights = np.array([image.height for image in images], dtype=np.int64)
    widths = np.array([image.width for image in images], dtype=np.int64)
    sizes = heights * widths * 3
    return PackedIndex(
        offsets=np.cumsum(sizes) - sizes,
        heights=heights,
        widths=widths,
        checksums=np.array([image.checksum for image in images], dtype=np.int64),
        indices=kept,
        stamps=_stamps(sources),
        skipped=tuple(Problem(sources[i].path, outcome) for i, outcome in enumerate(outcomes) if isinstance(outcome, str)),
        contents=np.array(
            [
                (source.touched_ns, outcome.content if isinstance(outcome, Decoded) else -1)
                for source, outcome in zip(sources, outcomes, strict=True)
            ],
            dtype=np.int64,
        ),
    )
