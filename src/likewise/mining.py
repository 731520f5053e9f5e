"""Miners: Pairs -> Pairs with narrower masks. Any miner goes with any row loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from likewise.checks import ByMethods, require_frozen
from likewise.pairs import Pairs, Side, masked_max, masked_min, semihard_negative
from likewise.registries import from_registry
from likewise.wording import quoted


class Miner(Protocol):
    """Keeps some of the positives and negatives of each row: it only narrows masks, and never returns indices. It runs without gradient."""

    def __call__(self, pairs: Pairs) -> Pairs:
        """The same rows with narrower masks, see `Pairs.narrow`. What is kept of a row must not depend on the block's other rows."""
        ...


@runtime_checkable
class DrawingMiner(Protocol, metaclass=ByMethods):
    """A miner that draws pairs at random. Its random numbers are drawn for all rows at once, so that blocks do not change them."""

    def __call__(self, pairs: Pairs) -> Pairs:
        """As of any miner; the rows' random numbers are `pairs.noise` (a, 1)."""
        ...

    def noise(self, num_rows: int, device: torch.device) -> Tensor:
        """A random number for each row: (rows, 1)."""
        ...


def row_noise(miner: Miner, num_rows: int, device: torch.device) -> Tensor | None:
    """The rows' random numbers (rows, 1), if the miner draws."""
    return miner.noise(num_rows, device) if isinstance(miner, DrawingMiner) else None


def mined(miner: Miner, pairs: Pairs) -> Pairs:
    """The pairs the miner keeps."""
    with torch.no_grad():
        kept = miner(pairs)
    if not isinstance(kept, Pairs):
        raise ValueError(f"the miner {miner!r} returned {type(kept).__name__}, not Pairs: return pairs.narrow(positive=..., negative=...)")
    return kept


@dataclass(frozen=True)
class All:
    """Every pair."""

    def __call__(self, pairs: Pairs) -> Pairs:
        return pairs


@dataclass(frozen=True)
class ValidTriplet:
    """VTHM: pairs that are part of some triplet within the margin (unified view, 5.1).

    Keeps negatives with s > min_P s - margin and positives with s < max_N s + margin.
    """

    margin: float = 0.1

    def __call__(self, pairs: Pairs) -> Pairs:
        pull, push = pairs.positives, pairs.negatives
        hardest_positive = masked_min(pull.similarity, pull.mask)[:, None]
        hardest_negative = masked_max(push.similarity, push.mask)[:, None]
        return pairs.narrow(
            positive=pull.similarity < hardest_negative + self.margin, negative=push.similarity > hardest_positive - self.margin
        )


@dataclass(frozen=True)
class NonTrivial:
    """RLL's: pairs that violate its constraint (RLL, 3.2): negatives with d < alpha, positives with d > alpha - margin."""

    alpha: float = 1.2
    margin: float = 0.4

    def __call__(self, pairs: Pairs) -> Pairs:
        return pairs.narrow(positive=pairs.positives.distance > self.alpha - self.margin, negative=pairs.negatives.distance < self.alpha)


@dataclass(frozen=True)
class SemiHard:
    """Every positive, and for each the nearest negative farther than it, or the farthest negative if none is (Schroff et al. 2015)."""

    def __call__(self, pairs: Pairs) -> Pairs:
        pull, push = pairs.positives, pairs.negatives
        farness = -push.similarity
        partner = semihard_negative(-pull.similarity, pull, farness, push)
        partner = torch.where(pull.mask, partner, torch.inf).sort(-1).values
        # a negative is a partner when its distance is one of the sorted partners'
        place = torch.searchsorted(partner, farness.contiguous()).clamp_max_(partner.shape[-1] - 1)
        return pairs.narrow(negative=partner.gather(-1, place) == farness)


@dataclass(frozen=True)
class Hard:
    """The least similar positive and the most similar negative; the first of equals."""

    def __call__(self, pairs: Pairs) -> Pairs:
        pull, push = pairs.positives, pairs.negatives
        return pairs.narrow(positive=_first_largest(pull, -pull.similarity), negative=_first_largest(push, push.similarity))


