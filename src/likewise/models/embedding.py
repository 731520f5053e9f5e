"""Embedding: items through a network in batches. The training loop's evaluation and Embedder both go through here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from likewise.data.augmentation import Augmentation
from likewise.data.batches import make_batch
from likewise.data.packing.packed import PackedImages
from likewise.models.backbones import Level
from likewise.progress import ProgressCallback


def embed_packed(
    network: nn.Module,
    packed: PackedImages,
    augmentation: Augmentation | str,
    *,
    batch: int = 64,
    device: torch.device | str = "cpu",
    autocast: torch.dtype | None = None,
    levels: tuple[Level, ...] | None = None,
    mirror: bool = False,
) -> Tensor:
    """(N, width) float32 unit rows on the device, one an image of the packed set, in its order; see embed_batches."""
    batches = packed_inputs(packed, augmentation, batch=batch, device=device)
    return embed_batches(network, batches, autocast=autocast, levels=levels, mirror=mirror)


def packed_inputs(packed: PackedImages, augmentation: Augmentation | str, *, batch: int, device: torch.device | str) -> Iterator[Tensor]:
    """The packed images in order as the network's input, `batch` at a time, the last perhaps fewer."""
    return (make_batch(packed, part, augmentation, device=device) for part in torch.arange(len(packed)).split(batch))


def tensor_inputs(inputs: Tensor, *, batch: int, device: torch.device | str) -> Iterator[Tensor]:
    """Vectors, or images that are preprocessed already, `batch` at a time."""
    return (part.to(device, torch.float32) for part in inputs.split(batch))


def embed_batches(
    network: nn.Module,
    batches: Iterable[Tensor],
    *,
    autocast: torch.dtype | None = None,
    levels: tuple[Level, ...] | None = None,
    mirror: bool = False,
    normalize: bool = True,
    on_progress: ProgressCallback | None = None,
    total: int = 0,
) -> Tensor:
    """(N, width) float32 unit rows of the batches on their device, without gradients, the network in evaluation mode meanwhile.

    autocast: to this type; None: float32 throughout. levels: all unless given. mirror: an image's embedding and its mirror's, added and
    normalised. normalize=False: what the heads give (Network.outputs), of all levels. on_progress: called after each batch; `total` is the
    number of items that the batches hold.
    """
    parts: list[Tensor] = []
    with evaluating(network), torch.no_grad():
        for inputs in batches:
            with torch.autocast(inputs.device.type, dtype=autocast, enabled=autocast is not None):
                parts.append(embedded(network, inputs, levels=levels, mirror=mirror, normalize=normalize).float())
            if on_progress is not None:
                on_progress("embedding", sum(map(len, parts)), total)
    return torch.cat(parts)


def embedded(network: nn.Module, inputs: Tensor, *, levels: tuple[Level, ...] | None, mirror: bool, normalize: bool = True) -> Tensor:
    """One batch through the network, with its mirror images' embeddings added where these are asked for."""
    if not normalize:
        outputs: Tensor = network.outputs(inputs)  # type: ignore[operator]  # of a Network
        return outputs
    rows: Tensor = network(inputs, levels)
    return nn.functional.normalize(rows + network(inputs.flip(-1), levels)) if mirror else rows


@contextmanager
def evaluating(network: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every layer is in the mode it was in, frozen ones too."""
    modes = [(module, module.training) for module in network.modules()]
    network.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training
