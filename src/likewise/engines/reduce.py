"""From anchors' rows to the loss of a batch: the one place where values of rows are put together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from likewise.collective import Ranks
from likewise.engines import Blocked, Dense, Engine
from likewise.losses.loss import BatchLoss, OverPairs, PairLoss, PooledLoss, RowLoss, Traits, WithStatistic
from likewise.mining import Miner, mined, row_noise
from likewise.pairs import Pairs, as_number
from likewise.rows import RowFunction, Rows, statistics_dtype

Reduce = Literal["anchors", "pairs", "nonzero"]
Singletons = Literal["leave_out", "keep"]


@dataclass(frozen=True)
class Reduction:
    """What the loss of a batch is the mean of. `likewise.objective` says what each choice means."""

    over: Reduce = "anchors"
    singletons: Singletons = "leave_out"


WHOLE_MEAN = Reduction()  # over the anchors that have a positive and a negative


@dataclass(frozen=True)
class MinedValues:
    """A row loss after mining: what each anchor adds to the sum and to the number it is divided by; 0 and 0 if it does not count."""

    loss: RowLoss
    miner: Miner
    reduction: Reduction = WHOLE_MEAN

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        valid = pairs.valid
        if self.reduction.singletons == "keep":
            valid = ~(pairs.positives.empty & pairs.negatives.empty)
        kept = mined(self.miner, pairs)
        values = self.loss.per_anchor(kept)
        if self.reduction.over == "nonzero":
            valid = valid & (values.detach() > 0)
        counts = as_number(valid, values.dtype)
        if pairs.weights is not None:
            counts = counts * pairs.weights
        if self.reduction.over == "pairs":
            assert isinstance(self.loss, OverPairs)
            terms = self.loss.num_terms(kept).detach()
            counts = counts * terms
            values = values if getattr(self.loss, "sums_terms", False) else values * terms
        if pairs.weights is not None:
            values = values * pairs.weights
        return torch.where(valid, values, 0.0), counts


@dataclass(frozen=True)
class MinedStatistic:
    """A loss's statistic of each row after mining: (a,)."""

    loss: WithStatistic
    miner: Miner

    def __call__(self, pairs: Pairs) -> Tensor:
        return self.loss.statistic(mined(self.miner, pairs))


@dataclass(frozen=True)
class MinedPool:
    """What a loss sums over all rows, after mining: (a, k)."""

    loss: PooledLoss
    miner: Miner

    def __call__(self, pairs: Pairs) -> Tensor:
        sums = self.loss.pooled(mined(self.miner, pairs))
        return sums if pairs.weights is None else sums * pairs.weights[:, None]


@dataclass(frozen=True)
class WholeBatch:
    """A loss that needs all rows at once, as a row function of the one block that holds them: (1,)."""

    loss: BatchLoss

    def __call__(self, pairs: Pairs) -> Tensor:
        return self.loss.of_batch(pairs)[None]


def loss_of_rows(
    loss: PairLoss,
    rows: Rows,
    engine: Engine,
    *,
    traits: Traits,
    miner: Miner,
    ranks: Ranks | None,
    reduction: Reduction = WHOLE_MEAN,
) -> tuple[Tensor, Tensor]:
    """The loss of a batch and how many anchors (or weights, or pairs) counted in it.

    With `ranks` the rows are this rank's share of a global batch and the result is that of the whole of it.
    """
    parameters = learned_by(loss)
    between = traits.between_references

    def of_each(function: RowFunction, rows: Rows, engine: Engine = engine) -> Tensor:
        return engine.each(function, rows, parameters=parameters, between_references=between)

    match loss:
        case BatchLoss():
            whole = Dense() if isinstance(engine, Blocked) else engine  # a block never holds all rows
            return of_each(WholeBatch(loss), rows, whole)[0], torch.ones((), device=rows.anchors.device)
        case PooledLoss():
            totals = of_each(MinedPool(loss, miner), rows).sum(0)
            if ranks is not None and not traits.proxies_are_anchors:  # every rank holds all rows then: nothing is left to add up
                totals = ranks.sum(totals)
            return loss.from_pool(totals), torch.ones((), device=rows.anchors.device)
        case RowLoss():
            if isinstance(loss, WithStatistic):
                statistic = MinedStatistic(loss, miner)
                if ranks is not None:
                    of_references = ranks.gather(of_each(statistic, rows))
                else:
                    noise = row_noise(miner, rows.num_references, rows.references.device)
                    of_references = of_each(statistic, rows.of_references(noise))
                rows = replace(rows, statistic=of_references)
            values = MinedValues(loss, miner, reduction)
            return mean_over_ranks(*engine.total(values, rows, parameters=parameters, between_references=between), ranks)


def zero_of(rows: Rows, loss: PairLoss) -> Tensor:
    """The loss of a batch none of whose anchors counts: 0, with a gradient of 0 for everything that it depends on."""
    learned = [parameter.sum() for parameter in learned_by(loss)]
    return (sum(learned, rows.anchors.sum() + rows.references.sum()) * 0).to(statistics_dtype(rows.anchors))


def learned_by(loss: PairLoss) -> list[nn.Parameter]:
    return [p for p in loss.parameters() if p.requires_grad] if isinstance(loss, nn.Module) else []


def mean_over_ranks(value: Tensor, count: Tensor, ranks: Ranks | None) -> tuple[Tensor, Tensor]:
    """The mean of the values summed up in `value`, and how many they are; with `ranks`, those of all of them."""
    if ranks is not None:
        value, count = ranks.sum(value), ranks.sum(count)
    return value / torch.where(count > 0, count, 1.0), count
