"""The unified view: a pair-based loss is a choice of weights for pairs (unified view, Theorem 3.1).

With L a function of the similarities of all ordered pairs, and

    w_ij = -dL/ds_ij  if j is a positive of i,    w_ij = +dL/ds_ij  if j is a negative of i,

the sum over anchors i of sum_N w_ij s_ij - sum_P w_ij s_ij, with w held constant, has the same gradient as L. Everything here is
derived from the one definition of a loss:

| name | gives |
|---|---|
| `pair_weights` | the weights of an objective on a batch |
| `surrogate` | that gradient-equivalent sum |
| `weight_curve` | the weight of one pair against its similarity, the rest of the anchor's row fixed |
| `DesignedByWeights` | the way back: a loss that is given by its weights |

The theorem asks for w >= 0, and most losses keep that. Some do not: in nonlinear_rank the pairs that set the smallest and largest
distance receive gradient of either sign; in supcon, smooth_ap, fast_ap and recall_at_k the positives of a row also compete with
each other; in soft_triple a centre far from its fellows is pushed off; structured_clustering pulls items to its true medoids
and off the found ones, whatever their class. So weights are signed here: a negative one draws a negative nearer or pushes a
positive away.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from likewise.argument_types import checked_arguments
from likewise.engines.dense import Dense, all_pairs
from likewise.engines.reduce import MinedPool, MinedValues, loss_of_rows
from likewise.losses import Loss, make_loss
from likewise.losses.loss import AnyLoss, PairLoss, PooledLoss, RowLoss, VectorLoss, WithPenalty, WithStatistic, traits_of
from likewise.mining import DrawingMiner, Miner, make_miner
from likewise.objectives import Objective
from likewise.pairs import NotPairsAloneError, Pairs, Side, masked_sum
from likewise.rows import Rows, pairs_of, statistics_dtype
from likewise.unit_vectors import unit

WeightFunction = Callable[[Pairs], Tensor]  # a block of rows -> (anchors, references)


@checked_arguments
def pair_weights(objective: Objective, embeddings: Tensor, labels: Tensor) -> Tensor:
    """The weight of every pair in the loss of a batch: (anchors, references).

    That is (N, N) for a batch that meets itself, where the rows of W are anchors and L counts (i, j) and (j, i) as two pairs;
    (N, N + memory) with a memory; (N, proxies) for losses with proxies, also for proxy_anchor, whose anchors are the proxies.
    W is zero where an item meets itself and for pairs the miner or the loss leaves out.

    A miner that draws does so once for this call: seed it alike to see the weights of a particular step. The batch is taken as
    this process's own, and a memory is looked at but not added to.

    A ValueError says so where the loss is not a function of pairs alone: distances of vectors that are not normalised, a
    penalty on the vectors, class means, a loss of the vectors themselves.
    """
    loss = _loss_of_pairs(objective)
    labels = objective.check(embeddings, labels)
    with torch.no_grad(), torch.autocast(embeddings.device.type, enabled=False):
        rows = _rows(objective, embeddings, labels)
        slope, positive = _slope(loss, objective, rows)
    weights = _signed(slope, positive)
    return weights.T.contiguous() if objective.traits.proxies_are_anchors else weights


def surrogate(objective: Objective, embeddings: Tensor, labels: Tensor) -> Tensor:
    """F = sum_i (sum_N w_ij s_ij - sum_P w_ij s_ij) with constant `pair_weights`: the gradient of the loss, by another road.

    The gradient by the embeddings (and proxies) is that of `objective(embeddings, labels)`; the value is not. References are
    constant here too where the loss holds them constant (ranked_list). A learned setting of the loss, such as the boundary of
    `margin`, is no pair and gets no gradient.
    """
    loss = _loss_of_pairs(objective)
    labels = objective.check(embeddings, labels)
    with torch.autocast(embeddings.device.type, enabled=False):
        rows = _rows(objective, embeddings, labels)
        slope, _ = _slope(loss, objective, rows)
        return (slope * rows.similarity()).sum()


def _loss_of_pairs(objective: Objective) -> PairLoss:
    if not isinstance(objective, Objective):
        raise ValueError(f"{objective!r} is no objective: make one with likewise.objective(...)")
    if isinstance(objective.loss, VectorLoss):
        raise ValueError(
            f"{type(objective.loss).__name__} is a loss of the vectors themselves, not of pairs: "
            "it has no pair weights, and no setting gives it any"
        )
    return objective.loss


def _rows(objective: Objective, embeddings: Tensor, labels: Tensor) -> Rows:
    """The batch's rows, of an objective whose loss was found to be one of pairs alone."""
    rows = objective.rows(embeddings, labels)
    if isinstance(objective.loss, WithPenalty):
        vectors = unit(embeddings) if objective.normalize else embeddings
        if _penalty_moves(objective.loss, vectors, rows):
            raise ValueError(
                f"{type(objective.loss).__name__} adds a penalty on the vectors themselves, which is not a function of pairs alone: "
                "set its strength to 0 (norm_penalty=0 in n_pair, regularization=0 in soft_triple)"
            )
    return rows


