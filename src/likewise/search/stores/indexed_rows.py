"""IndexedRows: the rows that the positions of a faiss index stand for, and its candidates compared once more with them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import torch

from likewise.search.stores.faiss_kinds import import_faiss
from likewise.search.vector_store import Ids, Vectors

CONVERTED_AT_ONCE = 1 << 14  # numbers; for twice as many torch wakes threads, and on a busy machine waits for them
Similarities = npt.NDArray[np.float32]
Rows = npt.NDArray[Any]  # (rows, width) float16


@dataclass(frozen=True, eq=False)
class IndexedRows:
    """Rows, and where among them the positions are."""

    rows: Rows
    places: Ids  # (positions,) the row of each; any where its item was removed
    is_there: npt.NDArray[np.bool_] | None  # (positions,); None: all of them
    refining: Any | None  # the index with its candidates compared by faiss; None: by `rescored`, or they need not be

    @classmethod
    def of(cls, index: Any, rows: Rows, places: Ids, is_there: npt.NDArray[np.bool_] | None = None, *, is_rescored: bool) -> Self:
        """faiss can compare where positions are the numbers of rows, as they are until files are written anew without removed rows."""
        is_elsewhere = places != np.arange(len(places))
        is_numbered = not (is_elsewhere if is_there is None else is_elsewhere & is_there).any()
        return cls(rows, places, is_there, refining_by(index, rows) if is_rescored and is_numbered else None)

    def selector(self, allowed: npt.NDArray[np.bool_] | None) -> Any | None:
        """Tells faiss which positions may be found; None: all."""
        return self._there if allowed is self.is_there else selector_of(allowed)

    @cached_property
    def _there(self) -> Any | None:
        return selector_of(self.is_there)

    def rescored(self, queries: Vectors, positions: Ids) -> Similarities:
        """(Q, candidates): inner products of queries with the rows of these positions, as faiss would compute them.

        NumPy is the faster one to gather, torch to convert.
        """
        result = np.empty(positions.shape, dtype=np.float32)
        step = max(1, CONVERTED_AT_ONCE // self.rows.shape[1])
        for query, places, products in zip(queries, self.places[positions], result, strict=True):
            for start in range(0, len(places), step):
                gathered = torch.from_numpy(self.rows.take(places[start : start + step], axis=0)).float().numpy()
                products[start : start + step] = products_of_rows(gathered, query)
        return result


def selector_of(allowed: npt.NDArray[np.bool_] | None) -> Any | None:
    return None if allowed is None else import_faiss().IDSelectorBitmap(np.packbits(allowed, bitorder="little"))


def refining_by(index: Any, rows: Rows) -> Any | None:
    """The index, its candidates compared with the rows by faiss, which takes no copy of them; None where it is older than 1.10."""
    faiss = import_faiss()
    if not hasattr(faiss, "MaybeOwnedVectorUInt8"):
        return None
    content = rows.reshape(-1).view(np.uint8)
    codes = faiss.IndexScalarQuantizer(rows.shape[1], faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT)
    codes.codes = faiss.MaybeOwnedVectorUInt8.create_view(faiss.swig_ptr(content), content.size, faiss.MaybeOwnedVectorUInt8().owner)
    codes.is_trained, codes.ntotal = True, index.ntotal  # equal numbers are expected here, and are not needed
    refining = faiss.IndexRefine(index, codes)
    refining.ntotal = codes.ntotal = len(rows)
    refining.referenced_objects = [index, codes, content]  # which it points to
    return refining


def refining_parameters(number: int, num_candidates: int, of_index: Any | None) -> Any:
    """Of a search for so many among so many candidates of an index, which is told what else to do, or does as it was set."""
    k_factor = (num_candidates + 0.5) / number  # their product is rounded down
    if of_index is None:
        return _plain_parameters(k_factor)
    return import_faiss().IndexRefineSearchParameters(k_factor=k_factor, base_index_params=of_index)


@lru_cache(maxsize=64)
def _plain_parameters(k_factor: float) -> Any:
    return import_faiss().IndexRefineSearchParameters(k_factor=k_factor)


def products_of_rows(first: Vectors, second: Vectors) -> Similarities:
    """Inner products of the rows of one with those of the other, or with a vector. Each is a product of its own, not one of a matrix: so
    equal rows get the same, wherever they stand.
    """
    if hasattr(np, "vecdot"):  # numpy 2
        return np.asarray(np.vecdot(first, second))
    return np.asarray(np.matmul(first[:, None], second[..., None])[:, 0, 0])
