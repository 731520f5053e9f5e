"""Streaming: images decoded, cut and run through a network by as many threads as there are cores, a few at a time; no pixels are kept."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from likewise.data.augmentation import Augmentation
from likewise.data.batches import make_batch
from likewise.environment import num_cores
from likewise.evaluation.threads import in_order
from likewise.models.frozen.onnx_network import onnx_network
from likewise.models.images import DatasetImage, loaded, pack_images

BATCH, GPU_BATCH = 4, 64  # images a thread has in hand; on a CPU more of them leave its cache, and each takes a sixth longer

Run = Callable[[Tensor], Tensor]  # float images (N, 3, size, size) on some device to vectors (N, width) on the CPU


@dataclass(frozen=True, eq=False)
class Streamed:
    """What came of an image."""

    vector: npt.NDArray[np.float32]  # (width,)
    thumbnail: bytes  # empty where none was asked for


def make_run(network: nn.Module, *, size: int | None, device: torch.device) -> Run:
    """The network, which stands in evaluation mode, as threads call it: through onnxruntime on a CPU where that can be, else torch."""
    fast = onnx_network(network, size) if device.type == "cpu" and size is not None else None
    return partial(_through_torch, network) if fast is None else fast


def _through_torch(network: nn.Module, inputs: Tensor) -> Tensor:
    with torch.no_grad():
        vectors: Tensor = network(inputs)
    return vectors.float().cpu()


def batch_on(device: torch.device) -> int:
    """How many images are a part."""
    return GPU_BATCH if device.type == "cuda" else BATCH


def streamed(
    images: Sequence[DatasetImage],
    run: Run,
    augmentation: Augmentation,
    *,
    device: torch.device,
    draw: int = 0,
    thumbnail: Callable[[Tensor], bytes] | None = None,
    num_threads: int | None = None,
) -> Generator[Streamed | str, None, None]:
    """What came of each image, in order, or the reason why nothing did.

    draw: a number for what is random in the augmentation; the rest of the key is the image's own, not its place among the others.
    """
    size = batch_on(device)
    parts = [images[start : start + size] for start in range(0, len(images), size)]
    work = partial(_part, run=run, augmentation=augmentation, device=device, draw=draw, thumbnail=thumbnail)
    # Features of a GPU lie in the same cache as those of a CPU: they are to be the same numbers, but for rounding in float32.
    with warnings.catch_warnings(), torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
        warnings.simplefilter("ignore")  # as decoding does, which Python cannot do for one thread alone
        with closing(in_order(work, parts, num_threads=num_cores() if num_threads is None else num_threads)) as outcomes_of_parts:
            for outcomes in outcomes_of_parts:
                yield from outcomes


def _part(
    images: Sequence[DatasetImage],
    *,
    run: Run,
    augmentation: Augmentation,
    device: torch.device,
    draw: int,
    thumbnail: Callable[[Tensor], bytes] | None,
) -> list[Streamed | str]:
    results = [loaded(image) for image in images]
    decoded = [(image.key, result) for image, result in zip(images, results, strict=True) if isinstance(result, Tensor)]
    if not decoded:
        return [reason for reason in results if isinstance(reason, str)]
    numbers = torch.tensor([int.from_bytes(key[:7], "little") for key, _ in decoded])
    packed = replace(pack_images([pixels for _, pixels in decoded]), indices=numbers)
    inputs = make_batch(packed, range(len(packed)), augmentation, device=device, step=draw, compile=False)
    vectors = iter(run(inputs).numpy())
    return [
        result if isinstance(result, str) else Streamed(next(vectors), b"" if thumbnail is None else thumbnail(result))
        for result in results
    ]