def _penalty_moves(loss: WithPenalty, vectors: Tensor, rows: Rows) -> bool:
    """Whether the penalty has a gradient, beyond growing vectors that are normalised anyway."""
    leaves = [tensor.detach().to(statistics_dtype(tensor)).requires_grad_() for tensor in (vectors, rows.references)]
    with torch.enable_grad():
        gradients = torch.autograd.grad(loss.penalty(*leaves), leaves, allow_unused=True)
    for leaf, gradient in zip(leaves, gradients, strict=True):
        if gradient is None:
            continue
        along = (gradient * leaf).sum(-1, keepdim=True) * leaf if rows.unit else 0.0
        round_off = 64 * torch.finfo(leaf.dtype).eps * gradient.abs().max()
        if (gradient - along).abs().max() > round_off:
            return True
    return False


@dataclass(frozen=True)
class _Given(Dense):
    """An engine that is handed the similarities (and norms) instead of the vectors they come from."""

    rows: Rows  # whose they are
    similarity: Tensor  # (n, r)
    squared_norms: tuple[Tensor, Tensor] | None

    def pairs(self, rows: Rows, *, between_references: bool) -> Pairs:
        if rows.anchors is not self.rows.anchors:
            raise NotPairsAloneError("the rows of the references are not rows of anchors here")
        return all_pairs(rows, self.similarity, self.squared_norms, self.similarity if rows.symmetric else None)


def _slope(loss: PairLoss, objective: Objective, rows: Rows) -> tuple[Tensor, Tensor]:
    """dL/ds of every pair (n, r), zero where there is no pair, and which pairs are positive (n, r)."""
    name = type(loss).__name__
    dtype = statistics_dtype(rows.anchors)
    similarity = rows.similarity().detach().to(dtype)
    if similarity.numel() == 0:  # an episode of singletons has no support
        return similarity, similarity > 0
    similarity.requires_grad_()
    squares = rows.squared_norms()
    if squares is not None:
        squares = squares[0].detach().requires_grad_(), squares[1].detach().requires_grad_()
    engine = _Given(rows, similarity, squares)
    with torch.enable_grad():
        try:
            value, _ = loss_of_rows(
                loss, rows, engine, traits=objective.traits, miner=objective.miner, ranks=None, reduction=objective.reduction
            )
        except NotPairsAloneError as error:
            raise ValueError(
                f"{name} looks at similarities between references, which are pairs of anchors only where a batch meets itself: "
                "leave the memory out"
            ) from error
        slope, *by_norms = torch.autograd.grad(value, [similarity, *(squares or ())], allow_unused=True)
    if any(gradient is not None for gradient in by_norms):  # a miner may look at norms: it runs without gradient
        raise ValueError(_norms_message(objective))
    slope = torch.zeros_like(similarity) if slope is None else slope
    pairs = pairs_of(similarity.detach(), rows.block(), dim=rows.anchors.shape[1])
    positive = pairs.positive
    is_pair = positive | pairs.negative
    if not rows.unit and bool((slope[~is_pair] != 0).any()):  # of unit vectors it is constant
        raise ValueError(f"{name} looks at the similarity of an item with itself, which is its norm and not a pair: use normalize=True")
    return torch.where(is_pair, slope, 0.0), positive


