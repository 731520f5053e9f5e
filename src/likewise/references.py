"""References: what anchors are compared with.

| references | made by |
|---|---|
| the batch itself | `batch_rows` |
| another labelled set | `other_rows` |
| learnable proxies | `Proxies` |
| class means of an episode's support | `prototype_rows` |
| the batch and a queue of earlier batches | `MemoryBank` |
| the batches of all ranks | `batch_rows` of what `collective.Ranks.gather` gathered |
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from likewise.rows import Rows

NO_CLASS = torch.iinfo(torch.long).min  # of a slot not filled yet, so that it is nobody's positive


def batch_rows(vectors: Tensor, labels: Tensor, *, unit: bool, share: slice = slice(None)) -> Rows:
    """Every item of `share` (all of them, or this rank's) against all other items."""
    items = torch.arange(vectors.shape[0], device=vectors.device)
    whole = share == slice(None)
    return Rows(
        anchors=vectors if whole else vectors[share],
        references=vectors,
        anchor_labels=labels[share],
        reference_labels=labels,
        anchor_items=items[share],
        reference_items=items,
        unit=unit,
    )


def other_rows(vectors: Tensor, labels: Tensor, references: Tensor, reference_labels: Tensor, *, unit: bool) -> Rows:
    """Anchors against another set, none of which is an anchor."""
    return Rows(anchors=vectors, references=references, anchor_labels=labels, reference_labels=reference_labels, unit=unit)


class Proxies(nn.Module):
    """Learnable points that stand for classes, `per_class` of them for each, in the order of the classes."""

    labels: Tensor

    def __init__(self, num_classes: int, dim: int, *, per_class: int = 1) -> None:
        super().__init__()
        self.num_classes = num_classes
        self.vectors = nn.Parameter(torch.empty(num_classes * per_class, dim))
        nn.init.kaiming_normal_(self.vectors, mode="fan_out")  # as Proxy-Anchor's authors do
        self.register_buffer("labels", torch.arange(num_classes).repeat_interleave(per_class), persistent=False)


def support_items(labels: Tensor, num_support: int | None) -> Tensor:
    """Which items of a batch are support: the first `num_support` of each class, or the first half of it. (n,) bool"""
    ordered, order = torch.sort(labels, stable=True)
    place = torch.arange(labels.shape[0], device=labels.device) - torch.searchsorted(ordered, ordered)  # 0, 1, .. within its class
    if num_support is None:
        size = torch.searchsorted(ordered, ordered, right=True) - torch.searchsorted(ordered, ordered)
        chosen = place < size // 2
    else:
        chosen = place < num_support
    return torch.empty_like(chosen).scatter_(0, order, chosen)


def prototype_rows(anchors: Tensor, anchor_labels: Tensor, support: Tensor, support_labels: Tensor) -> Rows:
    """Anchors against the class means of the support, which are no unit vectors even where their items are."""
    classes, member, size = torch.unique(support_labels, return_inverse=True, return_counts=True)
    total = torch.zeros(classes.shape[0], support.shape[1], dtype=support.dtype, device=support.device)
    means = total.index_add(0, member, support) / size[:, None].to(support.dtype)
    return Rows(anchors=anchors, references=means, anchor_labels=anchor_labels, reference_labels=classes, unit=False)


class MemoryBank(nn.Module):
    """The last `size` embeddings seen, as further references without gradient (XBM, Wang et al. 2020).

    Anchors meet their own batch, with gradient, and the queue in one row. The queue joins after `warm_up` calls, when the
    embeddings drift slowly enough for old ones to be of use. A batch enters the queue after its loss: no item meets itself in
    the queue, and with `items=` (indices into the data set) no item meets its own earlier embedding either.
    """

    vectors: Tensor
    labels: Tensor
    items: Tensor
    cursor: Tensor

    def __init__(self, size: int, dim: int, *, warm_up: int = 0) -> None:
        super().__init__()
        self.warm_up = warm_up
        self.register_buffer("vectors", torch.zeros(size, dim))
        self.register_buffer("labels", torch.full((size,), NO_CLASS))
        self.register_buffer("items", torch.full((size,), -1))
        self.register_buffer("cursor", torch.zeros(2, dtype=torch.long))  # items and batches received so far

    def rows(self, vectors: Tensor, labels: Tensor, items: Tensor | None, *, unit: bool) -> Rows:
        """The batch against itself and the queue. Slots not filled yet are references that are not present."""
        size = self.labels.shape[0]
        received, batches = self.cursor[0], self.cursor[1]
        filled = (torch.arange(size, device=labels.device) < received) & (batches >= self.warm_up)
        if items is None:  # the batch's own numbers must not be those of queued items
            items = torch.arange(labels.shape[0], device=labels.device)
            queued = torch.full_like(self.items, -1)
        else:
            queued = self.items
        return Rows(
            anchors=vectors,
            references=torch.cat([vectors, self.vectors.to(vectors.dtype)]),
            anchor_labels=labels,
            reference_labels=torch.cat([labels, self.labels]),
            anchor_items=items,
            reference_items=torch.cat([items, queued]),
            present=torch.cat([torch.ones_like(labels, dtype=torch.bool), filled]),
            unit=unit,
        )

    @torch.no_grad()
    def enqueue(self, vectors: Tensor, labels: Tensor, items: Tensor | None) -> None:
        """Overwrites the oldest slots."""
        size = self.labels.shape[0]
        kept = slice(max(0, labels.shape[0] - size), None)  # a batch larger than the queue leaves only its end
        dropped = labels.shape[0] - labels[kept].shape[0]
        slots = (self.cursor[0] + dropped + torch.arange(labels[kept].shape[0], device=labels.device)) % size
        self.vectors[slots] = vectors[kept].to(self.vectors.dtype)
        self.labels[slots] = labels[kept]
        self.items[slots] = -1 if items is None else items[kept].to(self.items.dtype)
        self.cursor += torch.tensor([labels.shape[0], 1], device=self.cursor.device)
