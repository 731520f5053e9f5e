"""How many similarities of a block lie above the band around each threshold of their row, how many reach into it, and which lie in it."""

import importlib.util
import threading
from dataclasses import dataclass, field

import torch
from torch import Tensor

# Candidates a row and block beyond which the band is not listed but left undecided: whole groups of near ties are cheaper in float64.
MOST_LISTED_A_ROW = 16
MOST_LISTED, MOST_LISTED_BY_KERNEL = 1 << 21, 1 << 24  # in all, 24 bytes each and as much again while they are compared


@dataclass
class BandCounts:
    """Counts for a table of thresholds (slots, rows), summed over blocks, and the items found inside the bands beside the positives
    themselves.
    """

    high: Tensor  # (slots, rows) upper end of the band, in the similarities' type
    low: Tensor  # (slots, rows) lower end
    positive: Tensor  # (slots, rows) gallery index of the positive, -1 where there is none
    count: Tensor  # (rows,) number of positives, falling: slot s holds some for the first rows only
    cap: Tensor | None  # (slots, rows) rows with more than this above need no further counting; None: all do
    above: Tensor = field(init=False)  # (slots, rows) number of similarities > high
    reach: Tensor = field(init=False)  # (slots, rows) number of similarities >= low
    listed: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)  # slots, rows, gallery indices in the band
    num_listed: int = 0
    room: threading.local = field(default_factory=threading.local)
    guard: threading.Lock = field(default_factory=threading.Lock)
    by_kernel: bool | None = None  # None: on CUDA, where Triton is installed
    listed_by_kernel: tuple[Tensor, Tensor, Tensor] | None = None

    def __post_init__(self) -> None:
        if self.by_kernel is None:
            self.by_kernel = self.high.is_cuda and importlib.util.find_spec("triton") is not None
        # Sums of float32 comparisons are exact to 2^24 a block and float64 sums of these to 2^53; the kernel adds integers.
        self.above = torch.zeros(self.high.shape, dtype=torch.int32 if self.by_kernel else torch.float64, device=self.high.device)
        self.reach = torch.zeros_like(self.above)
        if self.by_kernel:
            self.high, self.low, self.positive = self.high.contiguous(), self.low.contiguous(), self.positive.contiguous()
            from likewise.evaluation.ranks.band_counts_cuda import room_to_list

            self.listed_by_kernel = room_to_list(self.high.device, MOST_LISTED_BY_KERNEL)

    def add(self, similarities: Tensor, rows: slice, start: int) -> None:
        """Counts a block: similarities (rows, columns) of the table's `rows` with gallery items start, start + 1, ...; may be a transposed
        view.
        """
        if self.by_kernel:
            from likewise.evaluation.ranks.band_counts_cuda import count_block

            band, totals = (self.high, self.low), (self.above, self.reach)
            count_block(similarities, band, self.positive, self.count, totals, self.listed_by_kernel, rows, start)
            return
        rows_first = similarities.stride(1) == 1
        layout, dim = (similarities, 1) if rows_first else (similarities.T, 0)
        num_slots = min(int(self.count[rows.start]), len(self.high))
        used = torch.searchsorted(-self.count[rows], -torch.arange(num_slots, device=similarities.device)).tolist()
        table = slice(0, num_slots), rows
        if self.cap is not None:
            is_open = (self.above[table] <= self.cap[table]).any(dim=1).tolist()
            used = [num if still else 0 for num, still in zip(used, is_open, strict=True)]
        above, reach = similarities.new_zeros(2, num_slots, len(similarities))
        for slot, num in enumerate(used):
            if num == 0:
                continue
            part = layout[:num] if rows_first else layout[:, :num]
            here = slice(rows.start, rows.start + num)
            buffer = self._buffer(part)
            # Comparisons written as floats: summing these is several times faster than summing booleans.
            torch.sum(torch.gt(part, self.high[slot, here].unsqueeze(dim), out=buffer), dim=dim, out=above[slot, :num])
            torch.sum(torch.ge(part, self.low[slot, here].unsqueeze(dim), out=buffer), dim=dim, out=reach[slot, :num])
        with self.guard:
            self.above[table] += above
            self.reach[table] += reach
        self._list(similarities, rows, start, reach.sub_(above))

    def _list(self, similarities: Tensor, rows: slice, start: int, in_band: Tensor) -> None:
        """Lists what is in the bands of a block besides the positives; in_band: (slots, rows) how many with them."""
        table = slice(0, len(in_band)), rows
        positive = self.positive[table]
        others = in_band - ((positive >= start) & (positive < start + similarities.shape[1])).to(in_band.dtype)
        if self.cap is not None:
            others.masked_fill_(self.above[table] > self.cap[table], 0)
        slot, row = (others > 0).nonzero(as_tuple=True)
        if len(slot) == 0 or self.num_listed >= MOST_LISTED:
            return
        keep = others.sum(dim=1)[slot] <= MOST_LISTED_A_ROW * len(similarities)
        for of_slot, of_row in zip(torch.split(slot[keep], 256), torch.split(row[keep], 256), strict=True):
            near = similarities[of_row]
            low, high = self.low[table][of_slot, of_row], self.high[table][of_slot, of_row]
            which, column = ((near >= low[:, None]) & (near <= high[:, None])).nonzero(as_tuple=True)
            item, of_slot, of_row = column + start, of_slot[which], of_row[which]
            is_other = item != positive[of_slot, of_row]
            self.listed.append((of_slot[is_other], of_row[is_other] + rows.start, item[is_other]))
            self.num_listed += len(item)

    def _buffer(self, part: Tensor) -> Tensor:
        """Room for the comparisons of a block, kept from block to block by each thread."""
        if getattr(self.room, "buffer", None) is None or self.room.buffer.numel() < part.numel():
            self.room.buffer = part.new_empty(part.numel())
        buffer: Tensor = self.room.buffer
        return buffer[: part.numel()].view(part.shape)

    def all_listed(self) -> tuple[Tensor, Tensor, Tensor]:
        """Slots, rows and gallery indices of everything listed."""
        if self.listed_by_kernel is not None:
            pair, item, num = self.listed_by_kernel
            num_listed = int(num)
            if num_listed <= len(pair):  # else the rest did not fit: nothing counts as listed, so that float64 decides
                pair = pair[:num_listed]
                return pair // self.high.shape[1], pair % self.high.shape[1], item[:num_listed]
        if not self.listed:
            empty = torch.empty(0, dtype=torch.int64, device=self.high.device)
            return empty, empty, empty
        slot, row, item = (torch.cat(parts) for parts in zip(*self.listed, strict=True))
        return slot, row, item
