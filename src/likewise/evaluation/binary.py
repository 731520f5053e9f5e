"""Binary embeddings: packed bits, their nearest neighbours by Hamming distance, and the ranks their retrieval scores need."""

from collections.abc import Iterator
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from likewise.evaluation.nearest import block_shape, check_k, top
from likewise.evaluation.ranks.positives import Classes, PositiveRanks
from likewise.evaluation.similarity import Embeddings, as_embeddings


def pack_bits(embeddings: Embeddings) -> Tensor:
    """(N, dim) numbers as (N, ceil(dim / 8)) uint8: a bit is 1 where the number is above 0, the first in the highest place, zeros at the
    end.
    """
    bits = (as_embeddings(embeddings, "embeddings") > 0).to(torch.uint8)
    bits = torch.nn.functional.pad(bits, (0, -bits.shape[1] % 8)).view(len(bits), -1, 8)
    return (bits << torch.arange(7, -1, -1, dtype=torch.uint8, device=bits.device)).sum(dim=2, dtype=torch.uint8)


def signs(embeddings: Tensor) -> Tensor:
    """(N, dim) numbers as float32 of -1 and +1: the bits that `pack_bits` keeps, as vectors."""
    return torch.where(embeddings > 0, 1.0, -1.0)


def unpack_bits(packed: Embeddings) -> Tensor:
    """Packed bits as (N, 8 x bytes) float32 of -1 and +1, for what works on vectors (k-means): |q - g|^2 = 4 x Hamming distance."""
    return bit_signs(_check_packed(packed, packed)[0]).float()


def hamming_nearest(
    queries: Embeddings, gallery: Embeddings, k: int, *, exclude_self: bool = False, block: int | Literal["auto"] = "auto"
) -> tuple[Tensor, Tensor]:
    """The k gallery items that differ in the fewest bits: index (Q, k) int64 and distance (Q, k) int64; of equals the lower index first."""
    query_bits, gallery_bits = _check_packed(queries, gallery)
    check_k(k, len(gallery_bits) - int(exclude_self), exclude_self)
    if exclude_self and len(query_bits) > len(gallery_bits):
        raise ValueError(
            f"exclude_self with {len(query_bits)} queries and {len(gallery_bits)} gallery items: expected query i to be gallery row i; "
            "pass the queries as gallery"
        )
    rows, columns = block_shape(block, len(gallery_bits), k, query_bits.is_cuda)
    gallery_signs = bit_signs(gallery_bits)
    index = torch.empty(len(query_bits), k, dtype=torch.int64, device=query_bits.device)
    distance = torch.empty_like(index)
    for part in torch.split(torch.arange(len(query_bits), device=query_bits.device), rows):
        best = torch.empty(len(part), 0, dtype=torch.float64, device=query_bits.device)
        for start in range(0, len(gallery_bits), columns):
            keys = _keys(query_bits, gallery_signs, part, slice(start, min(start + columns, len(gallery_bits))), exclude_self).neg_()
            best = torch.cat([best, top(keys, min(k, keys.shape[1]))[0]], dim=1)
            if best.shape[1] > k:
                best = best.topk(k, dim=1, sorted=False).values
        keys = best.neg_().sort(dim=1).values.long()
        index[part], distance[part] = keys % len(gallery_bits), keys // len(gallery_bits)
    return index, distance


