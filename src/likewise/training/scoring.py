"""Scoring: the embeddings of a feed under a protocol, and their scores."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.data.packed import PackedImages
from likewise.evaluation import evaluate
from likewise.models.embedding import embed_batches, packed_inputs, tensor_inputs
from likewise.models.network import Network
from likewise.protocols import Protocol
from likewise.training.feeds import Feed

BATCH = 128


def embed_feed(network: Network, feed: Feed, protocol: Protocol, *, device: torch.device | str) -> Tensor:
    """Unit vectors (items, width) float32 of a feed's items, on the device; the network stands in evaluation mode meanwhile."""
    device = torch.device(device)
    if isinstance(feed.source, PackedImages):
        inputs = packed_inputs(feed.source, protocol.test_augmentation, batch=BATCH, device=device)
    else:
        inputs = tensor_inputs(feed.source, batch=BATCH, device=device)
    dtype = torch.bfloat16 if device.type == "cuda" and protocol.precision in ("auto", "bf16") else None
    with torch.compiler.set_stance("force_eager"):  # compiling for another batch and mode costs more than it saves
        return embed_batches(network, inputs, autocast=dtype)


def score(
    embeddings: Tensor,
    labels: npt.NDArray[np.int64],
    protocol: Protocol,
    *,
    metrics: tuple[str, ...] | None = None,
    query: npt.NDArray[np.int64] | None = None,
    gallery: npt.NDArray[np.int64] | None = None,
    binary: bool = False,
) -> dict[str, float]:
    """The protocol's scores. `query` and `gallery` are positions among the embeddings, In-Shop style.

    binary: only the signs count, compared by Hamming distance. Of rows of equal length that is the order by cosine of the signs.
    """
    vectors = torch.where(embeddings > 0, 1.0, -1.0) if binary else embeddings
    wanted = protocol.metrics if metrics is None else metrics
    known = torch.from_numpy(labels)
    if query is None or gallery is None:
        found = evaluate(vectors, known, ks=protocol.ks, metrics=wanted)
    else:
        among, searched = torch.from_numpy(query), torch.from_numpy(gallery)
        found = evaluate(
            vectors[among], known[among], gallery=vectors[searched], gallery_labels=known[searched], ks=protocol.ks, metrics=wanted
        )
    return {name: value for name, value in found.items() if name != "unmatched"}
