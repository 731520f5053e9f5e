"""Ranks of all positives of a query by Hamming distance: whole numbers, distance before index, so that no two of a row are equal."""

from dataclasses import dataclass

import torch
from torch import Tensor

from likewise.evaluation.binary import bit_signs, byte_products
from likewise.evaluation.ranks.positives import Classes, PositiveRanks, without_negatives
from likewise.evaluation.ranks.whole_rows import Take, sort_rows
from likewise.evaluation.threads import for_each

# Numbers of 8 bytes at once in each thread, and those that are sorted and scored while they are in the cache.
ROWS_AT_ONCE_CPU, ROWS_AT_ONCE_CUDA = 1 << 22, 1 << 26
SORTED_AT_ONCE_CPU, SORTED_AT_ONCE_CUDA = 1 << 18, 1 << 24
# Up to so many positives a query, counting what is nearer than each is cheaper than sorting.
FEW_POSITIVES = 4
# Bytes of unpacked bits that are kept for all rows; of a larger gallery they are made anew for every block of them.
MOST_KEPT = 1 << 28
COLUMNS_MADE_ANEW = 1 << 14


@dataclass(frozen=True)
class HammingRows:
    query_bits: Tensor  # (Q, bytes) packed
    gallery_bits: Tensor  # (G, bytes)
    exclude_self: bool
    best_only: bool  # only the rank of the best positive matters
    num_rows: int | None = None  # queries at once; None: by the size of the gallery

    def each(self, query_codes: Tensor, gallery_codes: Tensor, take: Take) -> None:
        """Hands the ranks of the positives of all queries that have any to `take`, some queries at a time, and from several threads."""
        classes = Classes.of(query_codes, gallery_codes)
        num_positives = classes.gallery_count - int(self.exclude_self)
        rows = classes.query_order[(num_positives > 0)[query_codes[classes.query_order]]]
        if len(rows) and int(num_positives.max()) + int(self.exclude_self) == len(self.gallery_bits):
            take(without_negatives(rows, int(num_positives.max())))
            return
        bits = self.gallery_bits[classes.gallery_order]
        signs = bit_signs(bits) if 8 * bits.numel() <= MOST_KEPT else None
        place = torch.empty_like(classes.gallery_order)
        place[classes.gallery_order] = torch.arange(len(place), device=place.device)
        at_once = self.num_rows or max(1, (ROWS_AT_ONCE_CUDA if rows.is_cuda else ROWS_AT_ONCE_CPU) // len(bits))
        most = max(1, (SORTED_AT_ONCE_CUDA if rows.is_cuda else SORTED_AT_ONCE_CPU) // len(bits))

        def one(part: Tensor) -> None:
            keys = self._keys(part, bits, signs, classes.gallery_order)
            codes, counts = torch.unique_consecutive(query_codes[part], return_counts=True)
            of_classes = zip(codes.tolist(), torch.split(part, counts.tolist()), torch.split(keys, counts.tolist()), strict=True)
            for code, of_class, their_keys in of_classes:
                start = int(classes.gallery_start[code])
                columns = slice(start, start + int(classes.gallery_count[code]))
                for some, of_some in zip(torch.split(of_class, most), torch.split(their_keys, most), strict=True):
                    if self.exclude_self:
                        of_some[torch.arange(len(some), device=some.device), place[some]] = torch.iinfo(torch.int64).max - 1
                    count = torch.full_like(some, int(num_positives[code]))
                    take(PositiveRanks(some, count, self._ranks(of_some, columns, int(num_positives[code]))))

        for_each(one, torch.split(rows, at_once), rows.device)

    def _keys(self, rows: Tensor, bits: Tensor, signs: Tensor | None, items: Tensor) -> Tensor:
        """(n, G) int64: twice (distance x G + index), class by class, so that the lowest bit is free."""
        of_queries = bit_signs(self.query_bits[rows])
        keys = torch.empty(len(rows), len(bits), dtype=torch.int64, device=rows.device)
        for start in range(0, len(bits), COLUMNS_MADE_ANEW):
            part = slice(start, start + COLUMNS_MADE_ANEW)
            products = byte_products(of_queries, bit_signs(bits[part]) if signs is None else signs[part])
            torch.mul(products.long(), -len(bits), out=keys[:, part])
        return keys.add_(2 * items + 8 * bits.shape[1] * len(bits))

    def _ranks(self, keys: Tensor, columns: slice, num_positives: int) -> Tensor:
        if self.best_only or num_positives <= FEW_POSITIVES:
            own = keys[:, columns]
            nearest = own.amin(dim=1, keepdim=True) if self.best_only else own.sort(dim=1).values[:, :num_positives]
            return torch.stack([(keys < threshold[:, None]).sum(dim=1) for threshold in nearest.unbind(dim=1)], dim=1) + 1
        keys[:, columns].bitwise_or_(1)
        sort_rows(keys)
        return keys[:, : keys.shape[1] - int(self.exclude_self)].bitwise_and(1).nonzero()[:, 1].view(len(keys), -1) + 1