def _signed(slope: Tensor, positive: Tensor) -> Tensor:
    return torch.where(positive, -slope, slope) + 0.0  # the sum writes -0 as 0


def _norms_message(objective: Objective) -> str:
    name = type(objective.loss).__name__
    if objective.traits.meets == "prototypes":
        return (
            f"{name} measures distances to class means, which depend on the norms of the means and not on pairs alone, "
            "normalised embeddings or not: look at a loss with proxies (proxy_nca, proxy_softmax) instead"
        )
    return f"{name} measures distances of vectors that are not normalised, which depend on norms and not on pairs alone: use normalize=True"


@dataclass(frozen=True)
class DesignedByWeights(Loss):
    """l = sum_N w s - sum_P w s, w = weight_function(pairs) held constant: a loss given only by its weights (Theorem 3.1, read backwards).

    `weight_function` sees a block of rows after mining and gives one weight a pair, (anchors, references), as a function of
    `pairs.similarity`, `pairs.positive` and `pairs.negative`; what it gives elsewhere does not matter. It may look at a whole
    row but must not mix rows, which come in blocks. A positive weight draws positives nearer and negatives apart.

    Only the gradient means something. The value is not a loss to watch: the weights change from step to step, so it may rise
    while the embedding gets better. Watch a retrieval score instead.
    """

    weight_function: WeightFunction

    def __post_init__(self) -> None:
        if isinstance(self.weight_function, type) or not callable(self.weight_function):
            raise ValueError(
                f"weight_function={self.weight_function!r} is no function: give one that maps pairs to weights, (anchors, references)"
            )

    def per_anchor(self, pairs: Pairs) -> Tensor:
        pull, push = pairs.positives, pairs.negatives
        with torch.no_grad():
            weights = self.weight_function(pairs)
            if weights.shape != pairs.similarity.shape:
                raise ValueError(
                    f"the weight function gave {tuple(weights.shape)} for {tuple(pairs.similarity.shape)} pairs: a weight a pair is needed"
                )
            weights = weights.to(pairs.similarity.dtype)
            pull_weights = weights if pull.columns is None else weights.gather(1, pull.columns)
            # zero before the product, not after: an infinite weight off the pairs must not reach the gradient
            pull_weights = torch.where(pull.mask, pull_weights, 0.0)
            push_weights = torch.where(push.mask, weights, 0.0)
        return masked_sum(push_weights * push.similarity, push.mask) - masked_sum(pull_weights * pull.similarity, pull.mask)


@dataclass(frozen=True)
class WeightCurve:
    """What the pairs of one anchor's row weigh while the similarity of one of them runs over a grid."""

    vary: Literal["positive", "negative"]  # the side the varied pair is on
    similarities: Tensor  # (grid,) of the varied pair
    weights: Tensor  # (grid,) of the varied pair
    positive_weights: Tensor  # (grid, positives) of the other positives, in the order given
    negative_weights: Tensor  # (grid, negatives) of the other negatives