def _first_largest(side: Side, values: Tensor) -> Tensor:
    """Marks the largest masked value of each row, of equal ones that with the lowest column. (a, k)"""
    largest = side.mask & (values == masked_max(values, side.mask)[:, None])
    columns = torch.arange(values.shape[-1], device=values.device) if side.columns is None else side.columns
    first = torch.where(largest, columns, torch.iinfo(torch.long).max)
    return largest & (columns == first.amin(-1, keepdim=True))


@dataclass(frozen=True)
class DistanceWeighted:
    """All positives, and as many negatives, drawn so that their distances are spread evenly (Wu et al. 2017).

    A negative is drawn with probability proportional to 1/q(d), q(d) = d^{n-2} (1 - d^2/4)^{(n-3)/2} the density of distances
    between random points of the unit sphere in n dimensions, d no smaller than `cutoff`; negatives beyond `farthest` are never
    drawn. Worked in logarithms and row by row, so that one near-duplicate pair does not underflow the other rows.

    The draws of a row are k evenly spaced points of its cumulative weights from one random start: each is distributed by the
    weights, and a row's result does not depend on how rows are cut into blocks.
    """

    cutoff: float = 0.5
    farthest: float = 1.4
    generator: torch.Generator | None = None

    def __call__(self, pairs: Pairs) -> Pairs:
        pull, push = pairs.positives, pairs.negatives
        distance = push.distance
        allowed = push.mask & (distance < self.farthest)
        near = distance.clamp_min(self.cutoff)
        # 1 - d^2/4 is at least 1 - farthest^2/4 wherever it counts
        flat = (1 - near.square() / 4).clamp_min(1 - min(self.farthest, 1.999) ** 2 / 4)
        log_weight = (2 - pairs.dim) * near.log() + (3 - pairs.dim) / 2 * flat.log()
        log_weight = torch.where(allowed, log_weight, -torch.inf)
        top = log_weight.amax(-1, keepdim=True)
        cumulative = torch.where(allowed, (log_weight - top).exp(), 0.0).cumsum(-1)
        total = cumulative[:, -1:]
        start = self.noise(pairs.anchor_labels.shape[0], push.mask.device) if pairs.noise is None else pairs.noise
        wanted = pull.mask.sum(-1, keepdim=True)
        # entry j is drawn when a point (start + i) / wanted * total, i = 0, 1, .., falls into its stretch of the cumulative weights
        points = cumulative * (wanted / total.clamp_min(torch.finfo(total.dtype).tiny)) - start
        passed = points.ceil().clamp_min_(0)
        before = torch.cat([torch.zeros_like(total), passed[:, :-1]], -1)
        return pairs.narrow(negative=allowed & (passed > before))

    def noise(self, num_rows: int, device: torch.device) -> Tensor:
        """One uniform number a row: (rows, 1)."""
        return torch.rand(num_rows, 1, generator=self.generator, device=self.generator.device if self.generator else device).to(device)


MINERS: dict[str, type[Miner]] = {
    "all": All,
    "vthm": ValidTriplet,
    "non_trivial": NonTrivial,
    "semihard": SemiHard,
    "hard": Hard,
    "distance_weighted": DistanceWeighted,
}


def make_miner(mining: str | Miner | None, settings: Mapping[str, Any] | None = None) -> Miner:
    """The miner of this name with these settings, or the miner object itself, after a look at it; None: all pairs."""
    if mining is None:
        return All()
    if isinstance(mining, str):
        return from_registry("miner", mining, MINERS, settings or {})
    if settings:
        raise ValueError(f"settings {sorted(settings)} belong to a miner given by name; this miner object has its own")
    if isinstance(mining, type):
        raise ValueError(f"mining={mining.__name__} is no miner but a class: give an object, {mining.__name__}()")
    if isinstance(mining, list | tuple):
        raise ValueError(
            f"mining={quoted(mining)} is no miner but several: give one, which may call the others in turn on what it has kept"
        )
    if not callable(mining):
        raise ValueError(
            f"mining={quoted(mining)} is no miner: give a name in likewise.MINERS or an object that maps Pairs to Pairs when called"
        )
    require_frozen("miner", mining)
    return mining
