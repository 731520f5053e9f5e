"""Feeds: a data set as the training loop takes it, images or vectors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.data.augmentation import AUGMENTATIONS
from likewise.data.batches import Batches, keep_resident
from likewise.data.cache import pack
from likewise.data.dataset import Dataset, Features
from likewise.data.packed import PackedImages, Problem
from likewise.models.embedder import Preprocessing
from likewise.progress import ProgressCallback
from likewise.protocols import Protocol
from likewise.samplers import BatchSampler

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Feed:
    """Labelled items, ready to be cut into batches: packed images, or vectors."""

    source: PackedImages | Tensor  # Tensor: float32 (items, dimensions)
    labels: Int64s  # (items,) class numbers of the data set
    indices: Int64s  # (items,) the items' numbers in the data set
    skipped: tuple[Problem, ...] = ()  # images that could not be decoded

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        return len(np.unique(self.labels))

    @property
    def in_features(self) -> int | None:
        """The dimension of vectors; None for images."""
        return self.source.shape[1] if isinstance(self.source, Tensor) else None

    def subset(self, positions: Int64s) -> Feed:
        """The items at these positions, without a copy of the pixels."""
        source = self.source.subset(positions) if isinstance(self.source, PackedImages) else self.source[torch.from_numpy(positions)]
        return replace(self, source=source, labels=self.labels[positions], indices=self.indices[positions])

    def to(self, device: torch.device) -> Feed:
        """On the device, where it fits there."""
        if isinstance(self.source, PackedImages):
            return replace(self, source=keep_resident(self.source, device))
        return replace(self, source=self.source.to(device))

    def codes(self) -> Int64s:
        """The classes counted 0, 1, 2, ... in their order: what proxies and meta-classes count."""
        return np.unique(self.labels, return_inverse=True)[1].astype(np.int64)

    def batches(
        self, sampler: BatchSampler, protocol: Protocol, *, device: torch.device, seed: int, first_step: int
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Inputs, codes (on the device) and positions (on the CPU) of each batch of the sampler's next epoch."""
        codes = self.codes()
        if isinstance(self.source, Tensor):
            for chosen in sampler:
                yield self._vectors(torch.as_tensor(chosen), torch.from_numpy(codes), device)
            return
        by_index = np.full(self.indices.max() + 1, -1)
        by_index[self.indices] = codes
        images = Batches(
            self.source.relabelled(codes),
            sampler,
            protocol.train_augmentation,
            device=device,
            seed=seed,
            dataset_labels=by_index if sampler.num_ranks == 1 else None,  # a rank's share may be of one class
            needs_positive_pair=sampler.gives_positive_pairs,
        )
        for batch in images.from_step(first_step):
            yield batch.images, batch.labels, batch.positions

    def _vectors(self, positions: Tensor, codes: Tensor, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
        assert isinstance(self.source, Tensor)
        return self.source[positions.to(self.source.device)].to(device), codes[positions].to(device), positions


def make_feed(dataset: Dataset, protocol: Protocol, *, on_progress: ProgressCallback | None = None) -> Feed:
    """The data set packed as the protocol says; vectors as they are."""
    if isinstance(dataset.items, Features):
        return Feed(torch.from_numpy(dataset.items.array), dataset.labels, np.arange(len(dataset)))
    packed = pack(dataset, side=_side(protocol), on_progress=on_progress)
    return Feed(packed, packed.labels.numpy(), packed.indices.numpy(), packed.skipped)


def preprocessing_of(protocol: Protocol, dataset: Dataset) -> Preprocessing | None:
    """How the protocol scores images; None for vectors."""
    if isinstance(dataset.items, Features):
        return None
    return Preprocessing(side=_side(protocol), augmentation=AUGMENTATIONS[protocol.test_augmentation])


def _side(protocol: Protocol) -> int | Literal["auto"] | None:
    return None if protocol.side == "as_is" else protocol.side
