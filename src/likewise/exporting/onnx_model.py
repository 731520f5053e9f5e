"""An embedder as one ONNX graph: an image of any size in, its unit vector out, with all that lies between."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image
from torch import Tensor, nn

from likewise.exporting.preparation import Preparation
from likewise.models.embedder import Embedder
from likewise.models.frozen.onnx_network import onnx_graph, onnx_session
from likewise.models.network import Network

TOLERANCE = 1e-4  # of a number of a unit vector, to the embedder's own
EXAMPLE = (300, 400)  # height and width that the graph is traced with; it is for any
TRIED = ((300, 400), (331, 211), (97, 401))  # of images on which graph and embedder are compared

Item = npt.NDArray[Any]  # uint8 pixels (height, width, 3), or a float32 vector


class WholeEmbedder(nn.Module):
    """One item to its embedding (width,): a unit vector, or packed bits as likewise.evaluation.binary has them."""

    def __init__(self, embedder: Embedder) -> None:
        super().__init__()
        self.preparation = None if embedder.preprocessing is None else Preparation(embedder.preprocessing)
        self.network: Network = copy.deepcopy(embedder.network).cpu().eval()

    def forward(self, item: Tensor) -> Tensor:
        inputs = item[None] if self.preparation is None else self.preparation(item)
        (row,) = self.network(inputs).unbind()
        return _packed_bits(row) if self.network.spec.binary else row


def _packed_bits(row: Tensor) -> Tensor:
    """uint8 (width / 8,): a bit is 1 where the number is above 0, the first in the highest place, zeros at the end."""
    bits = nn.functional.pad((row > 0).float(), (0, -len(row) % 8))
    return (bits.reshape(-1, 8) @ 2.0 ** torch.arange(7, -1, -1)).to(torch.uint8)


def input_name(embedder: Embedder) -> str:
    return "vector" if embedder.preprocessing is None else "image"


def output_name(embedder: Embedder) -> str:
    return "bits" if embedder.network.spec.binary else "embedding"


def onnx_packages() -> tuple[Any, Any]:
    """onnx and onnxruntime; a ValueError says how to get them."""
    try:
        return import_module("onnx"), import_module("onnxruntime")
    except ImportError as fault:
        raise ValueError(f'exporting needs onnx and onnxruntime ({fault}): pip install "likewise[pretrained]"') from fault


def onnx_model(embedder: Embedder) -> bytes:
    """The graph, without metadata. A ValueError says why a network cannot be exported."""
    any_size = {0: "height", 1: "width"} if embedder.preprocessing is not None else {}
    names = {input_name(embedder): any_size, output_name(embedder): {}}
    try:
        return onnx_graph(WholeEmbedder(embedder), torch.from_numpy(_drawn(embedder, EXAMPLE)), names)
    except Exception as fault:  # the exporter raises errors of many kinds
        reason = next(iter(str(fault).strip().splitlines()), type(fault).__name__)
        what = f"backbone {embedder.network.spec.backbone!r} with head {embedder.network.spec.head!r}"
        raise ValueError(f"{what} cannot be written as ONNX ({reason}): nothing was exported") from fault


def with_metadata(model: bytes, metadata: Mapping[str, str]) -> bytes:
    """What a session's `get_modelmeta().custom_metadata_map` gives."""
    onnx, _ = onnx_packages()
    graph = onnx.load_from_string(model)
    onnx.helper.set_model_props(graph, dict(metadata))
    content: bytes = graph.SerializeToString()
    return content


class OnnxEmbedder:
    """The graph as onnxruntime runs it, on one core; several threads may call it at once."""

    def __init__(self, model: bytes) -> None:
        _, runtime = onnx_packages()
        self._session = onnx_session(runtime, model)
        self._input = self._session.get_inputs()[0].name

    def __call__(self, item: Item) -> npt.NDArray[Any]:
        (embedding,) = self._session.run(None, {self._input: item})
        return np.asarray(embedding)


def difference(embedder: Embedder, model: bytes) -> float:
    """The largest that any number of an embedding differs by, between graph and embedder, on a few drawn items."""
    run = OnnxEmbedder(model)
    worst = 0.0
    for size in TRIED:
        item = _drawn(embedder, size)
        expected = embedder.embed(item[None] if embedder.preprocessing is None else [Image.fromarray(item)])[0]
        worst = max(worst, float(np.abs(run(item).astype(np.float64) - expected).max()))
    return worst


def _drawn(embedder: Embedder, size: tuple[int, int]) -> Item:
    """Waves and a little noise, always the same."""
    rng = np.random.default_rng(size)
    if embedder.preprocessing is None:
        return rng.standard_normal(embedder.network.spec.in_features or 1, dtype=np.float32)
    down, across = np.meshgrid(*(np.linspace(0, 12, length) for length in size), indexing="ij")
    waves = np.stack([np.sin(down), np.cos(across), np.sin(down + across)], axis=2)
    return np.clip(128 + 90 * waves + rng.normal(0, 20, waves.shape), 0, 255).astype(np.uint8)
