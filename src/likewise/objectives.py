"""Objective: a loss, a miner, references and an engine as the one module a training loop calls."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any, Literal, get_args

import torch
import torch.distributed as dist
from torch import Tensor, nn

from likewise.argument_types import checked_arguments
from likewise.checks import checked_labels
from likewise.collective import Ranks
from likewise.engines import choose_engine, choose_grouping
from likewise.engines.reduce import WHOLE_MEAN, Reduce, Reduction, Singletons, loss_of_rows, mean_over_ranks, zero_of
from likewise.losses import make_loss
from likewise.losses.loss import AnyLoss, BatchLoss, OverPairs, PairLoss, RowLoss, VectorLoss, WithPenalty, traits_of
from likewise.mining import All, Miner, make_miner, row_noise
from likewise.references import MemoryBank, Proxies, batch_rows, other_rows, prototype_rows, support_items
from likewise.rows import Relation, Rows, statistics_dtype
from likewise.unit_vectors import unit


@checked_arguments
def objective(
    loss: str | AnyLoss,
    *,
    mining: str | Miner | None = None,
    normalize: bool | None = None,
    block: int | Literal["auto"] | None = "auto",
    compile: bool | Literal["auto"] = "auto",
    num_classes: int | None = None,
    dim: int | None = None,
    memory: int | None = None,
    memory_warm_up: int = 0,
    gather: bool | dist.ProcessGroup = False,
    reduce: Reduce = "anchors",
    singletons: Singletons = "leave_out",
    class_weights: Tensor | Sequence[float] | None = None,
    trusting: bool = False,
    **settings: Any,
) -> Objective:
    """The objective of a loss: a name in `likewise.LOSSES` with its settings, or a loss object.

    - mining: a name in `likewise.MINERS` or a miner object; default all pairs.
    - normalize: bring embeddings to length 1; default as the loss is defined.
    - block: rows evaluated at a time; None: all, under plain autograd; "auto": by size and device.
    - compile: fuse the block step with torch.compile; "auto": on a GPU, for large batches.
    - num_classes, dim: for losses with proxies; num_classes also gives `margin` a boundary for each class.
    - memory: also compare with this many embeddings of earlier batches (needs dim), after `memory_warm_up` batches.
    - gather: compare with the batches of all ranks (True, or a process group). The value is that of the global batch; the
      gradient is right after the mean over ranks that DistributedDataParallel takes.
    - reduce: what the loss of a batch is the mean of. "anchors": the anchors' values l_i. "nonzero": those of them that are above 0.
      "pairs": all terms of all anchors, so that an anchor with more pairs weighs more; for losses that are a mean or a sum of one term a
      pair or triplet (contrastive, triplet, margin, n_pair, lifted, angular, nt_xent, supcon, ...); others say that they are none.
    - singletons: "leave_out": anchors without a positive or without a negative do not count; "keep": they do, with the term that is left.
    - class_weights: a weight of each class, by label: that of its anchors, times the `weights` of a call.
    - trusting: do not look for NaN and for unknown classes in every batch. On a GPU the look waits for the device; a training loop
      that watches its loss does without.
    """
    loss = make_loss(loss, settings, num_classes=num_classes, dim=dim)
    miner = make_miner(mining)
    traits = traits_of(loss)
    of_whole_batch = isinstance(loss, BatchLoss | VectorLoss)
    if of_whole_batch and not isinstance(miner, All):
        raise ValueError(f"{type(loss).__name__} is a loss of the whole batch, not of pairs: leave mining out")
    if compile not in (True, False, "auto"):
        raise ValueError(f"compile={compile!r} must be True, False or 'auto'")
    if block not in (None, "auto") and not (isinstance(block, int) and block >= 1):
        raise ValueError(f"block={block!r} must be a positive number of rows, 'auto' or None")
    if reduce not in get_args(Reduce):
        raise ValueError(f"reduce={reduce!r} is unknown: use 'anchors', 'pairs' or 'nonzero'")
    if singletons not in get_args(Singletons):
        raise ValueError(f"singletons={singletons!r} is unknown: use 'leave_out' or 'keep'")
    if not isinstance(loss, RowLoss) and (reduce != "anchors" or singletons != "leave_out"):
        raise ValueError(f"{type(loss).__name__} is not a mean over anchors: leave reduce and singletons out")
    if reduce == "pairs" and not isinstance(loss, OverPairs):
        raise ValueError(
            f"{type(loss).__name__} is no mean or sum of one term a pair: use reduce='anchors' or 'nonzero', or write its num_terms(pairs)"
        )
    weights_of_classes = None if class_weights is None else checked_weights("class_weights", torch.as_tensor(class_weights))
    if weights_of_classes is not None:
        require_weighable(loss, traits.proxies_are_anchors)
    proxies = None
    if traits.meets == "proxies":
        if num_classes is None or dim is None or num_classes < 1 or dim < 1:
            raise ValueError(f"{type(loss).__name__} owns proxies: give num_classes= and dim=, not {num_classes} and {dim}")
        proxies = Proxies(num_classes, dim, per_class=traits.proxies_per_class)
    bank = None
    if memory is not None:
        if dim is None or memory < 1:
            raise ValueError(f"a memory needs its size and the embeddings' dimension: give memory= and dim=, not {memory} and {dim}")
        if traits.meets != "batch" or of_whole_batch:
            raise ValueError(f"{type(loss).__name__} does not compare embeddings with other embeddings: it cannot use a memory")
        bank = MemoryBank(memory, dim, warm_up=memory_warm_up)
    return Objective(
        loss,
        miner=miner,
        normalize=normalize,
        block=block,
        compile=compile,
        proxies=proxies,
        memory=bank,
        gather=gather,
        reduction=Reduction(reduce, singletons),
        class_weights=weights_of_classes,
        trusting=trusting,
    )


def checked_weights(name: str, weights: Tensor, number: int | None = None, *, values: bool = True) -> Tensor:
    """The weights, after a look at them: one each, at least 0."""
    if weights.ndim != 1 or not len(weights) or (number is not None and len(weights) != number) or weights.dtype.is_complex:
        of_what = "a class" if number is None else f"for each of {number} anchors"
        raise ValueError(f"{name} of shape {tuple(weights.shape)}: expected one weight {of_what}")
    weights = weights.detach() if weights.is_floating_point() else weights.detach().to(torch.get_default_dtype())
    if values and not bool((weights.isfinite() & (weights >= 0)).all()):
        raise ValueError(f"{name} hold {weights[~(weights.isfinite() & (weights >= 0))][0].item()}: expected numbers of at least 0")
    return weights


def checked_relation(relation: Tensor, shape: tuple[int, int], *, values: bool = True) -> None:
    if relation.shape != shape or relation.dtype == torch.bool or relation.dtype.is_complex:
        raise ValueError(
            f"relation is {relation.dtype} {tuple(relation.shape)}: expected numbers {shape}, 1 for like, -1 for unlike, 0 for neither"
        )
    if values and not bool((relation.abs() <= 1).all()):
        raise ValueError(f"relation holds {relation[~(relation.abs() <= 1)][0].item()}: expected numbers from -1 to 1")


def require_weighable(loss: AnyLoss, proxies_are_anchors: bool) -> None:
    if isinstance(loss, BatchLoss | VectorLoss) or proxies_are_anchors:
        raise ValueError(f"{type(loss).__name__} has no value for each item of the batch: leave weights and class_weights out")


class Objective(nn.Module):
    """Loss of a batch: `objective(embeddings, labels)`. Made by `likewise.objective`."""

    class_weights: Tensor | None

    def __init__(
        self,
        loss: AnyLoss,
        *,
        miner: Miner,
        normalize: bool | None,
        block: int | Literal["auto"] | None,
        compile: bool | Literal["auto"],
        proxies: Proxies | None,
        memory: MemoryBank | None,
        gather: bool | dist.ProcessGroup,
        reduction: Reduction = WHOLE_MEAN,
        class_weights: Tensor | None = None,
        trusting: bool = False,
    ) -> None:
        super().__init__()
        self.loss = loss
        self.traits = traits_of(loss)
        self.miner = miner
        self.normalize: bool = self.traits.normalize if normalize is None else normalize
        self.block = block
        self.fuse = compile  # nn.Module has a method named compile
        self.proxies = proxies
        self.memory = memory
        self.gather = gather
        self.reduction = reduction
        self.register_buffer("class_weights", class_weights, persistent=False)
        self.trusting = trusting

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        *,
        references: Tensor | None = None,
        reference_labels: Tensor | None = None,
        items: Tensor | None = None,
        weights: Tensor | None = None,
        relation: Relation | None = None,
    ) -> Tensor:
        """Mean loss of the anchors that have a positive and a negative among their references; a zero if there is none.

        With `weights`, one of at least 0 for each embedding, it is sum w_i l_i / sum w_i over the anchors that count (with reduce="pairs"
        the terms of anchor i weigh w_i; histogram weighs pairs by their anchor). Weights scale no reference: as a positive or a negative
        of others an embedding counts as before. Equal weights change nothing; where all that count are 0, the loss is a zero.

        `references` and `reference_labels` compare the embeddings with another set instead of with each other; `items` are the
        embeddings' indices in the data set, for the memory bank.

        `relation` says instead of equal labels which pairs are alike: a matrix, (N, N) or with references (N, R), in [-1, 1], or a
        function that makes the rows of some anchors from their labels (N, ...) and the references', block by block, never N x N at once.
        Above 0 is a positive, below 0 a negative, 0 no pair; how far from 0 does not matter. It need not be symmetric; an item and itself
        are never a pair. `likewise.relations` has some. For losses of pairs of embeddings; without a memory.
        """
        if relation is not None:
            return self._related(embeddings, labels, relation, references, reference_labels, weights)
        if labels is None:
            raise ValueError("no labels: give labels, or relation= to say which pairs are alike")
        labels = self.check(embeddings, labels)
        if (references is None) != (reference_labels is None):
            raise ValueError("references and reference_labels belong together: give both or neither")
        if items is not None and (items.shape != labels.shape or items.is_floating_point()):
            raise ValueError(
                f"items must be one integer index an embedding: {items.dtype} {tuple(items.shape)} given for {labels.shape[0]} embeddings"
            )
        # the products' type is the embeddings'; entering autocast to switch it off costs more than asking whether it is on
        kind = embeddings.device.type
        with torch.autocast(kind, enabled=False) if torch.is_autocast_enabled(kind) else nullcontext():
            vectors = self._vectors(embeddings)
            weights = self._weights(vectors, labels, weights)
            if references is not None and reference_labels is not None:
                return self._against(vectors, labels, references, reference_labels, weights)
            loss = self._within(vectors, labels, items, weights)
            if self.memory is not None and self.training:
                self.memory.enqueue(vectors.detach(), labels, items)
            return loss

    def _related(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        relation: Relation,
        references: Tensor | None,
        reference_labels: Tensor | None,
        weights: Tensor | None,
    ) -> Tensor:
        """The loss of pairs that a relation tells to be alike or not."""
        name = type(self.loss).__name__
        if self.memory is not None or self.traits.meets != "batch" or isinstance(self.loss, BatchLoss | VectorLoss):
            raise ValueError(f"relation= is for pairs of embeddings, and {name} (or its memory) meets classes: give labels")
        if self.traits.num_classes is not None or self.class_weights is not None:
            raise ValueError("settings of classes (num_classes, class_weights) need labels, which relation= takes the place of")
        number = len(embeddings)
        dummy = torch.zeros(number, dtype=torch.long, device=embeddings.device)
        self.check(embeddings, dummy)
        if references is not None:
            self.check(
                references, torch.zeros(len(references), dtype=torch.long, device=references.device), ("references", "reference_labels")
            )
        met = embeddings if references is None else references
        if isinstance(relation, Tensor):
            checked_relation(relation, (number, len(met)), values=not self.trusting)
            if self.gather is not False:
                raise ValueError(
                    "gather compares with all ranks' items, of which a matrix here does not tell: give relation= as a function"
                )
            labels, reference_labels = dummy, torch.zeros(len(met), dtype=torch.long, device=met.device)
        elif labels is None or (references is not None and reference_labels is None):
            raise ValueError("a relation that is a function is called with labels: give labels= (and reference_labels=, with references)")
        for what, given, expected in (("labels", labels, number), ("reference_labels", reference_labels, len(met))):
            if given is not None and len(given) != expected:
                raise ValueError(f"{what} of shape {tuple(given.shape)}: expected one for each of {expected} embeddings")
        kind = embeddings.device.type
        with torch.autocast(kind, enabled=False):
            vectors = self._vectors(embeddings)
            weights = self._weights(vectors, dummy, weights)
            if references is not None and reference_labels is not None:
                others = self._vectors(references).to(vectors.dtype)
                rows = other_rows(vectors, labels, others, reference_labels, unit=self.normalize)
                return self._loss_of(self.loss, replace(rows, weights=weights, relation=relation), vectors, None)
            ranks = self._ranks(dummy)
            if ranks is not None:
                vectors, labels = ranks.gather(vectors), ranks.gather(labels)
            rows = batch_rows(vectors, labels, unit=self.normalize, share=slice(None) if ranks is None else ranks.share)
            return self._loss_of(self.loss, replace(rows, weights=weights, relation=relation), vectors, ranks)

    def check(self, embeddings: Tensor, labels: Tensor, names: tuple[str, str] = ("embeddings", "labels")) -> Tensor:
        """The labels as this objective uses them, after a look at both."""
        classes = self.traits.num_classes if self.proxies is None else self.proxies.num_classes
        if self.class_weights is not None:
            classes = len(self.class_weights) if classes is None else min(classes, len(self.class_weights))
        dim = next((owner.vectors.shape[1] for owner in (self.proxies, self.memory) if owner is not None), self.traits.dim)
        return checked_labels(embeddings, labels, names=names, num_classes=classes, dim=dim, values=not self.trusting)

    def rows(self, embeddings: Tensor, labels: Tensor) -> Rows:
        """The batch's rows as this objective compares them, on this rank alone."""
        vectors = self._vectors(embeddings)
        return self._ready(self._rows(vectors, labels, None, slice(None), self._weights(vectors, labels, None)))

    def _weights(self, vectors: Tensor, labels: Tensor, weights: Tensor | None) -> Tensor | None:
        """The weight of each anchor, in the type of its value."""
        if weights is not None:
            require_weighable(self.loss, self.traits.proxies_are_anchors)
            weights = checked_weights("weights", weights, len(labels), values=not self.trusting).to(
                vectors.device, statistics_dtype(vectors)
            )
        if self.class_weights is None:
            return weights
        of_class = self.class_weights[labels].to(statistics_dtype(vectors))
        return of_class if weights is None else of_class * weights

    def _vectors(self, embeddings: Tensor) -> Tensor:
        return unit(embeddings) if self.normalize else embeddings

    def _against(self, vectors: Tensor, labels: Tensor, references: Tensor, reference_labels: Tensor, weights: Tensor | None) -> Tensor:
        """The loss of a batch compared with another set."""
        if self.proxies is not None or self.memory is not None or isinstance(self.loss, BatchLoss | VectorLoss):
            raise ValueError(f"{type(self.loss).__name__} brings what it compares with: leave references out")
        reference_labels = self.check(references, reference_labels, ("references", "reference_labels"))
        if references.shape[1] != vectors.shape[1]:
            raise ValueError(f"references have {references.shape[1]} dimensions, embeddings {vectors.shape[1]}: they must be equal")
        references = self._vectors(references).to(vectors.dtype)
        if self.traits.meets == "prototypes":
            rows = prototype_rows(vectors, labels, references, reference_labels)
        else:
            rows = other_rows(vectors, labels, references, reference_labels, unit=self.normalize)
        return self._loss_of(self.loss, replace(rows, weights=weights), vectors, None)

    def _within(self, vectors: Tensor, labels: Tensor, items: Tensor | None, weights: Tensor | None) -> Tensor:
        """The loss of a batch compared with itself, its proxies, its memory or all ranks' batches."""
        ranks = self._ranks(labels)
        if ranks is not None:
            vectors, labels = ranks.gather(vectors), ranks.gather(labels)
        if isinstance(self.loss, VectorLoss):
            return self.loss.of_vectors(vectors.to(statistics_dtype(vectors)), labels)
        share = slice(None) if ranks is None or isinstance(self.loss, BatchLoss) else ranks.share
        return self._loss_of(self.loss, self._rows(vectors, labels, items, share, weights), vectors, ranks)

    def _ranks(self, labels: Tensor) -> Ranks | None:
        if self.gather is False or not dist.is_available() or not dist.is_initialized():
            return None
        group = None if self.gather is True else self.gather
        if dist.get_world_size(group) == 1:
            return None
        if self.memory is not None:
            raise ValueError("memory and gather cannot be combined: each rank would queue another share of the batch")
        return Ranks.sharing(labels.shape[0], labels.device, group)

    def _rows(self, vectors: Tensor, labels: Tensor, items: Tensor | None, share: slice, weights: Tensor | None) -> Rows:
        """Anchors (a share of the vectors, of these weights) against what the loss says they meet."""
        if self.traits.meets == "prototypes":
            support = support_items(labels, self.traits.num_support)
            anchors = torch.zeros_like(support)
            anchors[share] = ~support[share]
            rows = prototype_rows(vectors[anchors], labels[anchors], vectors[support], labels[support])
            return replace(rows, weights=None if weights is None else weights[anchors[share]])
        return replace(self._rows_of_all(vectors, labels, items, share), weights=weights)

    def _rows_of_all(self, vectors: Tensor, labels: Tensor, items: Tensor | None, share: slice) -> Rows:
        if self.proxies is not None:
            proxies = self._vectors(self.proxies.vectors).to(vectors.dtype)
            if self.traits.proxies_are_anchors:
                return other_rows(proxies, self.proxies.labels, vectors, labels, unit=self.normalize)
            return other_rows(vectors[share], labels[share], proxies, self.proxies.labels, unit=self.normalize)
        if self.memory is not None:
            return self.memory.rows(vectors, labels, items, unit=self.normalize)
        return batch_rows(vectors, labels, unit=self.normalize, share=share)

    def _ready(self, rows: Rows) -> Rows:
        """The rows with what the loss, the miner and the engine want to know about them."""
        return replace(
            rows,
            references=rows.references.detach() if self.traits.references_constant else rows.references,
            grouping=choose_grouping(rows, self.loss, self.traits),
            noise=row_noise(self.miner, rows.num_anchors, rows.anchors.device),
        )

    def _loss_of(self, loss: PairLoss, rows: Rows, vectors: Tensor, ranks: Ranks | None) -> Tensor:
        if rows.num_anchors == 0 or rows.num_references == 0:  # an episode of singletons has no support
            zero = zero_of(rows, loss)
            # all ranks have the same references, but where this one's items are all support others may hold anchors
            return mean_over_ranks(zero, zero.detach(), ranks if rows.num_references else None)[0]
        rows = self._ready(rows)
        if ranks is None and isinstance(loss, RowLoss) and self.reduction.singletons == "leave_out" and rows.nothing_counts:
            return zero_of(rows, loss)
        engine = choose_engine(
            rows,
            block=self.block,
            compile=self.fuse,
            expands_positives=self.traits.expands_positives,
            between_references=self.traits.between_references,
        )
        value, counted = loss_of_rows(loss, rows, engine, traits=self.traits, miner=self.miner, ranks=ranks, reduction=self.reduction)
        if isinstance(loss, WithPenalty):
            dtype = statistics_dtype(vectors)
            value = value + loss.penalty(vectors.to(dtype), rows.references.to(dtype)) * (counted > 0)
        return value

    def extra_repr(self) -> str:
        return f"loss={self.loss}, miner={self.miner}, normalize={self.normalize}, block={self.block}, compile={self.fuse}"
