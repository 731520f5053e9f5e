"""Batches: the same images whatever the order, the size of the batch, or the way they are made."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from likewise.data import batches as module
from likewise.data.augmentation import AUGMENTATIONS, Augmentation, choose, named_augmentation
from likewise.data.batches import Batches, copied_batch, gathered_batch, keep_resident, make_batch
from likewise.data.dataset import Dataset, Pixels
from likewise.data.packing.cache import pack
from likewise.data.packing.packed import PackedImages, concrete_device, pack_pixels

SIZES = [(40, 53), (40, 40), (61, 40), (40, 90), (44, 48)]
SMALL = {
    "resized": Augmentation(32, "resized", scale=(0.16, 1.0), mirror=0.5),
    "random": Augmentation(32, "random", mirror=0.5),
    "centre": Augmentation(32, "centre"),
    "whole": Augmentation(32, "whole"),
    "colours": Augmentation(32, "resized", mirror=0.5, brightness=0.3, contrast=0.3, saturation=0.3, hue=0.1, erase=0.5),
}


def packed_images(count: int = 30) -> PackedImages:
    generator = torch.Generator().manual_seed(0)
    shapes = [SIZES[i % len(SIZES)] for i in range(count)]
    sizes = torch.tensor([height * width * 3 for height, width in shapes])
    return PackedImages(
        buffer=torch.randint(0, 256, (int(sizes.sum()),), generator=generator, dtype=torch.uint8),
        offsets=sizes.cumsum(0) - sizes,
        heights=torch.tensor([height for height, _ in shapes]),
        widths=torch.tensor([width for _, width in shapes]),
        labels=torch.arange(count) % 7,
        indices=torch.arange(count) * 3 + 1,
    )


def normalised(image: torch.Tensor, setting: Augmentation) -> torch.Tensor:
    """uint8 (3, h, w) the way everyone writes it."""
    return (image.float() / 255 - torch.tensor(setting.mean)[:, None, None]) / torch.tensor(setting.std)[:, None, None]


def test_centre_crop_of_the_packed_image() -> None:
    packed = packed_images()
    got = make_batch(packed, range(30), SMALL["centre"])
    assert got.shape == (30, 3, 32, 32)
    assert got.dtype == torch.float32
    assert got.is_contiguous(memory_format=torch.channels_last)
    for position in range(30):
        image = packed.image(position)
        top, left = round((image.shape[1] - 32) / 2), round((image.shape[2] - 32) / 2)
        expected = normalised(image[:, top : top + 32, left : left + 32], SMALL["centre"])
        assert torch.allclose(got[position], expected, atol=1e-5)


def test_small_images_as_they_are() -> None:
    grey = np.random.default_rng(0).integers(0, 256, (4, 20, 28), dtype=np.uint8)
    got = make_batch(pack_pixels(grey, np.zeros(4, np.int64)), [2, 0], "none")
    assert torch.allclose(got[0, 1], torch.from_numpy(grey[2]) / 127.5 - 1, atol=1e-6)
    assert got.shape == (2, 3, 20, 28)


@pytest.mark.parametrize("name", SMALL)
def test_an_image_does_not_depend_on_its_batch(name: str) -> None:
    packed = packed_images()
    whole = make_batch(packed, range(30), SMALL[name], seed=4, step=9)
    order = torch.randperm(30, generator=torch.Generator().manual_seed(1))
    assert torch.equal(make_batch(packed, order, SMALL[name], seed=4, step=9), whole[order])
    pieces = torch.cat([make_batch(packed, order[start : start + 7], SMALL[name], seed=4, step=9) for start in range(0, 30, 7)])
    assert torch.equal(pieces, whole[order])
    part = packed.subset(order[:10])  # the key is the image's number in the data set, not in the subset
    assert torch.equal(make_batch(part, range(10), SMALL[name], seed=4, step=9), whole[order[:10]])
    other = make_batch(packed, range(30), SMALL[name], seed=4, step=10)
    assert torch.equal(other, whole) == (name in ("centre", "whole"))


def test_a_device_may_be_named_in_several_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    """The packed pixels' own device is known as such under any of its names: nothing is sent."""
    packed = packed_images()
    monkeypatch.setattr(module, "_staged", None)
    for name in ("cpu", "cpu:0", torch.device("cpu", 0)):
        assert torch.equal(make_batch(packed, [1, 2], SMALL["resized"], device=name), make_batch(packed, [1, 2], SMALL["resized"]))
    monkeypatch.setattr(torch.cuda, "current_device", lambda: 3)
    assert concrete_device("cuda") == torch.device("cuda:3")
    assert concrete_device("cuda:1") == torch.device("cuda:1")


def test_two_copies_in_a_batch_are_cut_differently() -> None:
    got = make_batch(packed_images(), [3, 3, 5], SMALL["resized"])
    assert not torch.equal(got[0], got[1])


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("antialias", [True, False])
def test_both_ways_make_the_same_batch(name: str, antialias: bool) -> None:
    packed = packed_images()
    setting = SMALL[name]
    chosen = np.arange(30)[::-1].copy()
    heights, widths = packed.heights.numpy()[chosen], packed.widths.numpy()[chosen]
    choices = choose(setting, heights, widths, packed.indices.numpy()[chosen], seed=0, step=0)
    copied = copied_batch(packed, chosen, choices, setting, (32, 32), antialias=antialias)
    gathered = gathered_batch(packed, chosen, choices, setting, (32, 32), device=torch.device("cpu"), antialias=antialias)
    levels = (copied - gathered).abs() * 255 * torch.tensor(setting.std)
    assert levels.mean() < 0.6
    assert levels.max() < (1.01 if name != "colours" else 8)  # rounding to uint8, which colour factors and the hue of greys enlarge
    assert torch.equal(copied == 0, gathered == 0) or name != "colours"


