"""Similarities of pairs: fast ones by matrix product with a known error, and exact ones that depend on the two vectors alone.

A matrix product may give the same pair another last bit in a block of another shape, so it cannot decide between near ties.
Here it only proposes: wherever two of its similarities lie nearer than its rounding error (`slack`), `exact` decides. That is a float64
sum in one fixed order, made of elementwise operations only, so it is the same in every block, and on every device, and
equal vectors tie exactly.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from likewise.wording import quoted

Metric = Literal["cosine", "euclidean"]
Embeddings = Tensor | np.ndarray

# Pairs compared at once by `exact`: small enough that the float64 products stay in the CPU's cache, large enough to fill a GPU.
EXACT_CHUNK_CPU, EXACT_CHUNK_CUDA = 512, 1 << 17
# A factor of the matrix products (a copy of the embeddings) is kept up to so many bytes; a larger one is made anew for every block.
MOST_KEPT_CPU, MOST_KEPT_CUDA = 1 << 28, 1 << 34
# Columns of a block whose factor is made anew are taken so many at once.
COLUMNS_MADE_ANEW = 2048


def as_embeddings(embeddings: Embeddings, name: str) -> Tensor:
    """Embeddings as a detached (items, dim) tensor of float32 or float64 without NaN or infinity."""
    if not isinstance(embeddings, Tensor):
        embeddings = np.ascontiguousarray(embeddings)
    if isinstance(embeddings, np.ndarray) and embeddings.dtype.kind not in "biufc":
        raise ValueError(f"{name} hold {embeddings.dtype}: expected numbers, which .astype(np.float32) gives")
    tensor = (embeddings if isinstance(embeddings, Tensor) else torch.from_numpy(embeddings)).detach()
    if tensor.ndim != 2 or tensor.shape[1] == 0:
        raise ValueError(f"{name} have shape {tuple(tensor.shape)}: expected (items, dim), one row an item")
    if not tensor.is_floating_point():
        raise ValueError(
            f"{name} are {tensor.dtype}: expected floating point; convert with .float(), or pass packed bits with metric='hamming'"
        )
    if tensor.dtype not in (torch.float32, torch.float64):
        tensor = tensor.float()
    finite_rows = tensor.sum(dim=1).isfinite()  # a sum is finite only if every term is, barring overflow, which the next line tells apart
    if not bool(finite_rows.all()):
        bad = (~tensor.isfinite().all(dim=1)).nonzero().flatten()
        if len(bad):
            raise ValueError(
                f"row {int(bad[0])} of {name} holds NaN or infinity ({len(bad)} such rows of {len(tensor)}): "
                f"expected finite numbers; drop these rows or find out why the model gives them"
            )
    return tensor.contiguous()


@contextmanager
def full_float32() -> Iterator[None]:
    """Matrix products in true float32 inside, whatever the caller has allowed (TF32 keeps 10 bits of 23)."""
    with _float32_products("highest", "ieee", "ieee"):
        yield


@contextmanager
def coarse_float32() -> Iterator[None]:
    """Matrix products of float32 by the device's fast units inside: TF32 on CUDA, bfloat16 on the CPU."""
    with _float32_products("medium", "tf32", "bf16"):
        yield


@contextmanager
def _float32_products(legacy: str, cuda: str, cpu: str) -> Iterator[None]:
    if not hasattr(torch.backends.cuda.matmul, "fp32_precision"):  # torch before 2.9
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision(legacy)
        try:
            yield
        finally:
            torch.set_float32_matmul_precision(before)
        return
    backends = (torch.backends.cuda.matmul, torch.backends.mkldnn.matmul)  # type: ignore[attr-defined]
    precisions = [backend.fp32_precision for backend in backends]
    try:
        for backend, precision in zip(backends, (cuda, cpu), strict=True):
            backend.fp32_precision = precision
        yield
    finally:
        for backend, precision in zip(backends, precisions, strict=True):
            backend.fp32_precision = precision


def fixed_order_sum(terms: Tensor) -> Tensor:
    """Sum over the last dimension by halving: the same additions in the same order for every shape and device. Overwrites `terms`."""
    width = terms.shape[-1]
    while width > 1:
        half = (width + 1) // 2
        terms[..., : width - half] += terms[..., half:width]
        width = half
    return terms[..., 0].clone()


def square_norms(rows: Tensor) -> Tensor:
    """Squared length of every row in float64, in the fixed order."""
    chunk = 8192 if rows.is_cuda else 512
    norms = torch.empty(len(rows), dtype=torch.float64, device=rows.device)
    for start in range(0, len(rows), chunk):
        norms[start : start + chunk] = fixed_order_sum(rows[start : start + chunk].double().square())
    return norms


