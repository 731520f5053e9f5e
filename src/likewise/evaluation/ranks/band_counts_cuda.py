"""The counting of a block as one Triton kernel: each similarity is read once for all thresholds of its row. Import only where Triton is
installed.
"""

import torch
import triton  # type: ignore[import-not-found, unused-ignore]
import triton.language as tl  # type: ignore[import-not-found, unused-ignore]
from torch import Tensor


@triton.jit  # type: ignore[untyped-decorator, unused-ignore]
def _count_kernel(  # type: ignore[no-untyped-def]
    similarities,
    high,
    low,
    positive,
    count,
    above,
    reach,
    listed_pair,
    listed_item,
    num_listed,
    row_stride,
    column_stride,
    num_rows,
    num_columns,
    first_row,
    first_column,
    table_width,
    num_slots,
    room,
    lists: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    is_row = row < num_rows
    inside = is_row[:, None] & (column < num_columns)[None, :]
    offset = row[:, None].to(tl.int64) * row_stride + column[None, :].to(tl.int64) * column_stride
    similarity = tl.load(similarities + offset, mask=inside, other=-float("inf"))
    entry = (first_row + row).to(tl.int64)
    item = first_column + column
    slots = tl.minimum(tl.max(tl.load(count + entry, mask=is_row, other=0)), num_slots)
    for slot in range(slots):
        at = slot * table_width + entry
        upper = tl.load(high + at, mask=is_row, other=float("inf"))
        lower = tl.load(low + at, mask=is_row, other=float("inf"))
        is_above = similarity > upper[:, None]
        is_in = similarity >= lower[:, None]
        num_above = tl.sum(is_above.to(tl.int32), axis=1)
        num_in = tl.sum(is_in.to(tl.int32), axis=1)
        tl.atomic_add(above + at, num_above, mask=is_row & (num_above > 0), sem="relaxed")
        tl.atomic_add(reach + at, num_in, mask=is_row & (num_in > 0), sem="relaxed")
        if lists:  # noqa: SIM102 (a constant of the kernel)
            if tl.max(num_in - num_above) > 0:
                own = tl.load(positive + at, mask=is_row, other=-1)
                to_list = (is_in & (similarity <= upper[:, None]) & (item[None, :] != own[:, None])).to(tl.int32)
                num = tl.sum(to_list)
                if num > 0:
                    flat = tl.reshape(to_list, [ROWS * COLUMNS])
                    place = tl.atomic_add(num_listed, num.to(tl.int64), sem="relaxed") + tl.cumsum(flat, axis=0) - 1
                    pair = tl.reshape(tl.broadcast_to(at[:, None], [ROWS, COLUMNS]), [ROWS * COLUMNS])
                    which = tl.reshape(tl.broadcast_to(item[None, :], [ROWS, COLUMNS]), [ROWS * COLUMNS])
                    fits = (flat > 0) & (place < room)
                    tl.store(listed_pair + place, pair, mask=fits)
                    tl.store(listed_item + place, which, mask=fits)


def count_block(
    similarities: Tensor,
    band: tuple[Tensor, Tensor],
    positive: Tensor,
    count: Tensor,
    totals: tuple[Tensor, Tensor],
    listed: tuple[Tensor, Tensor, Tensor] | None,
    rows: slice,
    start: int,
) -> None:
    """Adds a block of similarities to the totals (int32), and what lies in the bands to `listed`: pairs (slot x rows + row), items and
    their number.
    """
    num_rows, num_columns = similarities.shape
    # Long in the contiguous direction, so that reads are coalesced; along it for rows, so that a row's sum stays within a warp.
    shape = (8, 1024) if similarities.stride(1) == 1 else (128, 64)
    grid = (triton.cdiv(num_columns, shape[1]), triton.cdiv(num_rows, shape[0]))
    pair, item, num = listed if listed is not None else (positive, positive, positive)
    _count_kernel[grid](
        similarities,
        *band,
        positive,
        count,
        *totals,
        pair,
        item,
        num,
        similarities.stride(0),
        similarities.stride(1),
        num_rows,
        num_columns,
        rows.start,
        start,
        positive.shape[1],
        positive.shape[0],
        len(pair),
        lists=listed is not None,
        ROWS=shape[0],
        COLUMNS=shape[1],
        num_warps=8,
    )


def room_to_list(device: torch.device, num: int) -> tuple[Tensor, Tensor, Tensor]:
    return (
        torch.empty(num, dtype=torch.int64, device=device),
        torch.empty(num, dtype=torch.int64, device=device),
        torch.zeros(1, dtype=torch.int64, device=device),
    )
