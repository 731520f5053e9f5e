"""How many scores of a block lie above, and how many reach into, the band around each threshold of their row."""

import torch
from torch import Tensor


def count_band(scores: Tensor, high: Tensor, low: Tensor, above: Tensor, reach: Tensor, cap: Tensor | None = None) -> None:
    """Adds to above[s, i] the number of scores[i, :] > high[s, i], and to reach[s, i] that of scores[i, :] >= low[s, i].

    scores: (rows, columns), may be a transposed view; high, low: (slots, rows); above, reach: (slots, rows) float64, exact to 2^53.
    Rows where `above` is beyond `cap` already need no further counting; where that is true of a whole slot, it is skipped.
    """
    rows_first = scores.stride(1) == 1  # otherwise a transposed block: reduce along its contiguous direction's other side
    layout = scores if rows_first else scores.T
    buffer = torch.empty_like(layout)
    for slot in range(len(high)):
        if cap is not None and not bool((above[slot] <= cap[slot]).any()):
            continue
        for threshold, compare, total in ((high[slot], torch.gt, above[slot]), (low[slot], torch.ge, reach[slot])):
            # A comparison written as floats: summing these is several times faster than summing booleans.
            compare(layout, threshold[:, None] if rows_first else threshold[None, :], out=buffer)
            total += buffer.sum(dim=1 if rows_first else 0)
