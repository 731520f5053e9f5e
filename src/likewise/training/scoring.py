"""Scoring: the embeddings of a feed under a protocol, and the protocol's scores of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import torch
from torch import Tensor

from likewise.data.packing.packed import PackedImages
from likewise.evaluation.binary import signs
from likewise.evaluation.scores import Scores, score
from likewise.models.backbones import Level
from likewise.models.embedding import embed_batches, packed_inputs, tensor_inputs
from likewise.models.network import Network
from likewise.protocols import Protocol
from likewise.training.feeds import Feed, Int64s

BATCH = 128


def embed_feed(network: Network, feed: Feed, protocol: Protocol, *, device: torch.device | str, normalize: bool = True) -> Tensor:
    """Unit vectors (items, width) float32 of a feed's items, on the device; the network stands in evaluation mode meanwhile.

    normalize=False: what the heads give (Network.outputs).
    """
    device = torch.device(device)
    dtype = torch.bfloat16 if device.type == "cuda" and protocol.precision in ("auto", "bf16") else None
    with torch.compiler.set_stance("force_eager"):  # compiling for another batch and mode costs more than it saves
        return embed_batches(network, feed_inputs(feed, protocol, device=device), autocast=dtype, normalize=normalize)


def feed_inputs(feed: Feed, protocol: Protocol, *, device: torch.device) -> Iterator[Tensor]:
    """A feed's items in order as the network's input: images cut as the protocol scores them."""
    if isinstance(feed.source, PackedImages):
        return packed_inputs(feed.source, protocol.test_augmentation, batch=BATCH, device=device)
    return tensor_inputs(feed.source, batch=BATCH, device=device)


def vectors_to_score(network: Network, outputs: Tensor, protocol: Protocol, *, levels: tuple[Level, ...] | None = None) -> Tensor:
    """What is compared, from what the heads give: rows of length 1, or of any length where the protocol compares by distance.

    Of a binary network the signs, which by cosine are in the order of their Hamming distances. A whitening ends in length 1 in any case.
    levels: of these alone.
    """
    by_distance = protocol.compared_by == "euclidean" and network.whitening is None
    rows = network.outputs_of(outputs, levels) if by_distance else network.joined(outputs, levels)
    return signs(rows) if network.spec.binary else rows


def protocol_scores(
    vectors: Tensor,
    labels: Int64s,
    protocol: Protocol,
    *,
    query_and_gallery: tuple[Int64s, Int64s] | None = None,
    metrics: Sequence[str] | None = None,
    ks: Sequence[int] | None = None,
    unscoreable: Literal["error", "note"] = "error",
) -> Scores:
    """The protocol's scores of labelled vectors, or those of other metrics and K.

    query_and_gallery: their positions among the vectors, where the two are separate (In-Shop).
    """
    known = torch.from_numpy(labels)
    gallery = gallery_labels = None
    if query_and_gallery is not None:
        query, searched = map(torch.from_numpy, query_and_gallery)
        gallery, gallery_labels = vectors[searched], known[searched]
        vectors, known = vectors[query], known[query]
    return score(
        vectors,
        known,
        gallery=gallery,
        gallery_labels=gallery_labels,
        ks=protocol.ks if ks is None else ks,
        metrics=protocol.metrics if metrics is None else metrics,
        metric=protocol.compared_by,
        unscoreable=unscoreable,
    )
