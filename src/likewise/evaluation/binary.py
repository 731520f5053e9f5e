"""Binary embeddings: packed bits, and their nearest neighbours by Hamming distance."""

import itertools
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from likewise.evaluation.metrics import check_k
from likewise.evaluation.similarity import Embeddings, as_embeddings
from likewise.evaluation.threads import for_each

# Queries and items at once: their products, 4 MB, stay in the CPU's cache.
ROWS, COLUMNS = 512, 2048
# The first look is at so many items for each of the k that are asked for.
FIRST_COLUMNS = 32
GROUP = 64  # items whose largest product is looked at first
SIGNS_AT_ONCE = 1 << 22  # bytes of unpacked bits of the gallery


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
    return bit_signs(check_packed(packed, packed)[0]).float()


def hamming_nearest(
    queries: Embeddings, gallery: Embeddings, k: int, *, exclude_self: bool = False, block: int | Literal["auto"] = "auto"
) -> tuple[Tensor, Tensor]:
    """The k gallery items that differ in the fewest bits: index (Q, k) int64 and distance (Q, k) int64; of equals the lower index first.

    The gallery is gone through in rising order, so that an item is of interest only if it is nearer than the k-th so far: one look at the
    largest product of a group of items passes over nearly all of them, and the few others are sorted as whole numbers.
    """
    query_bits, gallery_bits = check_packed(queries, gallery)
    check_k(k, len(query_bits), len(gallery_bits), exclude_self)
    if block != "auto" and (isinstance(block, bool) or not isinstance(block, int) or block < 1):
        raise ValueError(f"block is {block!r}: expected 'auto' or a whole number of rows, 1 or more")
    num_rows, num_columns = (block, block) if block != "auto" else (max(1, min(ROWS, (1 << 18) // k)), COLUMNS)
    bits = 8 * gallery_bits.shape[1]
    parts = [
        _Nearest(rows, k, bits, len(gallery_bits), exclude_self)
        for rows in torch.split(torch.arange(len(query_bits), device=query_bits.device), num_rows)
    ]
    first = min(len(gallery_bits), max(num_columns, FIRST_COLUMNS * k))
    ends = [0, *range(first, len(gallery_bits), max(num_columns, SIGNS_AT_ONCE // bits)), len(gallery_bits)]
    for start, stop in itertools.pairwise(ends):
        signs = bit_signs(gallery_bits[start:stop])

        def look(part: _Nearest, start: int = start, signs: Tensor = signs) -> None:
            of_queries = bit_signs(query_bits[part.rows])
            width = len(signs) if start == 0 else num_columns
            for at in range(0, len(signs), width):
                part.add(byte_products(of_queries, signs[at : at + width]), start + at)

        for_each(look, parts, query_bits.device)
    index = torch.empty(len(query_bits), k, dtype=torch.int64, device=query_bits.device)
    distance = torch.empty_like(index)
    for part in parts:
        distance[part.rows], index[part.rows] = part.nearest()
    return index, distance


class _Nearest:
    """The k nearest of some queries among the items so far, as numbers whose order is theirs: row, distance, index."""

    def __init__(self, rows: Tensor, k: int, bits: int, num_items: int, exclude_self: bool) -> None:
        self.rows, self.k, self.bits, self.num_items, self.exclude_self = rows, k, bits, num_items, exclude_self
        self.span = (bits + 1) * num_items  # of the numbers of a row
        self.keys = torch.empty(0, dtype=torch.int64, device=rows.device)
        self.pending: list[Tensor] = []
        self.num_pending = 0
        # Products up to this are of no interest: those of the k-th nearest so far. Below all of them: that of a query with itself.
        self.least = torch.full((len(rows),), -(bits + 1), dtype=torch.int64, device=rows.device)

    def add(self, products: Tensor, start: int) -> None:
        """Takes in items start, start + 1, ... by their products with the queries, (rows, columns) of any type."""
        if self.exclude_self:
            local = self.rows - start
            inside = ((local >= 0) & (local < products.shape[1])).nonzero().flatten()
            products[inside, local[inside]] = -(self.bits + 2)
        size = GROUP if start else max(1, products.shape[1] // (2 * self.k))
        if products.shape[1] % size:
            products = torch.nn.functional.pad(products, (0, -products.shape[1] % size), value=-(self.bits + 2))
        products = products.contiguous()
        num_groups = products.shape[1] // size
        in_groups = products.view(-1, size)
        largest = in_groups.amax(dim=1).view(-1, num_groups)
        if start == 0 and num_groups >= self.k:  # so many groups, and so many items, have a product of the k-th largest or more
            self.least = torch.maximum(self.least, _kth_largest(largest, self.k).long() - 1)
        least = self.least.to(products.dtype)[:, None]
        group = _true(largest > least)
        if len(group) == 0:
            return
        row = group // num_groups
        near = in_groups.index_select(0, group)  # (groups found, size)
        at = _true(near > least[row])
        first = row * self.span + (start + (group - row * num_groups) * size)  # the key of each group's first item, were it not distant
        which = at // size
        keys = first.index_select(0, which).add_(at).sub_(which.mul_(size))
        distance = near.view(-1).index_select(0, at).long().neg_().add_(self.bits).bitwise_right_shift_(1)
        self.pending.append(keys.add_(distance, alpha=self.num_items))
        self.num_pending += len(keys)
        if start == 0 or 2 * self.num_pending >= self.k * len(self.rows):
            self._sort()

    def _sort(self) -> None:
        keys = _sorted(torch.cat([self.keys, *self.pending]))
        self.pending, self.num_pending = [], 0
        start = torch.searchsorted(keys, torch.arange(len(self.rows) + 1, device=keys.device) * self.span)
        count = start.diff()
        place = torch.arange(len(keys), device=keys.device) - start[:-1].repeat_interleave(count)
        self.keys = keys[place < self.k]
        is_full = (count >= self.k).nonzero().flatten()
        last = keys[start[is_full] + self.k - 1] - is_full * self.span
        self.least[is_full] = self.bits - 2 * (last // self.num_items)

    def nearest(self) -> tuple[Tensor, Tensor]:
        """Distance and index (rows, k)."""
        self._sort()
        keys = self.keys.view(len(self.rows), self.k) - (torch.arange(len(self.rows), device=self.keys.device) * self.span)[:, None]
        return keys // self.num_items, keys % self.num_items


def _kth_largest(values: Tensor, k: int) -> Tensor:
    if values.is_cuda:
        return values.topk(k, dim=1).values[:, -1]
    at = values.shape[1] - k
    return torch.from_numpy(np.partition(values.numpy(), at, axis=1)[:, at])


def _true(mask: Tensor) -> Tensor:
    """Where a mask holds, as indices of its numbers in a row; numpy is several times faster at this than torch."""
    return mask.flatten().nonzero().flatten() if mask.is_cuda else torch.from_numpy(np.flatnonzero(mask.numpy()))


def _sorted(keys: Tensor) -> Tensor:
    """In rising order, on the CPU by numpy, which sorts with vector instructions where torch does not."""
    return keys.sort().values if keys.is_cuda else torch.from_numpy(np.sort(keys.numpy()))


def check_packed(queries: Embeddings, gallery: Embeddings) -> tuple[Tensor, Tensor]:
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
    if packed.device.type == "cpu":
        bits = np.unpackbits(packed.numpy(), axis=1).view(np.int8)  # ten times as fast as shifts
        bits += bits
        bits -= 1
        return torch.from_numpy(bits)
    places = torch.arange(7, -1, -1, dtype=torch.uint8, device=packed.device)
    return ((packed[:, :, None] >> places) & 1).flatten(1).to(torch.int8).mul_(2).sub_(1)


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
