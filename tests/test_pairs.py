"""Pairs and the masked reductions: right on full, partial and empty rows, in value and gradient."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from likewise.pairs import Side, log1p_sum_exp, log_sum_exp, masked_max, masked_mean, masked_min, masked_sum
from likewise.references import batch_rows, other_rows
from likewise.rows import Grouping, Rows, pairs_of

# name: (reduction, the same of a list of numbers, of no numbers)
REDUCTIONS: dict[str, tuple[Callable[..., Tensor], Callable[[Tensor], Tensor], float]] = {
    "sum": (masked_sum, torch.sum, 0.0),
    "mean": (masked_mean, torch.mean, 0.0),
    "max": (masked_max, torch.max, -math.inf),
    "max or 7": (lambda v, m: masked_max(v, m, empty=7.0), torch.max, 7.0),
    "min": (masked_min, torch.min, math.inf),
    "min or 0": (lambda v, m: masked_min(v, m, empty=0.0), torch.min, 0.0),
    "max or 0": (lambda v, m: masked_max(v, m, empty=0.0), torch.max, 0.0),
    "log_sum_exp": (log_sum_exp, lambda v: torch.logsumexp(v, 0), -math.inf),
    "log_sum_exp or 3": (lambda v, m: log_sum_exp(v, m, empty=3.0), lambda v: torch.logsumexp(v, 0), 3.0),
    "log1p_sum_exp": (log1p_sum_exp, lambda v: torch.logsumexp(torch.cat([v, v.new_zeros(1)]), 0), 0.0),
}
MASK = torch.tensor([[1, 1, 1, 1], [0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool)


@pytest.mark.parametrize("shift", [0.0, 40.0, -40.0, 900.0, -900.0])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions(name: str, shift: float) -> None:
    """All signs and sizes: a row of large values must not overflow, one of negative values must not find a fill-in largest."""
    reduction, plain, of_nothing = REDUCTIONS[name]
    values = shift + 3 * torch.randn(4, 4, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    values.requires_grad_()
    found = reduction(values, MASK)
    expected = torch.stack([plain(row[mask]) if mask.any() else row.sum() * 0 + of_nothing for row, mask in zip(values, MASK, strict=True)])
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.tensor([1.0, 2.0, -3.0, 5.0], dtype=torch.float64)
    kept = found.isfinite()
    gradients = [torch.autograd.grad((row[kept] * weights[kept]).sum(), values)[0] for row in (found, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)
    assert not gradients[0][~MASK].any()


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_gradient_of_empty_rows_is_zero(name: str, dtype: torch.dtype) -> None:
    """Also where the value of nothing is infinite, once it is selected away as losses do."""
    reduction, _, _ = REDUCTIONS[name]
    values = torch.randn(3, 4, dtype=dtype, requires_grad=True)
    nothing = torch.zeros(3, 4, dtype=torch.bool)
    result = reduction(values, nothing)
    assert result.dtype == dtype
    torch.where(result.isfinite(), result, 0.0).sum().backward()
    assert not values.grad.any()


def test_side_counts_and_columns() -> None:
    side = Side(torch.zeros(4, 4), MASK)
    assert side.count.tolist() == [4, 2, 1, 0]
    assert side.empty.tolist() == [False, False, False, True]
    values = torch.tensor([10.0, 20.0, 30.0])
    assert torch.equal(side.per_column(values), values)
    columns = torch.tensor([[2, 0], [1, 1]])
    assert Side(torch.zeros(2, 2), torch.ones(2, 2, dtype=torch.bool), columns).per_column(values).tolist() == [[30, 10], [20, 20]]


def vectors(num: int = 9, dim: int = 5) -> Tensor:
    return torch.randn(num, dim, generator=torch.Generator().manual_seed(2), dtype=torch.float64)


def pairs_from(rows: Rows) -> object:
    squares = rows.squared_norms() or (None, None)
    return pairs_of(rows.similarity(), rows.block(), dim=rows.anchors.shape[1], anchor_square=squares[0], reference_square=squares[1])


@pytest.mark.parametrize("normalized", [True, False])
def test_distances_are_those_of_the_vectors(normalized: bool) -> None:
    x = F.normalize(vectors()) if normalized else vectors()
    labels = torch.arange(9) // 3
    pairs = pairs_from(batch_rows(x, labels, unit=normalized))
    torch.testing.assert_close(pairs.distance, torch.cdist(x, x), rtol=1e-7, atol=1e-7)
    torch.testing.assert_close(pairs.positives.squared_distance, torch.cdist(x, x).square(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1.0, 1e-3, 300.0])
def test_equal_vectors_are_at_distance_zero_without_gradient(dtype: torch.dtype, length: float) -> None:
    """Round-off makes 2 - 2 s of equal vectors a little more or less than 0; the root of that would be far from 0."""
    x = F.normalize(vectors(200, 64)).to(dtype)
    x = (F.normalize(x) if length == 1.0 else length * x).repeat(2, 1)
    x.requires_grad_()
    pairs = pairs_from(batch_rows(x, torch.arange(200).repeat(2), unit=length == 1.0))
    of_twins = pairs.distance[:200, 200:].diagonal()
    assert (of_twins <= 1e-15 * length).all()
    of_twins.sum().backward()
    assert not x.grad.any()


def test_an_item_is_no_pair_with_itself() -> None:
    labels = torch.tensor([0, 0, 1, 2, 1, 0])
    pairs = pairs_from(batch_rows(torch.ones(6, 2), labels, unit=False))
    same = labels[:, None] == labels
    assert torch.equal(pairs.positive, same & ~torch.eye(6, dtype=torch.bool))
    assert torch.equal(pairs.negative, ~same)
    assert pairs.valid.tolist() == [True, True, True, False, True, True]


def test_anchors_of_a_share_keep_their_numbers() -> None:
    labels = torch.tensor([0, 0, 1, 2, 1, 0])
    whole = pairs_from(batch_rows(vectors(6), labels, unit=False))
    share = pairs_from(batch_rows(vectors(6), labels, unit=False, share=slice(2, 5)))
    assert torch.equal(share.positive, whole.positive[2:5])
    assert torch.equal(share.negative, whole.negative[2:5])


@pytest.mark.parametrize("seed", range(4))
def test_columns_are_masks(seed: int) -> None:
    """Positives by the columns of their class, from references that lack some of the anchors' classes, some not present."""
    generator = torch.Generator().manual_seed(seed)
    labels, reference_labels = torch.randint(6, (8,), generator=generator), torch.randint(1, 8, (11,), generator=generator)
    present = torch.rand(11, generator=generator) < 0.8
    rows = other_rows(vectors(8), labels, vectors(11), reference_labels, unit=False)
    rows = Rows(**{**vars(rows), "present": present, "anchor_items": torch.arange(8), "reference_items": torch.arange(3, 14)})
    compact = Rows(**{**vars(rows), "grouping": Grouping.of(labels, reference_labels)})
    mask, columns = pairs_from(rows), pairs_from(compact)
    assert columns.positives.columns.shape[1] < 11
    same, others = labels[:, None] == reference_labels, torch.arange(8)[:, None] != torch.arange(3, 14)
    assert torch.equal(mask.positive, same & others & present)
    assert torch.equal(mask.negative, ~same & present)
    assert torch.equal(columns.positive, mask.positive)
    assert torch.equal(columns.negative, mask.negative)
    assert torch.equal(columns.valid, mask.valid)
    assert torch.equal(columns.positives.count, mask.positives.count)
    dense = torch.zeros(8, 11, dtype=torch.float64).scatter_add_(
        1, columns.positives.columns, torch.where(columns.positives.mask, columns.positives.squared_distance, 0.0)
    )
    torch.testing.assert_close(dense, torch.where(mask.positive, mask.positives.squared_distance, 0.0), rtol=1e-12, atol=1e-12)


def test_narrowing_only_takes_away() -> None:
    labels = torch.tensor([0, 0, 1, 2, 1, 0])
    pairs = pairs_from(batch_rows(vectors(6), labels, unit=False))
    narrow = pairs.narrow(positive=torch.ones(6, 6, dtype=torch.bool), negative=pairs.similarity > 0)
    assert torch.equal(narrow.positive, pairs.positive)
    assert torch.equal(narrow.negative, pairs.negative & (pairs.similarity > 0))
    assert torch.equal(pairs.negative, labels[:, None] != labels)
