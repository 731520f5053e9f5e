"""Embedder: preprocessing and network in one object, to put to work what was trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor

from likewise.checks import known_name
from likewise.data.augmentation import AUGMENTATIONS, Augmentation
from likewise.data.cache import pack
from likewise.data.dataset import Dataset, Features, Pixels
from likewise.data.packed import PackedImages
from likewise.evaluation.binary import pack_bits
from likewise.models.backbones import Level
from likewise.models.bundle import read_bundle, write_bundle
from likewise.models.embedding import embed_batches, packed_inputs, tensor_inputs
from likewise.models.images import FILE_SIDE, Picture, packed_batches
from likewise.models.network import Network, NetworkSpec, check_levels, make_network
from likewise.models.pretrained import WEIGHTS, find_weights
from likewise.models.weight_files import load_weights
from likewise.models.whitening import Whitening
from likewise.progress import ProgressCallback

Items = Sequence[Picture] | Dataset | PackedImages | Tensor | npt.NDArray[Any]


@dataclass(frozen=True)
class Preprocessing:
    """How an image becomes the network's input: the packed size (see likewise.data.pack), then a cut without chance."""

    side: int | Literal["auto"] | None
    augmentation: Augmentation

    def __post_init__(self) -> None:
        given = self.augmentation
        if given.crop not in ("centre", "whole") or given.mirror or given.erase or given.colours:
            raise ValueError(f"{given}: an embedding must not depend on chance; expected crop='centre' or 'whole' and nothing random")

    @property
    def file_side(self) -> int | None:
        return FILE_SIDE if self.side == "auto" else self.side


