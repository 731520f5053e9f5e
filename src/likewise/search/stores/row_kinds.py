"""Row kinds: how vectors lie in files, and how a first, quick look at them bounds their similarities.

The first look reads the smaller files only. It gives an upper bound of the cosine similarity of every row, so that the best by bound hold
the nearest as soon as the k-th of them is, exactly, more alike than the bound of any that is left out.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.evaluation.binary import bit_signs, byte_products, pack_bits

Vectors = npt.NDArray[np.float32]
Rows = npt.NDArray[Any]

HALF_ROUNDING = 2.0**-11  # the largest relative error of a number that is rounded to float16
FEW = 2  # queries that are compared one by one, in float16; more of them pay for the conversion to float32
CONVERTED_AT_ONCE = 1024  # rows, which stay in the CPU's cache


@dataclass(frozen=True)
class RowPart:
    """A file of a kind of rows."""

    dtype: np.dtype[Any]
    columns: int


class RowKind(ABC):
    """One way to keep vectors. `exact` names the part that similarities are taken from in the end."""

    name: ClassVar[str]
    exact: ClassVar[str] = "float16"
    is_bounded: ClassVar[bool] = True  # else the best by the first look are taken for the nearest

    @abstractmethod
    def parts(self, width: int) -> dict[str, RowPart]:
        """By name."""

    @abstractmethod
    def encoded(self, vectors: Vectors) -> dict[str, Rows]:
        """Unit vectors as rows of every part."""

    @abstractmethod
    def bounds(self, queries: Tensor, rows: Mapping[str, Rows]) -> Tensor:
        """(queries, rows) float32: upper bounds of the cosine similarities of unit queries with rows of every part but the exact one."""

    def num_candidates(self, k: int) -> int:
        """How many are compared exactly, to begin with."""
        return 2 * k + 32


class Float16Rows(RowKind):
    """The first look is a product in float16 with float32 sums, or in float32."""

    name = "float16"

    def parts(self, width: int) -> dict[str, RowPart]:
        return {"float16": RowPart(np.dtype(np.float16), width)}

    def encoded(self, vectors: Vectors) -> dict[str, Rows]:
        return {"float16": vectors.astype(np.float16)}

    def bounds(self, queries: Tensor, rows: Mapping[str, Rows]) -> Tensor:
        """Each of these is off by at most one rounding: the query, the row, the row's length, the result."""
        halves = torch.from_numpy(rows["float16"])
        if len(queries) <= FEW:
            similarities = torch.stack([halves @ query for query in queries.half()]).float()
        else:
            similarities = torch.empty(len(queries), len(halves))
            converted = torch.empty(min(CONVERTED_AT_ONCE, len(halves)), halves.shape[1])
            for start in range(0, len(halves), CONVERTED_AT_ONCE):
                part = halves[start : start + CONVERTED_AT_ONCE]
                torch.mm(queries, converted[: len(part)].copy_(part).T, out=similarities[:, start : start + len(part)])
        return similarities.add_(4 * HALF_ROUNDING)


class Float32Rows(Float16Rows):
    """Half the numbers' digits beside them: half the bytes to read before the few that count are compared in full."""

    name = "float32"
    exact = "float32"

    def parts(self, width: int) -> dict[str, RowPart]:
        return {**super().parts(width), "float32": RowPart(np.dtype(np.float32), width)}

    def encoded(self, vectors: Vectors) -> dict[str, Rows]:
        return {**super().encoded(vectors), "float32": vectors}


class Int8Rows(RowKind):
    """x = scale (c + e), c whole numbers from -127 to 127 and |e| at most 1/2 in every place.

    The errors of the places add up as independent ones do: by Hoeffding's bound |<q, e>| exceeds 4 |q| once in 10^13 cases.
    """

    name = "int8"
    DEVIATION = 4.0

    def parts(self, width: int) -> dict[str, RowPart]:
        return {
            "int8": RowPart(np.dtype(np.int8), width),
            "scale": RowPart(np.dtype(np.float32), 1),
            "float16": RowPart(np.dtype(np.float16), width),
        }

    def encoded(self, vectors: Vectors) -> dict[str, Rows]:
        codes, scale = _int8(torch.from_numpy(vectors))
        return {"int8": codes.numpy(), "scale": scale.numpy(), "float16": vectors.astype(np.float16)}

    def bounds(self, queries: Tensor, rows: Mapping[str, Rows]) -> Tensor:
        codes, query_scale = _int8(queries)
        row_scale = torch.from_numpy(rows["scale"])[:, 0]
        similarities = byte_products(codes, torch.from_numpy(rows["int8"])).float().mul_(query_scale).mul_(row_scale)
        return similarities.add_(self.DEVIATION * (row_scale + query_scale) + 4 * HALF_ROUNDING)

    def num_candidates(self, k: int) -> int:
        return 16 * k + 64


class BitRows(RowKind):
    """Signs only, compared by the bits that differ: says nothing for certain about the similarity, so many are compared exactly."""

    name = "bits"
    is_bounded = False

    def parts(self, width: int) -> dict[str, RowPart]:
        return {"bits": RowPart(np.dtype(np.uint64), -(-width // 64)), "float16": RowPart(np.dtype(np.float16), width)}

    def encoded(self, vectors: Vectors) -> dict[str, Rows]:
        return {"bits": _words_of_bits(torch.from_numpy(vectors)), "float16": vectors.astype(np.float16)}

    def bounds(self, queries: Tensor, rows: Mapping[str, Rows]) -> Tensor:
        """Minus the number of bits that differ."""
        if not hasattr(np, "bitwise_count"):  # numpy before 2
            signs = (
                bit_signs(torch.from_numpy(words.view(np.uint8))) for words in (_words_of_bits(queries), np.ascontiguousarray(rows["bits"]))
            )
            return byte_products(*signs).float()
        differing = np.zeros((len(queries), len(rows["bits"])), np.uint16)
        for place, words in enumerate(_words_of_bits(queries)):
            for column, word in enumerate(words):  # a column at a time: sums of a few numbers a row would take three times as long
                differing[place] += np.bitwise_count(rows["bits"][:, column] ^ word)
        return torch.from_numpy(differing.astype(np.float32)).neg_()

    def num_candidates(self, k: int) -> int:
        return 32 * k + 256


def _words_of_bits(vectors: Tensor) -> Rows:
    """The signs of vectors as bits, 64 a word."""
    packed = pack_bits(vectors)
    return torch.nn.functional.pad(packed, (0, -packed.shape[1] % 8)).numpy().view(np.uint64)


def _int8(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Codes (items, width), and the scale (items, 1) of each row."""
    scale = vectors.abs().amax(dim=1, keepdim=True).div_(127)
    return (vectors / scale.clamp(min=1e-30)).round_().to(torch.int8), scale


ROW_KINDS: dict[str, RowKind] = {kind.name: kind for kind in (Float16Rows(), Float32Rows(), Int8Rows(), BitRows())}