@dataclass(frozen=True)
class PairwiseSimilarity:
    """Similarities of (query, gallery) pairs under one metric; a higher similarity is nearer.

    cosine: <q, g> / (|q| |g|), with 0 for a zero vector; euclidean: <q, g> - |g|^2 / 2 about the gallery's mean, which orders a row as
    -|q - g|^2 does.
    """

    queries: Tensor  # (Q, dim) as handed in
    gallery: Tensor  # (G, dim)
    metric: Metric

    @classmethod
    def of(cls, queries: Embeddings, gallery: Embeddings | None, metric: str) -> "PairwiseSimilarity":
        """Checks what a user hands in; without a gallery the queries are the gallery."""
        if metric not in get_args(Metric):
            raise ValueError(f"metric is {quoted(metric)}: expected one of {get_args(Metric)}")
        query_rows = as_embeddings(queries, "embeddings" if gallery is None else "queries")
        if gallery is None or gallery is queries:
            gallery_rows = query_rows
        else:
            gallery_rows = as_embeddings(gallery, "gallery")
            if query_rows.shape[1] != gallery_rows.shape[1]:
                raise ValueError(
                    f"queries have dimension {query_rows.shape[1]} and the gallery {gallery_rows.shape[1]}: "
                    f"expected the same; embed both with the same model"
                )
            if query_rows.device != gallery_rows.device:
                where = f"queries are on {query_rows.device} and the gallery on {gallery_rows.device}"
                raise ValueError(f"{where}: expected one device; move one of them")
            dtype = torch.promote_types(query_rows.dtype, gallery_rows.dtype)
            query_rows, gallery_rows = query_rows.to(dtype), gallery_rows.to(dtype)
        if len(gallery_rows) == 0:
            raise ValueError("the gallery is empty: expected at least one item to search in")
        return cls(query_rows, gallery_rows, metric)  # type: ignore[arg-type]

    @property
    def is_symmetric(self) -> bool:
        """Whether similarity(i, j) = similarity(j, i) as computed, so that one block serves its mirror image too."""
        return self.queries is self.gallery and self.metric == "cosine"

    @cached_property
    def query_square_norms(self) -> Tensor:
        return square_norms(self.queries)

    @cached_property
    def gallery_square_norms(self) -> Tensor:
        return self.query_square_norms if self.queries is self.gallery else square_norms(self.gallery)

    @cached_property
    def _query_lengths(self) -> Tensor:
        return _lengths(self.query_square_norms)

    @cached_property
    def _gallery_lengths(self) -> Tensor:
        return self._query_lengths if self.queries is self.gallery else _lengths(self.gallery_square_norms)

    @cached_property
    def centre(self) -> Tensor:
        """The gallery's mean: distances do not depend on it, rounding errors do."""
        total = self.gallery.new_zeros(self.gallery.shape[1], dtype=torch.float64)
        for part in torch.split(self.gallery, 8192):  # a sum in another type copies what it sums
            total += part.sum(dim=0, dtype=torch.float64)
        return (total / len(self.gallery)).to(self.gallery.dtype)

    @cached_property
    def query_factor(self) -> Tensor:
        """Left factor of the matrix product."""
        return self._factor(self.queries, self._query_lengths, self.queries.dtype)

    @cached_property
    def gallery_factor(self) -> Tensor:
        """Right factor of the matrix product, one row an item."""
        return self.query_factor if self.queries is self.gallery else self._factor(self.gallery, self._gallery_lengths, self.gallery.dtype)

    def _factor(self, rows: Tensor, lengths: Tensor, dtype: torch.dtype) -> Tensor:
        if self.metric == "cosine":
            return rows.to(dtype) / lengths.to(dtype)[:, None]
        return rows.to(dtype) - self.centre.to(dtype)

    @cached_property
    def _centred_square_norms(self) -> tuple[Tensor, Tensor]:
        """|q - centre|^2 and |g - centre|^2 in float64; all 1 for cosine, where only directions count."""
        if self.metric == "cosine":
            return self.query_square_norms.new_ones(len(self.queries)), self.query_square_norms.new_ones(len(self.gallery))
        chunk = 8192 if self.queries.is_cuda else 512
        centre = self.centre.double()
        of_queries = torch.cat([square_norms(part.double() - centre) for part in torch.split(self.queries, chunk)])
        if self.queries is self.gallery:
            return of_queries, of_queries
        return of_queries, torch.cat([square_norms(part.double() - centre) for part in torch.split(self.gallery, chunk)])

    def prepare(self) -> None:
        """Computes now what blocks would compute when first asked for, each of several threads on its own."""
        _ = self._query_lengths, self._gallery_lengths, self.slack(self.queries.dtype)
        _ = self.keeps(self.queries) and self.query_factor, self.keeps(self.gallery) and self.gallery_factor

    @staticmethod
    def keeps(rows: Tensor) -> bool:
        """Whether the factor of these rows is small enough to be held whole."""
        return rows.numel() * rows.element_size() <= (MOST_KEPT_CUDA if rows.is_cuda else MOST_KEPT_CPU)

    def query_rows(self, rows: slice | Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Some rows of the left factor of the matrix product."""
        dtype = dtype or self.queries.dtype
        if dtype == self.queries.dtype and self.keeps(self.queries):
            return self.query_factor[rows]
        return self._factor(self.queries[rows], self._query_lengths[rows], dtype)

    def slack(self, dtype: torch.dtype) -> Tensor:
        """(Q,) float64: a bound on |block similarity - true similarity| for matrix products in `dtype`.

        Rounding errors of a sum of dim terms grow as sqrt(dim) u |q| |g| (u: unit roundoff; the worst case dim u |q| |g| is never met).
        Measured
        with MKL the largest of millions is 0.1 to 1.1 sqrt(dim) u; taken here are 2 sqrt(dim) + 16, where 16 covers the rounding of the
        factors and offsets.
        """
        unit: float = torch.finfo(dtype).eps / 2
        if self.metric == "cosine":
            size = self._centred_square_norms[0]
        else:
            size = (self._centred_square_norms[0].sqrt() + self._centred_square_norms[1].max().sqrt()).square()
        factor: float = unit * (2 * math.sqrt(self.queries.shape[1]) + 16)
        return size * factor

    def block(
        self, rows: slice | Tensor, columns: slice | Tensor, *, dtype: torch.dtype | None = None, out: Tensor | None = None
    ) -> Tensor:
        """Similarities of some queries and some of the gallery by matrix products, each within `slack` of the truth."""
        dtype = dtype or self.queries.dtype
        left = self.query_rows(rows, dtype)
        if dtype == self.queries.dtype and self.keeps(self.gallery):
            return self._product(left, self.gallery_factor[columns], columns, out)
        index = torch.arange(columns.start, columns.stop, device=left.device) if isinstance(columns, slice) else columns
        similarities = left.new_empty(len(left), len(index)) if out is None else out
        for start in range(0, len(index), COLUMNS_MADE_ANEW):
            part = index[start : start + COLUMNS_MADE_ANEW]
            right = self._factor(self.gallery[part], self._gallery_lengths[part], dtype)
            self._product(left, right, part, similarities[:, start : start + len(part)])
        return similarities

    def _product(self, left: Tensor, right: Tensor, columns: slice | Tensor, out: Tensor | None) -> Tensor:
        if self.metric == "cosine":
            return torch.mm(left, right.T, out=out)
        offset = self._centred_square_norms[1][columns].mul(-0.5).to(left.dtype)
        return torch.addmm(offset, left, right.T, out=out)

    def of_classes(self, queries: Tensor, items: Tensor) -> Tensor:
        """(classes, n_q, n_g) float64: of queries (classes, n_q) with items (classes, n_g), within slack(float64) of the truth."""
        left = self._factor(self.queries[queries.flatten()], self._query_lengths[queries.flatten()], torch.float64)
        right = self._factor(self.gallery[items.flatten()], self._gallery_lengths[items.flatten()], torch.float64)
        similarities = torch.bmm(left.view(*queries.shape, -1), right.view(*items.shape, -1).mT)
        return similarities if self.metric == "cosine" else similarities.sub_(self._centred_square_norms[1][items][:, None, :] / 2)

    def exact(self, query_index: Tensor, gallery_index: Tensor) -> Tensor:
        """(pairs,) float64: the similarity for cosine, minus the squared distance for Euclidean; it depends on the two vectors alone."""
        pieces = []
        chunk = EXACT_CHUNK_CUDA if self.queries.is_cuda else EXACT_CHUNK_CPU
        for query, item in zip(torch.split(query_index, chunk), torch.split(gallery_index, chunk), strict=True):
            terms = self.queries[query].double()
            if self.metric == "cosine":
                dot = fixed_order_sum(terms.mul_(self.gallery[item]))
                pieces.append(dot / (self._query_lengths[query] * self._gallery_lengths[item]))
            else:
                pieces.append(-fixed_order_sum(terms.sub_(self.gallery[item]).square_()))
        return torch.cat(pieces) if pieces else self.query_square_norms.new_empty(0)

    def as_exact(self, rows: Tensor, similarities: Tensor) -> Tensor:
        """(n, columns) block similarities of some queries on the scale of `exact`, in float64."""
        return similarities.double() if self.metric == "cosine" else 2 * similarities.double() - self._centred_square_norms[0][rows, None]


def _lengths(square_norms: Tensor) -> Tensor:
    lengths = square_norms.sqrt()
    return torch.where(lengths > 0, lengths, torch.ones_like(lengths))