def weight_curve(
    loss: str | AnyLoss,
    *,
    mining: str | Miner | None = None,
    positives: Sequence[float] = (),
    negatives: Sequence[float] = (),
    vary: Literal["positive", "negative"],
    similarities: Tensor | Sequence[float] | None = None,
) -> WeightCurve:
    """The weight of one pair against its similarity, in the anchor's row that `positives` and `negatives` describe.

    The row holds the varied pair beside them. `similarities` are its values (default 201 from -1 to 1), cosines of unit
    vectors. The weights are those in the anchor's own value l_i, as in the paper; the loss of a batch divides them by the
    number of anchors. The loss is a name in `likewise.LOSSES` or a loss object; one that looks beyond the anchor's row (lifted,
    angular, the clustering losses) has no such curve. Histogram and proxy_anchor are taken as if the row were all there is.
    """
    loss, miner = make_loss(loss), make_miner(mining)
    if vary not in ("positive", "negative"):
        raise ValueError(f"vary={vary!r} must be 'positive' or 'negative'")
    if isinstance(miner, DrawingMiner):
        raise ValueError(f"{type(miner).__name__} draws pairs at random: a weight curve of one draw says nothing, use another miner")
    num_positives, num_negatives = len(positives) + (vary == "positive"), len(negatives) + (vary == "negative")
    loss = _loss_of_one_row(loss, num_positives, num_negatives)

    grid = torch.linspace(-1, 1, 201, dtype=torch.float64) if similarities is None else torch.as_tensor(similarities, dtype=torch.float64)
    if grid.ndim != 1:
        raise ValueError(f"similarities must be a list of numbers, not of shape {tuple(grid.shape)}")
    # one row for each value of the grid: positives, then negatives; the varied pair is the first of its side
    context = torch.tensor([*positives, *negatives], dtype=torch.float64).expand(len(grid), -1)
    place = 0 if vary == "positive" else num_positives
    similarity = torch.cat([context[:, :place], grid[:, None], context[:, place:]], 1).requires_grad_()
    is_positive = (torch.arange(similarity.shape[1]) < num_positives).expand_as(similarity)
    pairs = Pairs(
        positives=Side(similarity, is_positive),
        negatives=Side(similarity, ~is_positive),
        anchor_labels=torch.zeros(len(grid), dtype=torch.long),
        dim=0,  # only miners that draw ask for it
    )
    with torch.enable_grad():
        if isinstance(loss, PooledLoss):
            values = torch.stack([loss.from_pool(totals) for totals in MinedPool(loss, miner)(pairs)])
        else:
            values = MinedValues(loss, miner)(pairs)[0]
        (slope,) = torch.autograd.grad(values.sum(), [similarity])
    weights = _signed(slope, is_positive)
    of_positives, of_negatives = weights[:, :num_positives], weights[:, num_positives:]
    return WeightCurve(
        vary=vary,
        similarities=grid,
        weights=weights[:, place],
        positive_weights=of_positives[:, 1:] if vary == "positive" else of_positives,
        negative_weights=of_negatives[:, 1:] if vary == "negative" else of_negatives,
    )


def _loss_of_one_row(loss: AnyLoss, num_positives: int, num_negatives: int) -> RowLoss | PooledLoss:
    """The loss, if one row of so many pairs is all it needs to know."""
    name, traits = type(loss).__name__, traits_of(loss)
    if not isinstance(loss, RowLoss | PooledLoss) or isinstance(loss, WithStatistic) or traits.between_references:
        raise ValueError(f"{name} looks beyond the anchor's row: one row does not give its weights, pair_weights of a batch may")
    if num_positives == 0 or num_negatives == 0:
        raise ValueError(f"an anchor counts with a positive and a negative, not {num_positives} and {num_negatives}: give both")
    per_class = traits.proxies_per_class
    meets_proxies = traits.meets != "batch" and not traits.proxies_are_anchors
    if meets_proxies and (num_positives != per_class or num_negatives % per_class):
        raise ValueError(
            f"a row of {name} has {per_class} references of the anchor's own class and a multiple of that of others, "
            f"not {num_positives} and {num_negatives}: give as many, the varied one counted"
        )
    return loss
