"""From anchors' rows to the loss of a batch: the one place where values of rows are put together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from likewise.collective import Ranks
from likewise.engines import Blocked, Dense, Engine
from likewise.losses import Loss
from likewise.mining import Miner, row_noise
from likewise.pairs import Pairs, as_number
from likewise.rows import Rows


def trait(loss: Any, name: str) -> Any:
    """What a loss declares about itself, or the default."""
    return getattr(loss, name, getattr(Loss, name))


def mined(miner: Miner, pairs: Pairs) -> Pairs:
    with torch.no_grad():
        return miner(pairs)


@dataclass(frozen=True)
class MinedValues:
    """A row loss after mining: each anchor's value and 1, or 0 and 0 for anchors that do not count."""

    loss: Any
    miner: Miner

    def __call__(self, pairs: Pairs) -> tuple[Tensor, Tensor]:
        valid = pairs.valid
        values = self.loss.per_anchor(mined(self.miner, pairs))
        return torch.where(valid, values, 0.0), as_number(valid, values.dtype)


@dataclass(frozen=True)
class MinedStatistic:
    """A loss's statistic of each row after mining: (a,)."""

    loss: Any
    miner: Miner

    def __call__(self, pairs: Pairs) -> Tensor:
        result: Tensor = self.loss.statistic(mined(self.miner, pairs))
        return result


@dataclass(frozen=True)
class MinedPool:
    """What a loss sums over all rows, after mining: (a, k)."""

    loss: Any
    miner: Miner

    def __call__(self, pairs: Pairs) -> Tensor:
        result: Tensor = self.loss.pooled(mined(self.miner, pairs))
        return result


@dataclass(frozen=True)
class WholeBatch:
    """A loss that needs all rows at once, as a row function of the one block that holds them: (1,)."""

    loss: Any

    def __call__(self, pairs: Pairs) -> Tensor:
        result: Tensor = self.loss.of_batch(pairs)
        return result[None]


def loss_of_rows(loss: Any, miner: Miner, rows: Rows, engine: Engine, *, ranks: Ranks | None) -> tuple[Tensor, Tensor]:
    """The loss of a batch and how many anchors counted in it.

    With `ranks` the rows are this rank's share of a global batch and the result is that of the whole of it.
    """
    parameters = [p for p in loss.parameters() if p.requires_grad] if isinstance(loss, nn.Module) else []
    options: dict[str, Any] = {"parameters": parameters, "between_references": trait(loss, "between_references")}
    everywhere = trait(loss, "proxies_are_anchors")  # every rank holds all rows then: nothing is left to add up
    if hasattr(loss, "of_batch"):
        whole = Dense() if isinstance(engine, Blocked) else engine  # a block never holds all rows
        return whole.each(WholeBatch(loss), rows, **options)[0], torch.ones((), device=rows.anchors.device)
    if hasattr(loss, "pooled"):
        totals = engine.each(MinedPool(loss, miner), rows, **options).sum(0)
        if ranks is not None and not everywhere:
            totals = ranks.sum(totals)
        return loss.from_pool(totals), torch.ones((), device=rows.anchors.device)
    if hasattr(loss, "statistic"):
        statistic = MinedStatistic(loss, miner)
        if ranks is not None:
            own = ranks.gather(engine.each(statistic, rows, **options))
        else:
            noise = row_noise(miner, rows.num_references, rows.references.device)
            own = engine.each(statistic, rows.of_references(noise), **options)
        rows = replace(rows, statistic=own)
    return mean_over_ranks(*engine.total(MinedValues(loss, miner), rows, **options), ranks)


def mean_over_ranks(value: Tensor, count: Tensor, ranks: Ranks | None) -> tuple[Tensor, Tensor]:
    """The mean of the values summed up in `value`, and how many they are; with `ranks`, those of all of them."""
    if ranks is not None:
        value, count = ranks.sum(value), ranks.sum(count)
    return value / count.clamp_min(1), count
