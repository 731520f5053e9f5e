"""Maps of the mid tap: what a backbone computes before its last stage, once for every training image and its mirror image.

The file ends with the SHA-256 of the maps, which is held against them before they are used again.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import torch
from torch import Tensor

from likewise.data.packing.packed import PackedImages
from likewise.files import write_whole
from likewise.models.embedding import evaluating, packed_inputs
from likewise.models.network import Member, Network
from likewise.progress import ProgressCallback
from likewise.sealing import DIGEST_SIZE, tell_mended
from likewise.training.feeds import Feed
from likewise.wording import bytes_in_words

BATCH = 16
MOST_BYTES = 2 * 2**30
READ_AT_ONCE = 2**24  # bytes


def mid_maps(feed: Feed, network: Network, augmentation: str, *, folder: Path, on_progress: ProgressCallback | None = None) -> Feed:
    """The feed of images as maps (items, channels, height, width) float16, with the mirror image as a second view.

    They lie in a file that is mapped into memory, and is used again if it is as it was written.
    """
    shape = (len(feed), *_both(network, feed.subset(np.zeros(1, np.int64)), augmentation).shape[1:])
    num_bytes = 2 * int(np.prod(shape))
    if num_bytes > MOST_BYTES:
        raise ValueError(
            f"the maps before the last stage of {len(feed):,} images would take {bytes_in_words(num_bytes)}, and at most "
            f"{bytes_in_words(MOST_BYTES)} are kept: a GPU fine-tunes without them"
        )
    path = folder / f"{'x'.join(map(str, shape))}.float16"
    if not is_whole_maps_file(path):
        if path.exists():
            tell_mended(f"{path} was damaged: the maps are computed again")
        write_whole(path, lambda file: _write(file, feed, network, augmentation, on_progress))
    return _of_maps(feed, torch.from_numpy(np.memmap(path, np.float16, mode="c", shape=shape)))


def is_whole_maps_file(path: Path) -> bool:
    """Whether a file of maps is there and as it was written."""
    if not path.is_file() or path.stat().st_size < DIGEST_SIZE:
        return False
    digest, left = hashlib.sha256(), path.stat().st_size - DIGEST_SIZE
    with path.open("rb") as file:
        while part := file.read(min(left, READ_AT_ONCE)):
            digest.update(part)
            left -= len(part)
        return file.read() == digest.digest()


def few_mid_maps(feed: Feed, network: Network, augmentation: str) -> Feed:
    """The same in memory, for a few images."""
    return _of_maps(feed, _both(network, feed, augmentation))


def _of_maps(feed: Feed, views: Tensor) -> Feed:
    return replace(feed, source=views[:, 0], views=views)


def _write(file: BinaryIO, feed: Feed, network: Network, augmentation: str, on_progress: ProgressCallback | None) -> None:
    digest = hashlib.sha256()
    for part in np.array_split(np.arange(len(feed)), max(1, len(feed) // BATCH)):
        maps = _both(network, feed.subset(part), augmentation).numpy().tobytes()
        file.write(maps)
        digest.update(maps)
        if on_progress is not None:
            on_progress("maps before the last stage", int(part[-1]) + 1, len(feed))
    file.write(digest.digest())


@torch.no_grad()
def _both(network: Network, feed: Feed, augmentation: str) -> Tensor:
    """(items, 2, channels, height, width) float16: of each image and of its mirror image."""
    assert isinstance(feed.source, PackedImages)
    member = network.members[0]
    assert isinstance(member, Member)
    with evaluating(network):
        parts = [
            torch.stack([member.backbone(seen, ("mid",))[0] for seen in (inputs, inputs.flip(-1))], dim=1).half()
            for inputs in packed_inputs(feed.source, augmentation, batch=BATCH, device="cpu")
        ]
    return torch.cat(parts).contiguous()