@dataclass(eq=False)
class Embedder:
    """A network with its preprocessing (None: it takes vectors) and a card that says where it comes from."""

    network: Network
    preprocessing: Preprocessing | None
    card: dict[str, Any] = field(default_factory=dict)
    device: torch.device | str = "cpu"

    def __post_init__(self) -> None:
        if (self.preprocessing is None) != (self.network.spec.in_features is not None):
            expected = "preprocessing=None" if self.preprocessing is not None else "a Preprocessing"
            raise ValueError(f"backbone {self.network.spec.backbone!r} with preprocessing={self.preprocessing}: expected {expected}")
        self.network.to(self.device)

    def save(self, folder: str | Path) -> None:
        """Writes model.safetensors and embedder.json; an embedder that is there is replaced, anything else is refused."""
        preprocessing = None if self.preprocessing is None else asdict(self.preprocessing)
        write_bundle(Path(folder), self.network.state_dict(), spec=asdict(self.network.spec), preprocessing=preprocessing, card=self.card)

    @classmethod
    def load(cls, folder: str | Path, device: torch.device | str = "cpu") -> Self:
        """From a folder that `save` wrote, or a run's folder that holds one as `embedder`."""
        bundle = read_bundle(Path(folder))
        try:
            spec = NetworkSpec(**_tuples(bundle.spec))
            stored = bundle.preprocessing
            preprocessing = None if stored is None else Preprocessing(stored["side"], Augmentation(**_tuples(stored["augmentation"])))
        except (TypeError, KeyError) as fault:
            raise ValueError(f"{folder}: its description does not fit this version of likewise ({fault}): update likewise") from fault
        network = make_network(spec, seed=0)
        load_weights(network, bundle.weights)
        return cls(network.eval(), preprocessing, bundle.card, device)

    @classmethod
    def pretrained(cls, name: str, pooling: str | None = None, device: torch.device | str = "cpu") -> Self:
        """The features of public weights as they are, without any training: a name of `likewise weights`, such as "efficientnet_lite0".

        Images are prepared as the weights' authors prepare theirs for testing. pooling: "avg", "max", "avg+max", "gem"; None: the one
        that the registry has for these weights.
        """
        weights = WEIGHTS[known_name("pretrained weights", name, WEIGHTS)]
        file = find_weights(name)
        spec = NetworkSpec(weights.backbone, pooling=weights.pooling if pooling is None else pooling, head="none")
        network = make_network(spec, seed=0, weights=file.path).eval()
        card = {"weights": name, "sha256": file.digest, "licence": weights.licence, "source": str(weights.source)}
        return cls(network, Preprocessing(weights.side, AUGMENTATIONS[weights.augmentation]), card, device)

    def with_whitening(self, whitening: Whitening) -> Embedder:
        """An embedder of its own that ends in this whitening (see likewise.whiten), which is saved with it."""
        return replace(self, network=self.network.with_whitening(whitening), card=dict(self.card))

    def embed(
        self,
        items: Items,
        *,
        levels: tuple[Level, ...] | None = None,
        batch: int = 64,
        mirror: bool = False,
        on_progress: ProgressCallback | None = None,
    ) -> npt.NDArray[Any]:
        """(N, width) float32 unit rows, or packed bits (N, bytes) uint8 if the network is binary, one for each item in order.

        items        paths or Pillow images; a data set (packed through the cache); packed images; uint8 pixels (N, height, width, 3);
                     float images (N, 3, height, width) that are preprocessed already; float vectors (N, dimensions) where the network
                     takes these.
        levels       only these, of every member; all unless given.
        mirror       an image's embedding and its mirror's, added and normalised.
        on_progress  is told how many items are packed and embedded; None: silent.
        """
        if batch < 1:
            raise ValueError(f"batch={batch}: expected at least 1")
        if levels is not None:
            check_levels(levels, self.network.spec.levels)
            self.network.width_of(levels)  # of a whitened network all or none
        if mirror and self.preprocessing is None:
            raise ValueError("mirror=True with a network of vectors: only images have a mirror image")
        if isinstance(items, str | Path | Image.Image):
            raise ValueError(f"{items!r} is one item: expected a list of them; write [{items!r}]")
        if len(items) == 0:
            width = self.network.width_of(levels or self.network.spec.levels)
            return np.zeros((0, -(-width // 8)), np.uint8) if self.network.spec.binary else np.zeros((0, width), np.float32)
        inputs = self._inputs(items, batch, on_progress)
        rows = embed_batches(self.network, inputs, levels=levels, mirror=mirror, on_progress=on_progress, total=len(items))
        return (pack_bits(rows) if self.network.spec.binary else rows).cpu().numpy()

    def _inputs(self, items: Items, batch: int, on_progress: ProgressCallback | None) -> Iterator[Tensor]:
        """The network's input for the items, `batch` at a time, on the device."""
        items = items.items.array if isinstance(items, Dataset) and isinstance(items.items, Features) else items
        array = torch.from_numpy(np.ascontiguousarray(items)) if isinstance(items, np.ndarray) else items
        if self.preprocessing is None:
            if not isinstance(array, Tensor) or array.ndim != 2 or array.shape[1] != self.network.spec.in_features:
                expected = f"float vectors (items, {self.network.spec.in_features})"
                raise ValueError(f"{_described(items)}: this embedder takes {expected}")
            return tensor_inputs(array, batch=batch, device=self.device)
        if isinstance(array, Tensor):
            if array.is_floating_point() and array.ndim == 4 and array.shape[1] == 3:
                return tensor_inputs(array, batch=batch, device=self.device)
            if array.dtype != torch.uint8:
                expected = "uint8 pixels (items, height, width, 3) or float images (items, 3, height, width)"
                raise ValueError(f"{_described(items)}: this embedder takes {expected}, or paths")
            array = Dataset("pixels", Pixels(array.cpu().numpy()), np.zeros(len(array), np.int64), ("",))
        if isinstance(array, Dataset):
            array = pack(array, side=self.preprocessing.side, strict=True, on_progress=on_progress)
        packs = iter([array]) if isinstance(array, PackedImages) else packed_batches(array, side=self.preprocessing.file_side, batch=batch)
        augmentation = self.preprocessing.augmentation
        return (inputs for packed in packs for inputs in packed_inputs(packed, augmentation, batch=batch, device=self.device))


def _tuples(values: dict[str, Any]) -> dict[str, Any]:
    """JSON has lists where the dataclasses have tuples."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


def _described(items: Any) -> str:
    return f"{items.dtype} of shape {tuple(items.shape)}" if isinstance(items, Tensor | np.ndarray) else f"items of {type(items).__name__}"