@pytest.mark.parametrize("name", ["resized", "colours"])
def test_rows_sent_for_a_batch_give_the_batch_of_the_whole_buffer(name: str) -> None:
    packed = packed_images()
    chosen = np.array([4, 0, 17, 4])
    sizes = packed.heights.numpy()[chosen], packed.widths.numpy()[chosen]
    choices = choose(SMALL[name], *sizes, packed.indices.numpy()[chosen], seed=0, step=0)
    cpu = torch.device("cpu")
    buffer, first_pixels, moved = module._staged(packed, chosen, choices, cpu)
    assert len(buffer) == int((choices.height * sizes[1]).sum()) * 3 < packed.num_bytes
    sent = PackedImages(
        buffer, torch.from_numpy(first_pixels * 3), *(torch.from_numpy(side) for side in sizes), torch.zeros(4), torch.zeros(4)
    )
    got = gathered_batch(sent, np.arange(4), moved, SMALL[name], (32, 32), device=cpu)
    assert torch.equal(got, gathered_batch(packed, chosen, choices, SMALL[name], (32, 32), device=cpu))


@pytest.mark.parametrize("name", SMALL)
def test_the_gpu_way_is_one_graph(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Captured whole, without a break, for batches of several sizes; what a GPU then fuses."""
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend="eager"))
    module._renderer.cache_clear()
    packed = packed_images()
    for count in (5, 9):
        chosen = np.arange(count)
        sizes = packed.heights.numpy()[chosen], packed.widths.numpy()[chosen]
        choices = choose(SMALL[name], *sizes, chosen, seed=0, step=0)
        make = partial(gathered_batch, packed, chosen, choices, SMALL[name], (32, 32), device=torch.device("cpu"))
        assert torch.allclose(make(compile=True), make(), atol=1e-5)
    module._renderer.cache_clear()


def test_batches_follow_the_sampler_and_can_go_on_at_a_step() -> None:
    packed = packed_images()
    lists = [[0, 3, 5], [7, 1], [2, 29, 4, 6]]
    batches = Batches(packed, lists, SMALL["resized"], seed=2)
    assert len(batches) == 3
    seen = list(batches)
    for step, (batch, positions) in enumerate(zip(seen, lists, strict=True)):
        assert batch.positions.tolist() == positions
        assert batch.labels.tolist() == [position % 7 for position in positions]
        assert torch.equal(batch.images, make_batch(packed, positions, SMALL["resized"], seed=2, step=step))
    later = list(Batches(packed, lists[1:], SMALL["resized"], seed=2).from_step(1))
    assert all(torch.equal(one.images, other.images) for one, other in zip(seen[1:], later, strict=True))
    again = next(iter(Batches(packed, lists, SMALL["resized"], seed=3)))
    assert not torch.equal(again.images, seen[0].images)
    half = next(iter(Batches(packed, lists, SMALL["centre"], dtype=torch.bfloat16)))
    assert half.images.dtype == torch.bfloat16
    assert half.images.is_contiguous(memory_format=torch.channels_last)


def test_batches_do_not_need_gradients_or_change_the_images() -> None:
    packed = packed_images()
    before = packed.buffer.clone()
    for name in SMALL:
        assert not make_batch(packed, [0, 1], SMALL[name]).requires_grad
    assert torch.equal(packed.buffer, before)
    assert keep_resident(packed, "cpu") is packed


@pytest.mark.parametrize("positions", [[], [30], [-1], [[0, 1]], [0.5]])
def test_positions_are_checked(positions: list[object]) -> None:
    with pytest.raises(ValueError, match="position"):
        make_batch(packed_images(), positions, SMALL["centre"])  # type: ignore[arg-type]


def test_augmentations_by_name() -> None:
    assert named_augmentation("crop227") is AUGMENTATIONS["crop227"]
    assert named_augmentation(SMALL["whole"]) is SMALL["whole"]
    with pytest.raises(ValueError, match="did you mean 'crop227'"):
        named_augmentation("crop_227")
    sizes = {name: setting.size for name, setting in AUGMENTATIONS.items()}
    assert all(str(size) in name for name, size in sizes.items() if size is not None)


def test_a_batch_with_another_images_label_is_an_error(tmp_path: Path) -> None:
    """The published "unbiased" benchmark paired images with wrong labels: here that cannot reach the device."""
    pixels = np.random.default_rng(0).integers(0, 255, (8, 16, 16), dtype=np.uint8)
    truth = np.array([0, 0, 1, 1, 2, 2, 3, 3])
    packed = pack(Dataset("small", Pixels(pixels), truth, ("a", "b", "c", "d")), folder=tmp_path)
    good = list(Batches(packed, [[0, 1, 2, 3]], "none", dataset_labels=truth))
    assert good[0].labels.tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="label"):
        list(Batches(packed, [[0, 1, 2, 3]], "none", dataset_labels=truth[::-1].copy()))
    with pytest.raises(ValueError, match="two images of one class"):
        list(Batches(packed, [[0, 2, 4]], "none", dataset_labels=truth))
