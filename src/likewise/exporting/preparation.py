"""Preparation: an image of any size as the network's input, in operations that ONNX has, with the pixels that packing and cutting give.

Torch resizes bytes in two passes, columns then rows, each rounded to whole numbers. Output i of a side of n pixels made m long weighs
source pixel j by t_ij = max(0, 2 max(n, m) - |(2j + 1) m - (2i + 1) n|), as a share of their sum: whole numbers, so that it is the same
everywhere. The shares are rounded to `bits` binary places, the most at which the largest weight stays below 2^15. ONNX has a Resize of its
own, which gives other pixels: up to 12 levels off where noise is shrunk.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from likewise.models.embedder import Preprocessing

GROUP = 32  # outputs that share a window of source pixels: a tenth of the products of a whole matrix of weights
MOST_BITS = 22
WEIGHT_LIMIT = 2**15
DIGITS = torch.tensor(2**8, dtype=torch.int32)


class Preparation(nn.Module):
    """uint8 (height, width, 3) to float32 (1, 3, size, size), as the preprocessing has it. To be traced: sizes are tensors throughout."""

    scale: Tensor
    shift: Tensor

    def __init__(self, preprocessing: Preprocessing) -> None:
        super().__init__()
        augmentation = preprocessing.augmentation
        self.side, self.size, self.crop = preprocessing.file_side, augmentation.size, augmentation.crop
        self.cut = augmentation.size if augmentation.cut is None else augmentation.cut
        mean, std = (torch.tensor(values, dtype=torch.float64)[:, None] for values in (augmentation.mean, augmentation.std))
        self.register_buffer("scale", (1 / (255 * std)).float())
        self.register_buffer("shift", (-mean / std).float())

    def forward(self, image: Tensor) -> Tensor:
        rows = image.permute(0, 2, 1)  # (height, 3, width), as all that follows
        height, width = _length(rows, 0), _length(rows, 2)
        shorter = height if self.side is None else torch.minimum(height, width)
        side = shorter if self.side is None else torch.tensor(self.side)
        tall, wide = _quotient(side * height, shorter), _quotient(side * width, shorter)
        if self.crop == "centre":
            rows = self._centre(rows, tall, wide)
        elif self.side is not None:
            rows = _resized(rows, tall, wide)
        if self.size is not None and (self.crop == "whole" or self.cut != self.size):
            rows = _resized(rows, torch.tensor(self.size), torch.tensor(self.size))
        return (rows.float() * self.scale + self.shift).permute(1, 0, 2)[None]

    def _centre(self, rows: Tensor, tall: Tensor, wide: Tensor) -> Tensor:
        """The square in the middle of the image as it is once resized; nothing else of that is computed."""
        assert self.cut is not None
        top, left = (((length - self.cut).float() / 2).round().long() for length in (tall, wide))
        if self.side is not None:
            cut = torch.tensor(self.cut)
            return _resized(rows, tall, wide, top, left, cut, cut)
        # In this shape or not at all: an image smaller than the square is a fault.
        return rows[top : top + self.cut, :, left : left + self.cut].reshape(self.cut, 3, self.cut)


def _resized(
    rows: Tensor,
    tall: Tensor,
    wide: Tensor,
    top: Tensor | None = None,
    left: Tensor | None = None,
    num_rows: Tensor | None = None,
    num_columns: Tensor | None = None,
) -> Tensor:
    """(height, 3, width) to `tall` x `wide`, of which only `num_rows` x `num_columns` from `top` and `left` on are computed, if given."""
    zero = torch.tensor(0)
    columns = _shrunk(rows.permute(2, 1, 0), wide, zero if left is None else left, wide if num_columns is None else num_columns)
    return _shrunk(columns.permute(2, 1, 0), tall, zero if top is None else top, tall if num_rows is None else num_rows)


def _shrunk(lines: Tensor, size: Tensor, first: Tensor, count: Tensor) -> Tensor:
    """(length, a, b) to (count, a, b), int32: outputs from `first` on of `length` lines made `size` many."""
    length = _length(lines, 0)
    longer = torch.maximum(length, size)
    num_groups = _quotient(count + GROUP - 1, torch.tensor(GROUP))
    outputs = (first + torch.minimum(_counting(num_groups * GROUP), count - 1)).reshape(-1, GROUP)  # the last fills its group
    window = _counting(_quotient((GROUP - 1) * length + 2 * longer, size) + 2)
    start = _quotient(((2 * outputs[:, :1] + 1) * length - 2 * longer + size).clamp(min=0), 2 * size)
    sources = start + window  # (groups, window)
    shares = _shares(outputs[:, :, None], sources[:, None, :], length, size)
    totals = shares.sum(2, keepdim=True)
    one = _unit(shares, totals, _shares(torch.tensor(0), window, length, size))
    weights = _quotient(2 * shares * one + totals, 2 * totals)  # (groups, GROUP, window) the rounded shares
    windows = lines.flatten(1)[torch.minimum(sources, length - 1)].float()  # (groups, window, a b)
    # Products of float32 are the fast ones, and exact up to 2^24: the high and the low digits of the weights are multiplied apart.
    high, low = torch.cat([_quotient(weights, DIGITS), weights % DIGITS], dim=1).float().matmul(windows).int().chunk(2, dim=1)
    means = _quotient(high * DIGITS + low + _quotient(one, torch.tensor(2)), one)
    return means.flatten(0, 1)[:count].reshape(-1, lines.shape[1], lines.shape[2])


def _shares(outputs: Tensor, sources: Tensor, length: Tensor, size: Tensor) -> Tensor:
    """t_ij, whole numbers; 0 for sources beyond the end."""
    reach = 2 * torch.maximum(length, size)
    shares = reach - ((2 * sources + 1) * size - (2 * outputs + 1) * length).abs()
    return shares.clamp(min=0) * (sources < length)


def _unit(shares: Tensor, totals: Tensor, of_first: Tensor) -> Tensor:
    """2^bits. The largest weight of all outputs is that of the first, which has half a window, or one of those in the middle."""
    largest = torch.cat([of_first.amax().reshape(1), shares.amax(2).reshape(-1)])
    totals = torch.cat([of_first.sum().reshape(1), totals.reshape(-1)])
    powers = 2 ** torch.arange(1, MOST_BITS + 1)
    # Rounded, the weight with one place more would still be below the limit.
    fits = 2 * largest[:, None] * powers + totals[:, None] < 2 * WEIGHT_LIMIT * totals[:, None]
    return torch.pow(torch.tensor(2), fits.sum(1).amin()).int()


def _length(tensor: Tensor, axis: int) -> Tensor:
    """As a tensor, which a trace follows."""
    return torch._shape_as_tensor(tensor)[axis]


def _counting(number: Tensor) -> Tensor:
    """0, 1, ... `number` - 1"""
    return torch.arange(number)  # type: ignore[call-overload, no-any-return]  # it takes a tensor too, which a trace follows


def _quotient(number: Tensor, divisor: Tensor) -> Tensor:
    """Of whole numbers not below 0."""
    return torch.div(number, divisor, rounding_mode="trunc")
