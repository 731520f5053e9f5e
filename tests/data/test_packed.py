"""PackedImages: what goes in comes out, and damage is seen."""

import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from likewise.data.batches import make_batch
from likewise.data.packing.packed import (
    HEAD,
    DamagedCache,
    PackedImages,
    PackedIndex,
    Problem,
    open_packed,
    pack_pixels,
    read_index,
    write_index,
)

SIZES = [(5, 7), (3, 3), (8, 2), (1, 1), (4, 6)]


def images() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.integers(0, 256, (height, width, 3), dtype=np.uint8) for height, width in SIZES]


def written(path: Path) -> Path:
    arrays = images()
    sizes = np.array([array.size for array in arrays], dtype=np.int64)
    index = PackedIndex(
        offsets=np.cumsum(sizes) - sizes,
        heights=np.array([array.shape[0] for array in arrays], dtype=np.int64),
        widths=np.array([array.shape[1] for array in arrays], dtype=np.int64),
        checksums=np.array([zlib.crc32(array.tobytes()) for array in arrays], dtype=np.int64),
        indices=np.array([0, 1, 3, 4, 5], dtype=np.int64),
        stamps=np.arange(12, dtype=np.int64).reshape(6, 2),
        skipped=(Problem(Path("/odd \udcff/\u00e9.png"), "why"),),
    )
    with path.open("wb") as file:
        file.write(HEAD)
        for array in arrays:
            file.write(array.tobytes())
        write_index(file, index)
    return path


def opened(path: Path) -> PackedImages:
    return open_packed(path, read_index(path), np.arange(10, 16, dtype=np.int64))


def test_what_is_written_is_read(tmp_path: Path) -> None:
    packed = opened(written(tmp_path / "a"))
    assert len(packed) == 5
    for position, array in enumerate(images()):
        assert np.array_equal(packed.image(position).permute(1, 2, 0).numpy(), array)
    assert np.array_equal(packed.image(-1).permute(1, 2, 0).numpy(), images()[-1])
    assert packed.labels.tolist() == [10, 11, 13, 14, 15]
    assert packed.skipped == (Problem(Path("/odd \udcff/\u00e9.png"), "why"),)
    assert packed.num_bytes == len(packed.buffer)
    packed.verify()
    with pytest.raises(IndexError):
        packed.image(5)


def test_subset_and_compact(tmp_path: Path) -> None:
    packed = opened(written(tmp_path / "a"))
    part = packed.subset(np.array([4, 0, 2]))
    assert part.labels.tolist() == [15, 10, 13]
    assert part.indices.tolist() == [5, 0, 3]
    assert part.buffer is packed.buffer
    alone = part.compact("cpu")
    assert len(alone.buffer) == part.num_bytes == sum(images()[i].size for i in (4, 0, 2))
    for one in (part, alone):
        one.verify()
        for position, source in enumerate((4, 0, 2)):
            assert torch.equal(one.image(position), packed.image(source))
    assert part.to("cpu") is part.to("cpu:0") is part
    assert part.to("meta").buffer.shape == alone.buffer.shape  # a subset takes only its own bytes along


def test_other_labels(tmp_path: Path) -> None:
    packed = opened(written(tmp_path / "a")).relabelled(torch.tensor([1, 1, 0, 0, 2]))
    assert packed.labels.tolist() == [1, 1, 0, 0, 2]
    with pytest.raises(ValueError, match="for 5 images"):
        packed.relabelled(torch.tensor([1]))


def test_every_damaged_byte_of_index_and_tail_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    whole = path.read_bytes()
    pixels = sum(array.size for array in images())
    for place in [*range(0, 25), *range(len(HEAD) + pixels, len(whole), 3)]:
        damaged = bytearray(whole)
        damaged[place] ^= 1
        path.write_bytes(damaged)
        with pytest.raises(DamagedCache):
            read_index(path)


@pytest.mark.parametrize("keep", [0, 10, 64, 100, 300, -1, -48, -49])
def test_a_file_cut_off_does_not_open(tmp_path: Path, keep: int) -> None:
    path = written(tmp_path / "a")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(DamagedCache):
        read_index(path)


def test_bytes_too_many_are_seen(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    path.write_bytes(HEAD + b"\0" + path.read_bytes()[len(HEAD) :])
    with pytest.raises(DamagedCache, match="adds up"):
        read_index(path)


def test_a_damaged_image_is_seen(tmp_path: Path) -> None:
    path = written(tmp_path / "a")
    whole = bytearray(path.read_bytes())
    whole[len(HEAD) + images()[0].size + 2] ^= 128  # in the second image
    path.write_bytes(whole)
    packed = opened(path)
    assert np.array_equal(packed.image(0).permute(1, 2, 0).numpy(), images()[0])  # of the others each is looked at before it is used
    for use in (lambda: packed.image(1), packed.verify, lambda: packed.compact("cpu"), lambda: packed.subset(np.array([4, 1])).to("meta")):
        with pytest.raises(DamagedCache, match=r"1 of \d images .* first number 1; delete that file"):
            use()
    for batch in ([0, 1], [1]):
        with pytest.raises(DamagedCache, match="first number 1"):
            make_batch(packed, batch, "whole28")
    assert make_batch(packed, [0, 2], "whole28").shape == (2, 3, 28, 28)


def test_pixels_in_memory() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (4, 6, 5), dtype=np.uint8)
    packed = pack_pixels(grey, np.array([3, 2, 1, 0]))
    assert packed.labels.tolist() == [3, 2, 1, 0]
    for position in range(4):
        assert all(np.array_equal(channel.numpy(), grey[position]) for channel in packed.image(position))
    colour = np.random.default_rng(0).integers(0, 256, (4, 6, 5, 3), dtype=np.uint8)
    assert np.array_equal(pack_pixels(colour, np.zeros(4, np.int64)).image(2).permute(1, 2, 0).numpy(), colour[2])
    packed.verify()
    with pytest.raises(ValueError, match="float64"):
        pack_pixels(np.zeros((1, 2, 2)), np.zeros(1, np.int64))  # type: ignore[arg-type]
