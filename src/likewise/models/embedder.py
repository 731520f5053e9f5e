"""Embedder: preprocessing and network in one object, to put to work what was trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from likewise.argument_types import checked_arguments
from likewise.checks import known_name
from likewise.configuration import from_table
from likewise.data.augmentation import AUGMENTATIONS, Augmentation
from likewise.data.dataset import Dataset, Features, Files, Pixels
from likewise.data.packing.cache import pack
from likewise.data.packing.packed import NoneDecoded, PackedImages, Problem
from likewise.evaluation.binary import pack_bits
from likewise.evaluation.calibration import Calibration
from likewise.formats.regular_file import in_brief
from likewise.formats.settings_files import naming
from likewise.models.backbones import Level
from likewise.models.bundle import CALIBRATION, DESCRIPTION, read_bundle, write_bundle
from likewise.models.embedding import embed_batches, embedded, evaluating, packed_inputs, tensor_inputs
from likewise.models.frozen.streaming import Streamed, batch_on, make_run, streamed
from likewise.models.images import FILE_SIDE, Picture, images_of, packed_batches
from likewise.models.network import Network, NetworkSpec, check_levels, level_combinations, make_network
from likewise.models.weights.pretrained import WEIGHTS, find_weights
from likewise.models.weights.weight_files import load_weights
from likewise.models.whitening import Whitening
from likewise.progress import ProgressCallback

MANY = 64  # files from which on they are streamed

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
    """A network with its preprocessing (None: it takes vectors), a card that says where it comes from and, if it was calibrated (see
    likewise.calibrate), what its similarities mean.
    """

    network: Network
    preprocessing: Preprocessing | None
    card: dict[str, Any] = field(default_factory=dict)
    device: torch.device | str = "cpu"
    calibration: Calibration | None = None

    def __post_init__(self) -> None:
        if (self.preprocessing is None) != (self.network.spec.in_features is not None):
            expected = "preprocessing=None" if self.preprocessing is not None else "a Preprocessing"
            raise ValueError(f"backbone {self.network.spec.backbone!r} with preprocessing={self.preprocessing}: expected {expected}")
        self.network.to(self.device)

    @checked_arguments
    def save(self, folder: str | Path) -> None:
        """Writes model.safetensors, embedder.json and, if it was calibrated, calibration.json; an embedder that is there is replaced,
        anything else is refused.
        """
        write_bundle(
            Path(folder),
            self.network.state_dict(),
            spec=asdict(self.network.spec),
            preprocessing=None if self.preprocessing is None else asdict(self.preprocessing),
            card=self.card,
            calibration=None if self.calibration is None else self.calibration.as_table(),
        )

    @classmethod
    @checked_arguments
    def load(cls, folder: str | Path, device: torch.device | str = "cpu") -> Self:
        """From a folder that `save` wrote, or a run's folder that holds one as `embedder`."""
        bundle = read_bundle(Path(folder))
        described = bundle.weights.parent / DESCRIPTION
        try:
            spec = from_table(NetworkSpec, bundle.spec, where="spec")
            stored = bundle.preprocessing
            preprocessing = None if stored is None else from_table(Preprocessing, stored, where="preprocessing")
            network = make_network(spec, seed=0)
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RuntimeError) as fault:
            raise ValueError(
                f"{described}: its description does not fit this version of likewise ({in_brief(fault)}): update likewise"
            ) from fault
        load_weights(network, bundle.weights)
        with naming(str(bundle.weights.parent / CALIBRATION)):
            calibration = None if bundle.calibration is None else Calibration.from_stored(bundle.calibration)
        return cls(network.eval(), preprocessing, bundle.card, device, calibration)

    @classmethod
    @checked_arguments
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

    @checked_arguments
    def with_whitening(self, whitening: Whitening) -> Embedder:
        """An embedder of its own that ends in this whitening (see likewise.whiten), which is saved with it. It is not calibrated."""
        return replace(self, network=self.network.with_whitening(whitening), card=dict(self.card), calibration=None)

    @checked_arguments
    def embed(
        self,
        items: Items,
        *,
        levels: tuple[Level, ...] | None = None,
        batch: int = 64,
        mirror: bool = False,
        normalize: bool = True,
        on_progress: ProgressCallback | None = None,
    ) -> npt.NDArray[Any]:
        """(N, width) float32 unit rows, or packed bits (N, bytes) uint8 if the network is binary, one for each item in order.

        items        paths or Pillow images; a data set; packed images; uint8 pixels (N, height, width, 3); float images (N, 3, height,
                     width) that are preprocessed already; float vectors (N, dimensions) where the network takes these. On a CPU many
                     files go through onnxruntime where it is installed; on a GPU a data set of files is packed in the cache first.
        levels       only these, of every member; all unless given.
        mirror       an image's embedding and its mirror's, added and normalised.
        normalize    False: float32 rows as the heads give them, of any length: the levels one after the other, no bits, not whitened.
        on_progress  is told how many items are packed and embedded; None: silent.
        """
        if batch < 1:
            raise ValueError(f"batch={batch}: expected at least 1")
        if levels is not None:
            check_levels(levels, self.network.spec.levels)
            self.network.width_of(levels)  # of a whitened network all or none
        if mirror and self.preprocessing is None:
            raise ValueError("mirror=True with a network of vectors: only images have a mirror image")
        if not normalize and (mirror or levels is not None):
            raise ValueError("normalize=False with mirror or levels: these make rows of length 1; Network.joined makes such of the outputs")
        if len(items) == 0:
            width = self.network.width_of(levels or self.network.spec.levels) if normalize else self.network.num_outputs
            gives_bits = self.network.spec.binary and normalize
            return np.zeros((0, -(-width // 8)), np.uint8) if gives_bits else np.zeros((0, width), np.float32)
        files = self._files_to_stream(items)
        if files is not None:
            vectors, _, skipped = self.embed_images(files, levels=levels, mirror=mirror, normalize=normalize, on_progress=on_progress)
            if skipped:
                raise ValueError(f"{skipped[0].path} cannot be embedded: {skipped[0].reason}; repair it or leave it out")
            return vectors
        inputs = self._inputs(items, batch, on_progress)
        rows = embed_batches(
            self.network, inputs, levels=levels, mirror=mirror, normalize=normalize, on_progress=on_progress, total=len(items)
        )
        _require_finite(rows, "computed")
        return (pack_bits(rows) if self.network.spec.binary and normalize else rows).cpu().numpy()

    @checked_arguments
    def embed_levels(
        self, items: Items, *, batch: int = 64, on_progress: ProgressCallback | None = None
    ) -> dict[tuple[Level, ...], npt.NDArray[Any]]:
        """What `embed` gives with each combination of the levels, all from one pass of the items through the network."""
        return self.of_levels(self.embed(items, batch=batch, normalize=False, on_progress=on_progress))

    def of_levels(self, outputs: npt.NDArray[np.float32]) -> dict[tuple[Level, ...], npt.NDArray[Any]]:
        """The same from what `embed` gave with normalize=False. Of a whitened network all levels together are all there is."""
        combinations = level_combinations(self.network.spec.levels)
        rows = torch.from_numpy(outputs).to(self.device)
        with torch.no_grad():
            joined = {levels: self.network.joined(rows, levels) for levels in combinations[-1 if self.network.spec.whitened else 0 :]}
        return {levels: (pack_bits(vectors) if self.network.spec.binary else vectors).cpu().numpy() for levels, vectors in joined.items()}

    @checked_arguments
    def embed_images(
        self,
        dataset: Dataset,
        *,
        levels: tuple[Level, ...] | None = None,
        mirror: bool = False,
        normalize: bool = True,
        num_threads: int | None = None,
        on_progress: ProgressCallback | None = None,
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64], tuple[Problem, ...]]:
        """The rows of the images of a data set that can be decoded; their numbers in it; the images that cannot, with the reasons.

        num_threads: so many decode, and nothing is kept in the cache; None: one a core, and on a GPU images are packed in the cache first.
        """
        if self.preprocessing is None:
            raise ValueError(f"{dataset.name} holds images, but this embedder takes vectors: give a file of vectors")
        device = torch.device(self.device)
        if (device.type != "cpu" and num_threads is None) or not isinstance(dataset.items, Files):
            packed = pack(dataset, side=self.preprocessing.side, on_progress=on_progress)
            rows_of_packed = self.embed(packed, levels=levels, mirror=mirror, normalize=normalize, on_progress=on_progress)
            return rows_of_packed, packed.indices.numpy(), packed.skipped
        chosen = _Chosen(self.network, levels, mirror=mirror, normalize=normalize)
        images = images_of(dataset, self.preprocessing.side)
        augmentation = self.preprocessing.augmentation
        outcomes: list[Streamed | str] = []
        with evaluating(self.network):
            # making a graph takes as long as some dozens of images
            run = make_run(chosen, size=augmentation.size if len(images) >= MANY else None, device=device)
            for outcome in streamed(images, run, augmentation, device=device, num_threads=num_threads):
                outcomes.append(outcome)
                if on_progress is not None and (len(outcomes) % batch_on(device) == 0 or len(outcomes) == len(images)):
                    on_progress("embedding", len(outcomes), len(images))
        rows = {number: outcome.vector for number, outcome in enumerate(outcomes) if isinstance(outcome, Streamed)}
        problems = tuple(Problem(image.path, outcome) for image, outcome in zip(images, outcomes, strict=True) if isinstance(outcome, str))
        if not rows:
            raise NoneDecoded(f"{dataset.name}: none of {len(images)} images can be decoded", problems)
        vectors = torch.from_numpy(np.stack(list(rows.values())))
        _require_finite(vectors, "computed")
        return (pack_bits(vectors) if self.network.spec.binary and normalize else vectors).numpy(), np.array(list(rows)), problems

    def _files_to_stream(self, items: Items) -> Dataset | None:
        """Many images in files, where they are embedded on a CPU; None: anything else."""
        if torch.device(self.device).type != "cpu" or self.preprocessing is None or len(items) < MANY:
            return None
        if isinstance(items, Dataset):
            return items if isinstance(items.items, Files) else None
        if not isinstance(items, Sequence) or not all(isinstance(item, str | Path) for item in items):
            return None
        paths = tuple(Path(item) for item in items if isinstance(item, str | Path))
        return Dataset("images", Files(paths), np.zeros(len(paths), np.int64), ("",))

    def _inputs(self, items: Items, batch: int, on_progress: ProgressCallback | None) -> Iterator[Tensor]:
        """The network's input for the items, `batch` at a time, on the device."""
        items = items.items.array if isinstance(items, Dataset) and isinstance(items.items, Features) else items
        if isinstance(items, np.ndarray) and items.dtype.kind not in "biuf":
            raise ValueError(f"{_described(items)}: this embedder takes numbers, which .astype(np.float32) gives")
        array = torch.from_numpy(np.ascontiguousarray(items)) if isinstance(items, np.ndarray) else items
        if isinstance(array, Tensor) and array.is_floating_point():
            _require_finite(array, "given")
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


class _Chosen(nn.Module):
    """What is asked of a network, of an image or of it and its mirror image: a function of one tensor."""

    def __init__(self, network: Network, levels: tuple[Level, ...] | None, *, mirror: bool, normalize: bool) -> None:
        super().__init__()
        self.network, self.levels, self.mirror, self.normalize = network, levels, mirror, normalize

    def forward(self, inputs: Tensor) -> Tensor:
        return embedded(self.network, inputs, levels=self.levels, mirror=self.mirror, normalize=self.normalize)


def _require_finite(rows: Tensor, what: str) -> None:
    """A ValueError that names the first item of which a number is NaN or infinite."""
    unsound = (~rows.flatten(1).isfinite().all(1)).nonzero().flatten().tolist() if rows.ndim > 1 else []
    if unsound:
        cause = "look at the pixels or vectors given" if what == "given" else "look at the item, or the network's weights and preprocessing"
        raise ValueError(f"what is {what} of item {unsound[0]} holds NaN or infinity ({len(unsound):,} of {len(rows):,} items do): {cause}")


def _described(items: Any) -> str:
    return f"{items.dtype} of shape {tuple(items.shape)}" if isinstance(items, Tensor | np.ndarray) else f"items of {type(items).__name__}"
