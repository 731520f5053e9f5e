"""How many scores of a block lie above the band around each threshold of their row, how many reach into it, and which ones lie in it."""

import importlib.util
from dataclasses import dataclass, field

import torch
from torch import Tensor

# Candidates a row and block beyond which the band is not listed but left undecided: whole groups of near ties are cheaper in float64.
MOST_LISTED_A_ROW = 16
MOST_LISTED = 1 << 24  # in all


@dataclass
class BandCounts:
    """Counts for a table of thresholds (slots, rows), summed over blocks, and the items found inside the bands beside the positives themselves."""

    high: Tensor  # (slots, rows) upper end of the band, in the scores' type
    low: Tensor  # (slots, rows) lower end
    positive: Tensor  # (slots, rows) gallery index of the positive, -1 where there is none
    count: Tensor  # (rows,) number of positives, falling: slot s holds some for the first rows only
    cap: Tensor | None  # (slots, rows) rows with more than this above need no further counting; None: all do
    lists: bool = True  # whether to list what is in the bands
    above: Tensor = field(init=False)  # (slots, rows) number of scores > high
    reach: Tensor = field(init=False)  # (slots, rows) number of scores >= low
    listed: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)  # slots, rows, gallery indices in the band
    num_listed: int = 0
    room: Tensor | None = None
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
            if self.lists:
                from likewise.evaluation.counting_cuda import room_to_list

                self.listed_by_kernel = room_to_list(self.high.device, MOST_LISTED)

    def add(self, scores: Tensor, rows: slice, start: int) -> None:
        """Counts a block: scores (rows, columns) of the table's `rows` with gallery items start, start + 1, ...; may be a transposed view."""
        if self.by_kernel:
            from likewise.evaluation.counting_cuda import count_block

            band, totals = (self.high, self.low), (self.above, self.reach)
            count_block(scores, band, self.positive, self.count, totals, self.listed_by_kernel, rows, start)
            return
        rows_first = scores.stride(1) == 1
        layout = scores if rows_first else scores.T  # both reductions run along contiguous memory
        stop = start + scores.shape[1]
        falling = -self.count[rows]
        used = torch.searchsorted(falling, -torch.arange(len(self.high), device=falling.device)).tolist()
        for slot, num in enumerate(used):
            if num == 0:
                break
            here = slice(rows.start, rows.start + num)
            above, reach, positive = self.above[slot, here], self.reach[slot, here], self.positive[slot, here]
            is_open = None if self.cap is None else above <= self.cap[slot, here]
            if is_open is not None and not bool(is_open.any()):
                continue
            part, dim = (layout[:num], 1) if rows_first else (layout[:, :num], 0)
            high, low = (edge[slot, here].unsqueeze(dim) for edge in (self.high, self.low))
            # Comparisons written as floats: summing these is several times faster than summing booleans.
            buffer = self._buffer(part)
            here_above = torch.gt(part, high, out=buffer).sum(dim=dim)
            here_reach = torch.ge(part, low, out=buffer).sum(dim=dim)
            above += here_above
            reach += here_reach
            if not self.lists:
                continue
            others = here_reach - here_above - ((positive >= start) & (positive < stop)).to(part.dtype)
            to_list = others > 0 if self.cap is None else (others > 0) & (above <= self.cap[slot, here])
            row = to_list.nonzero().flatten()
            if len(row) and float(others[row].sum()) <= MOST_LISTED_A_ROW * num and self.num_listed < MOST_LISTED:
                near = part[row] if rows_first else part[:, row].T
                which, column = ((near >= self.low[slot, here][row][:, None]) & (near <= self.high[slot, here][row][:, None])).nonzero(
                    as_tuple=True
                )
                row, item = row[which], column + start
                keep = item != positive[row]
                self.num_listed += len(row)
                self.listed.append((torch.full_like(row[keep], slot), row[keep] + rows.start, item[keep]))

    def _buffer(self, part: Tensor) -> Tensor:
        """Room for the comparisons of a block, kept from block to block."""
        if self.room is None or self.room.numel() < part.numel():
            self.room = part.new_empty(part.numel())
        return self.room[: part.numel()].view(part.shape)

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
