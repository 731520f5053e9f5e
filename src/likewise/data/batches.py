"""Batches: images cut, augmented and normalised from a packed set, on the device that trains.

On a GPU: the choices of a batch go over in two small pinned copies, then a few kernels (one or two when compiled) make the batch from
the packed buffer; nothing waits for the GPU, so the host runs ahead. A packed set too large for the GPU stays in its mapped file: the
rows that the crops need go over in one pinned copy a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.util import find_spec
from types import FunctionType
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.data.augmentation import Augmentation, Choices, Colour, Int64s, choose, named_augmentation
from likewise.data.batch_check import Numbers, check_batch
from likewise.data.colour import erased, jittered
from likewise.data.crops import copied_crops, crop_numbers, gathered_crops, num_taps
from likewise.data.packing.packed import PackedImages, concrete_device

RESIDENT_SHARE = 0.5  # of a GPU's free memory that a packed set may take
CROP_COLUMNS = 7  # of the whole numbers of an image; the four of its erased rectangle follow

Compile = bool | Literal["auto"]
Render = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class Batch:
    images: Tensor  # float (images, 3, size, size), channels last in memory
    labels: Tensor  # int64 (images,) on the images' device
    positions: Tensor  # int64 (images,) in the packed set, on the CPU


class Batches:
    """A batch for each list of positions that the batch sampler gives.

    Random choices are keyed by (seed, step, the image's number in the data set): `from_step(n)` goes on at step n as if the steps
    before had been taken.
    """

    def __init__(
        self,
        packed: PackedImages,
        batch_sampler: Iterable[Sequence[int]],
        augmentation: Augmentation | str,
        *,
        device: torch.device | str = "cpu",
        seed: int = 0,
        dtype: torch.dtype = torch.float32,
        antialias: bool = True,
        compile: Compile = "auto",
        resident: bool | Literal["auto"] = "auto",
        dataset_labels: Numbers | None = None,
        needs_positive_pair: bool = True,
    ) -> None:
        """With `dataset_labels`, the labels of the data set that was packed, every batch is checked against them before it goes to
        the device: an image with another image's label is an error, never a batch.
        """
        self.dataset_labels, self.needs_positive_pair = dataset_labels, needs_positive_pair
        self.packed = keep_resident(packed, device) if resident == "auto" else packed.to(device if resident else packed.device)
        self.batch_sampler = batch_sampler
        self.augmentation = named_augmentation(augmentation)
        self.device = concrete_device(device)
        self.seed, self.dtype, self.antialias, self.compile = seed, dtype, antialias, compile

    def __len__(self) -> int:
        return len(self.batch_sampler)  # type: ignore[arg-type]  # where the sampler has no length, neither have we

    def __iter__(self) -> Iterator[Batch]:
        return self.from_step(0)

    def from_step(self, first_step: int) -> Iterator[Batch]:
        for step, chosen in enumerate(self.batch_sampler, first_step):
            positions = torch.as_tensor(chosen, dtype=torch.int64)
            images = make_batch(
                self.packed,
                positions,
                self.augmentation,
                device=self.device,
                seed=self.seed,
                step=step,
                dtype=self.dtype,
                antialias=self.antialias,
                compile=self.compile,
            )
            labels = self.packed.labels[positions]
            if self.dataset_labels is not None:
                numbers = self.packed.indices[positions]
                check_batch(
                    images,
                    labels,
                    numbers,
                    self.dataset_labels,
                    needs_positive_pair=self.needs_positive_pair,
                    needs_two_classes=self.needs_positive_pair,
                )
            yield Batch(images, _moved(labels, self.device), positions)


def keep_resident(packed: PackedImages, device: torch.device | str) -> PackedImages:
    """The packed set with its pixels on the GPU where they take no more than half of the free memory, else as it is."""
    if torch.device(device).type != "cuda" or packed.device.type == "cuda":
        return packed
    free, _ = torch.cuda.mem_get_info(device)
    return packed.to(device) if packed.num_bytes <= RESIDENT_SHARE * free else packed


def make_batch(
    packed: PackedImages,
    positions: Tensor | npt.NDArray[np.int64] | Sequence[int],
    augmentation: Augmentation | str,
    *,
    device: torch.device | str | None = None,
    seed: int = 0,
    step: int = 0,
    dtype: torch.dtype = torch.float32,
    antialias: bool = True,
    compile: Compile = "auto",
) -> Tensor:
    """The images at these positions as float (images, 3, size, size), channels last in memory.

    device: the packed pixels' own unless given. An image gets the same crop, mirror and colours for the same seed and step whatever else is
    in the batch. antialias=False takes two pixels a side even where a crop is shrunk. compile fuses the kernels on a GPU ("auto": there,
    where Triton is installed).
    """
    augmentation = named_augmentation(augmentation)
    target = packed.device if device is None else concrete_device(device)
    chosen = _checked_positions(positions, len(packed))
    heights, widths = packed.heights.numpy()[chosen], packed.widths.numpy()[chosen]
    choices = choose(augmentation, heights, widths, packed.indices.numpy()[chosen], seed=seed, step=step)
    size = (augmentation.size, augmentation.size) if augmentation.size is not None else (int(heights[0]), int(widths[0]))
    packed.look_at(chosen)
    with torch.no_grad():
        if packed.device.type == "cpu" and target.type == "cpu":
            images = copied_batch(packed, chosen, choices, augmentation, size, antialias=antialias)
        else:
            compile = find_spec("triton") is not None and target.type == "cuda" if compile == "auto" else compile
            images = gathered_batch(packed, chosen, choices, augmentation, size, device=target, antialias=antialias, compile=compile)
    return images.permute(0, 3, 1, 2).to(dtype)


def copied_batch(
    packed: PackedImages, chosen: Int64s, choices: Choices, augmentation: Augmentation, size: tuple[int, int], *, antialias: bool = True
) -> Tensor:
    """(images, height, width, 3), image by image: the way of a CPU."""
    scale, shift = _normalisation(augmentation.mean, augmentation.std, torch.device("cpu"))
    later = augmentation.colours
    crop_scale, crop_shift = (torch.full((3,), 1 / 255), torch.zeros(3)) if later else (scale, shift)
    whole = whole_images(packed, chosen, choices, size)
    if whole is not None:
        images = whole.to(torch.float32).view(len(chosen), size[0], -1)
        images = images.mul_(crop_scale.repeat(size[1])).add_(crop_shift.repeat(size[1])).view(len(chosen), *size, 3)
    else:
        sources = [packed.image(position) for position in chosen.tolist()]
        images = copied_crops(sources, choices, height=size[0], width=size[1], scale=crop_scale, shift=crop_shift, antialias=antialias)
    if later:
        for image, factors in zip(images[:, None], torch.from_numpy(_factors(choices))[:, None], strict=True):
            torch.addcmul(shift, jittered(image, factors), 255 * scale, out=image)  # while the image is in the core's cache
    return erased(images, torch.from_numpy(_rectangles(choices))) if augmentation.erase else images


def whole_images(packed: PackedImages, chosen: Int64s, choices: Choices, size: tuple[int, int]) -> Tensor | None:
    """uint8 (images, bytes), all taken in one go, where images of one size are wanted as they are; None otherwise.

    A small network on small images would spend a sixth of its time on taking them one by one.
    """
    height, width = size
    offsets, num_bytes = packed.offsets.numpy()[chosen], height * width * 3
    as_they_are = (choices.height == height) & (choices.width == width) & ~choices.mirror
    of_this_size = (packed.heights.numpy()[chosen] == height) & (packed.widths.numpy()[chosen] == width) & (offsets % num_bytes == 0)
    if not (as_they_are & of_this_size).all():
        return None
    rows = packed.buffer[: len(packed.buffer) // num_bytes * num_bytes].view(-1, num_bytes)
    return rows[torch.from_numpy(offsets // num_bytes)]


def gathered_batch(
    packed: PackedImages,
    chosen: Int64s,
    choices: Choices,
    augmentation: Augmentation,
    size: tuple[int, int],
    *,
    device: torch.device,
    antialias: bool = True,
    compile: bool = False,
) -> Tensor:
    """(images, height, width, 3), all images at once: the way of a GPU."""
    widths = packed.widths.numpy()[chosen]
    if packed.device == device:
        buffer, first_pixels = packed.buffer, packed.offsets.numpy()[chosen] // 3
    else:
        buffer, first_pixels, choices = _staged(packed, chosen, choices, device)
    numbers = _moved(torch.from_numpy(np.concatenate([crop_numbers(first_pixels, widths, choices), _rectangles(choices)], axis=1)), device)
    factors = _moved(torch.from_numpy(_factors(choices)), device)
    scale, shift = _normalisation(augmentation.mean, augmentation.std, device)
    taps = num_taps(choices, *size, antialias=antialias)
    render = _renderer(*size, taps, antialias, augmentation.colours, augmentation.erase > 0, compile)
    return render(buffer, numbers, factors, scale, shift)


@lru_cache(maxsize=64)
def _renderer(height: int, width: int, taps: int, antialias: bool, colours: bool, erases: bool, compile: bool) -> Render:
    def render(buffer: Tensor, numbers: Tensor, factors: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        crops = numbers[:, :CROP_COLUMNS]
        images = gathered_crops(buffer, crops, height=height, width=width, taps=taps, antialias=antialias)
        if colours:
            images = jittered(images / 255, factors) * 255
        images = images * scale + shift
        return erased(images, numbers[:, CROP_COLUMNS:]) if erases else images

    if not compile:
        return render
    # torch counts compilations by code object and refuses the ninth: each renderer gets its own.
    copied = FunctionType(render.__code__.replace(), render.__globals__, closure=render.__closure__)
    compiled: Render = torch.compile(copied, fullgraph=True)
    return compiled


def _checked_positions(positions: Tensor | npt.NDArray[np.int64] | Sequence[int], count: int) -> Int64s:
    chosen = torch.as_tensor(positions).cpu().numpy()
    if chosen.ndim != 1 or not len(chosen) or chosen.dtype.kind not in "iu":
        raise ValueError(f"positions must be whole numbers (images,), at least one, not {chosen.dtype} {chosen.shape}")
    if chosen.min() < 0 or chosen.max() >= count:
        wrong = int(chosen[(chosen < 0) | (chosen >= count)][0])
        raise ValueError(
            f"position {wrong} in a packed set of {count} images: a sampler counts the images that were packed (packed.labels)"
        )
    return chosen.astype(np.int64)


def _staged(packed: PackedImages, chosen: Int64s, choices: Choices, device: torch.device) -> tuple[Tensor, Int64s, Choices]:
    """The rows of the crops in one buffer on the device, where each starts, and the choices with the rows counted there."""
    row_bytes = packed.widths.numpy()[chosen] * 3
    sizes = choices.height * row_bytes
    ends = np.cumsum(sizes)
    sources = packed.offsets.numpy()[chosen] + choices.top * row_bytes
    stage = torch.empty(int(ends[-1]), dtype=torch.uint8, pin_memory=device.type == "cuda")
    for start, size, source in zip((ends - sizes).tolist(), sizes.tolist(), sources.tolist(), strict=True):
        stage[start : start + size].copy_(packed.buffer[source : source + size])
    return stage.to(device, non_blocking=True), (ends - sizes) // 3, replace(choices, top=np.zeros_like(choices.top))


def _factors(choices: Choices) -> npt.NDArray[np.float32]:
    return np.stack([choices.brightness, choices.contrast, choices.saturation, choices.hue], axis=1).astype(np.float32)


def _rectangles(choices: Choices) -> Int64s:
    return np.stack([choices.erase_top, choices.erase_left, choices.erase_height, choices.erase_width], axis=1)


def _moved(values: Tensor, device: torch.device) -> Tensor:
    """On the device, without waiting for it: the pinned copy's memory is kept by torch until the copy is done."""
    return values.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else values.to(device)


@lru_cache(maxsize=64)
def _normalisation(mean: Colour, std: Colour, device: torch.device) -> tuple[Tensor, Tensor]:
    """(x / 255 - mean) / std = x * scale + shift."""
    scale = 1 / (255 * torch.tensor(std, dtype=torch.float64))
    shift = -torch.tensor(mean, dtype=torch.float64) / torch.tensor(std, dtype=torch.float64)
    return scale.float().to(device), shift.float().to(device)