def hamming_ranks(
    queries: Embeddings, gallery: Embeddings | None, query_codes: Tensor, gallery_codes: Tensor, block: int | Literal["auto"]
) -> Iterator[PositiveRanks]:
    """Ranks of all positives by Hamming distance; without a gallery every item queries all others."""
    query_bits, gallery_bits = _check_packed(queries, queries if gallery is None else gallery)
    rows, columns = block_shape(block, len(gallery_bits), 1, query_bits.is_cuda)
    gallery_signs = bit_signs(gallery_bits)
    classes = Classes.of(query_codes, gallery_codes)
    num_positives = classes.gallery_count - int(gallery is None)
    used = ((classes.query_count > 0) & (num_positives > 0)).nonzero().flatten()
    for of_class, items in classes.groups(used, 1 << 22):
        for start in range(0, of_class.numel(), max(1, rows // 8)):
            part = of_class.flatten()[start : start + max(1, rows // 8)]
            positives = items.repeat_interleave(of_class.shape[1], dim=0)[start : start + len(part)]
            keys = torch.cat(
                [
                    _keys(query_bits, gallery_signs, part, slice(at, min(at + columns, len(gallery_bits))), gallery is None)
                    for at in range(0, len(gallery_bits), columns)
                ],
                dim=1,
            )
            thresholds = keys.gather(1, positives)
            if positives.shape[1] <= 64:
                rank = torch.stack([(keys < threshold[:, None]).sum(dim=1) for threshold in thresholds.unbind(dim=1)], dim=1) + 1
            else:
                rank = torch.searchsorted(keys.sort(dim=1).values, thresholds) + 1
            rank = rank.masked_fill(thresholds.isinf(), len(gallery_bits) + 1).sort(dim=1).values
            count = torch.full_like(part, positives.shape[1] - int(gallery is None))
            yield PositiveRanks(part, count, rank[:, : positives.shape[1] - int(gallery is None)])


def _check_packed(queries: Embeddings, gallery: Embeddings) -> tuple[Tensor, Tensor]:
    tensors = []
    for name, packed in (("queries", queries), ("gallery", gallery)):
        tensor = packed if isinstance(packed, Tensor) else torch.from_numpy(np.ascontiguousarray(packed))
        if tensor.dtype != torch.uint8 or tensor.ndim != 2 or tensor.shape[1] == 0:
            raise ValueError(
                f"{name} are {tensor.dtype} of shape {tuple(tensor.shape)}: expected packed bits, uint8 of shape (items, bytes); "
                "pack with pack_bits"
            )
        tensors.append(tensor)
    query_bits, gallery_bits = tensors
    if query_bits.shape[1] != gallery_bits.shape[1]:
        raise ValueError(
            f"queries have {query_bits.shape[1]} bytes and the gallery {gallery_bits.shape[1]}: expected the same; "
            "pack both from the same model"
        )
    if len(gallery_bits) == 0:
        raise ValueError("the gallery is empty: expected at least one item to search in")
    return query_bits, gallery_bits


def bit_signs(packed: Tensor) -> Tensor:
    """Bits as int8 of -1 and +1: <q, g> = bits - 2 x Hamming distance."""
    places = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    return ((packed[:, :, None] >> places) & 1).flatten(1).to(torch.int8).mul_(2).sub_(1)


def _keys(query_bits: Tensor, gallery_signs: Tensor, rows: Tensor, columns: slice, exclude_self: bool) -> Tensor:
    """(rows, columns) float64: distance x G + index, so that no two keys of a row are equal and ties fall to the lower index; +inf for
    the query itself.
    """
    num_items, bits = gallery_signs.shape
    dots = byte_products(bit_signs(query_bits[rows]), gallery_signs[columns])
    index = torch.arange(columns.start, columns.stop, dtype=torch.float64, device=rows.device)
    keys = torch.add(index + 0.5 * bits * num_items, dots, alpha=-0.5 * num_items)
    if exclude_self:
        local = rows - columns.start
        inside = ((local >= 0) & (local < keys.shape[1])).nonzero().flatten()
        keys[inside, local[inside]] = torch.inf
    return keys


def byte_products(left: Tensor, right: Tensor) -> Tensor:
    """(rows, columns) exact products of rows of bytes, by matrix product: for -1 and +1 far faster than XOR and population counts written
    in tensor operations.

    On CUDA in float16, whose results are exact to 2,048; on CPUs that multiply bytes in 8 bits, five times as fast as in float32; else
    in float32, exact to 2^24.
    """
    if left.is_cuda and left.shape[1] <= 2048:
        return left.half() @ right.half().T
    if left.device.type == "cpu" and getattr(torch.cpu, "_is_vnni_supported", bool)():
        return torch._int_mm(left, right.T)
    return left.float() @ right.float().T
