"""Supplies: what there is to run items with, data sets and pretrained weights; what is lacking is told with the way to get it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.configuration import divided, with_settings
from likewise.data.dataset import Dataset
from likewise.data.readers import READERS, read
from likewise.data.splits import SPLIT_SEED, split
from likewise.methods import Method
from likewise.models.weights.pretrained import WEIGHTS, WeightsFile, find_weights
from likewise.models.weights.weights_fit import check_weights
from likewise.protocols import Protocol


class Lacking(ValueError):
    """Something is not here that a part of an item needs: what, and how it is given."""


@dataclass(frozen=True)
class Supplies:
    """Data sets by their reader's name, weights, and settings of every protocol that differ."""

    data: Mapping[str, str | Path | Dataset]
    weights: Sequence[str | Path] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    _read: dict[str, Dataset] = field(default_factory=dict, repr=False)  # once for all items
    _labels: dict[str, npt.NDArray[np.int64]] = field(default_factory=dict, repr=False)

    @staticmethod
    def of(
        data: Mapping[str, str | Path | Dataset] | Sequence[str | Path], weights: Sequence[str | Path], settings: Mapping[str, Any]
    ) -> Supplies:
        """As they are given: {"cub": "/data/CUB_200_2011"}, or ["cub:/data/CUB_200_2011"]."""
        of_methods = divided(settings, protocol=Protocol, method=Method)["method"]
        if of_methods:
            raise ValueError(f"setting {min(of_methods)!r} is a method's, and an item's rows have theirs: --set takes those of a protocol")
        if not isinstance(data, Mapping):
            data = {reader_of(spec): spec for spec in data}
        for name in data:
            if name not in READERS:
                raise ValueError(f"data {name!r}: expected the name of a reader, such as cub:/path (known are {', '.join(READERS)})")
        return Supplies(data, tuple(weights), settings)

    def dataset(self, reader: str) -> Dataset:
        if reader not in self.data:
            raise Lacking(f"it needs {READERS[reader].about}: give --data {reader}:PATH")
        if reader not in self._read:
            given = self.data[reader]
            spec = f"{reader}:{given}" if isinstance(given, Path) else given
            self._read[reader] = spec if isinstance(spec, Dataset) else read(spec)
        return self._read[reader]

    def data_name(self, reader: str) -> str:
        """What benches on it are named after."""
        return reader

    def training_labels(self, reader: str) -> npt.NDArray[np.int64]:
        dataset = self.dataset(reader)
        if dataset.name not in self._labels:
            self._labels[dataset.name] = dataset.labels[split(dataset, seed=SPLIT_SEED).train]
        return self._labels[dataset.name]

    def protocol(self, asked: Protocol) -> Protocol:
        """With the settings that differ. Another backbone is meant where weights are to be given: one that has its own stays."""
        settings = {name: value for name, value in self.settings.items() if name != "backbone" or asked.weights == "required"}
        return with_settings(asked, settings)

    def method(self, asked: Method) -> Method:
        """As it is run."""
        return asked

    def weights_of(self, protocol: Protocol) -> WeightsFile | None:
        """The first of the weights that are its backbone's; None where it starts from random ones."""
        if protocol.weights == "random":
            return None
        for file in self._files:
            if _are_of(file, protocol.backbone):
                return file
        if protocol.weights in WEIGHTS:
            try:
                return find_weights(protocol.weights)
            except ValueError as fault:
                raise Lacking(str(fault)) from fault
        if protocol.weights == "optional":
            return None
        raise Lacking(f"it needs weights of {protocol.backbone}: give --weights FILE, or a name that `likewise weights` lists")

    @cached_property
    def _files(self) -> list[WeightsFile]:
        return [find_weights(given) for given in self.weights]


def reader_of(spec: str | Path) -> str:
    """The name of the reader that is meant by a data set as it is given: by its name, or by what is at the path."""
    name = str(spec).partition(":")[0].split(",")[0]
    if name in READERS:
        return name
    path = Path(spec).expanduser()
    known = [name for name, reader in READERS.items() if path.exists() and reader.recognises is not None and reader.recognises(path)]
    if not known:
        raise ValueError(f"--data {spec}: expected a reader and a path, such as cub:/path, or the folder of a data set that is known")
    return known[0]


@lru_cache(maxsize=64)
def _are_of(file: WeightsFile, backbone: str) -> bool:
    if file.backbone is not None:
        return file.backbone == backbone
    known = next((weights.backbone for weights in WEIGHTS.values() if weights.sha256 == file.digest), None)
    if known is not None:
        return known == backbone
    try:
        check_weights(backbone, file.path)
    except ValueError:
        return False
    return True
