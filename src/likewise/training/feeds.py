"""Feeds: a data set as the training loop takes it: images, vectors, or the features of a network that is not trained."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.data.augmentation import named_augmentation
from likewise.data.batches import Batches, keep_resident
from likewise.data.dataset import Dataset, Features
from likewise.data.draws import uniforms
from likewise.data.packing.cache import pack
from likewise.data.packing.packed import PackedImages, Problem
from likewise.data.packing.thumbnails import Thumbnails
from likewise.models.embedder import Embedder, Preprocessing
from likewise.models.frozen import on_backbone
from likewise.models.frozen.frozen_features import frozen_features
from likewise.models.network import Network
from likewise.progress import ProgressCallback
from likewise.protocols import Protocol
from likewise.samplers import BatchSampler

Int64s = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Feed:
    """Labelled items, ready to be cut into batches: packed images, or vectors."""

    source: PackedImages | Tensor  # Tensor: float32 (items, dimensions), or maps of images (items, channels, height, width)
    labels: Int64s  # (items,) class numbers of the data set
    indices: Int64s  # (items,) the items' numbers in the data set
    skipped: tuple[Problem, ...] = ()  # images that could not be decoded
    views: Tensor | None = None  # float32 (items, views, dimensions): a training step takes one at random; `source` is the first
    thumbnails: Thumbnails | None = None  # of the images that vectors were made of

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def num_classes(self) -> int:
        return len(np.unique(self.labels))

    @property
    def in_features(self) -> int | None:
        """The dimension of vectors; None for images and for maps of them."""
        return self.source.shape[1] if isinstance(self.source, Tensor) and self.source.ndim == 2 else None

    @property
    def pictures(self) -> PackedImages | Thumbnails | None:
        """What to show of the items, each by `image(position)`; None for vectors of nobody knows what."""
        return self.source if isinstance(self.source, PackedImages) else self.thumbnails

    def subset(self, positions: Int64s) -> Feed:
        """The items at these positions, without a copy of the pixels."""
        chosen = torch.from_numpy(positions)
        return replace(
            self,
            source=self.source.subset(chosen) if isinstance(self.source, PackedImages) else self.source[chosen.to(self.source.device)],
            labels=self.labels[positions],
            indices=self.indices[positions],
            views=None if self.views is None else self.views[chosen.to(self.views.device)],
            thumbnails=None if self.thumbnails is None else self.thumbnails.subset(positions),
        )

    def to(self, device: torch.device) -> Feed:
        """On the device, where it fits there."""
        if isinstance(self.source, PackedImages):
            return replace(self, source=keep_resident(self.source, device))
        return replace(self, source=self.source.to(device), views=None if self.views is None else self.views.to(device))

    def codes(self) -> Int64s:
        """The classes counted 0, 1, 2, ... in their order: what proxies and meta-classes count."""
        return np.unique(self.labels, return_inverse=True)[1].astype(np.int64)

    def batches(
        self, sampler: BatchSampler, protocol: Protocol, *, device: torch.device, seed: int, first_step: int
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Inputs, codes (on the device) and positions (on the CPU) of each batch of the sampler's next epoch."""
        codes = self.codes()
        if isinstance(self.source, Tensor):
            for step, chosen in enumerate(sampler, first_step):
                positions = torch.as_tensor(chosen)
                yield self._vectors(positions, seed=seed, step=step).to(device), torch.from_numpy(codes)[positions].to(device), positions
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

    def _vectors(self, positions: Tensor, *, seed: int, step: int) -> Tensor:
        """Where there are several views, one of each item by (seed, step, item), as augmentations are drawn."""
        assert isinstance(self.source, Tensor)
        places = positions.to(self.source.device)
        if self.views is None:
            return self.source[places].float()
        num_views = self.views.shape[1]
        drawn = uniforms(self.indices[positions.numpy()], seed=seed, step=step, count=1)[:, 0] * num_views
        return self.views[places, torch.from_numpy(drawn.astype(np.int64)).to(self.views.device)].float()


def make_feed(
    dataset: Dataset,
    protocol: Protocol,
    *,
    weights: str | Path | None = None,
    device: torch.device | str = "cpu",
    trains: bool = True,
    on_progress: ProgressCallback | None = None,
) -> Feed:
    """The data set packed as the protocol says; vectors as they are; images under a frozen backbone as its features with these weights.

    device: where a frozen backbone runs.  trains: whether the feed is to train on; what is only scored needs no views.
    """
    if isinstance(dataset.items, Features):
        return Feed(torch.from_numpy(dataset.items.array), dataset.labels, np.arange(len(dataset)))
    if protocol.frozen:
        return _frozen(dataset, protocol, weights, device=device, views=protocol.views if trains else 1, on_progress=on_progress)
    packed = pack(dataset, side=_side(protocol), on_progress=on_progress)
    return Feed(packed, packed.labels.numpy(), packed.indices.numpy(), packed.skipped)


def feed_conditions(protocol: Protocol) -> Hashable:
    """What a feed depends on: protocols that agree in it can share one."""
    if not protocol.frozen:
        return protocol.side
    return protocol.side, protocol.backbone, protocol.pooling, protocol.test_augmentation, protocol.views


def _frozen(
    dataset: Dataset,
    protocol: Protocol,
    weights: str | Path | None,
    *,
    device: torch.device | str,
    views: int,
    on_progress: ProgressCallback | None,
) -> Feed:
    if weights is None:
        raise ValueError(
            f"protocol {protocol.name} leaves the backbone {protocol.backbone} as it is (frozen): it needs pretrained weights; "
            "give --weights, or --set frozen=false to train it"
        )
    features = frozen_features(
        dataset,
        backbone=protocol.backbone,
        weights=weights,
        pooling=protocol.pooling,
        augmentation=protocol.test_augmentation,
        side=_side(protocol),
        views=views,
        device=device,
        on_progress=on_progress,
    )
    return Feed(
        features.vectors,
        dataset.labels[features.indices],
        features.indices,
        features.skipped,
        views=features.views if views > 1 else None,
        thumbnails=features.thumbnails,
    )


def preprocessing_of(protocol: Protocol, dataset: Dataset) -> Preprocessing | None:
    """How the protocol scores images; None for vectors."""
    if isinstance(dataset.items, Features):
        return None
    return Preprocessing(side=_side(protocol), augmentation=named_augmentation(protocol.test_augmentation))


def embedder_of(
    network: Network,
    protocol: Protocol,
    dataset: Dataset,
    *,
    weights: Path | None,
    card: dict[str, Any],
    device: torch.device | str = "cpu",
) -> Embedder:
    """A trained network with its preprocessing; one that was trained on frozen features of images put on the backbone they are of."""
    preprocessing = preprocessing_of(protocol, dataset)
    if protocol.frozen and preprocessing is not None:
        network = on_backbone(network, protocol.backbone, protocol.pooling, weights)
    return Embedder(network, preprocessing, card, device)


def _side(protocol: Protocol) -> int | Literal["auto"] | None:
    return None if protocol.side == "as_is" else protocol.side
