"""Hard classes: group batches of classes that are near to each other."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.samplers.group import Group, Short, Visit
from likewise.samplers.order import Order
from likewise.samplers.sampler import Labels, Runs, whole_number

Means = npt.NDArray[np.float32]  # (classes, dimensions); a row of nan: not known yet


class HardClasses(Group):
    """`num_classes` x `num_images` with N-pair's hard class mining (Sohn 2016, 3.2.3), from running means instead of a search.

    The first class of a batch is random. Then, out of `num_candidates` random classes, the one nearest (cosine of the means) to any
    class already chosen is added, until the batch is full. Candidates are classes not yet visited in this round, so that classes
    and images are visited as often as with `Group`; the last batches of a round, with little choice, are less hard.
    Until `share_known` of the classes have a mean, batches are those of `Group`.

    `update(embeddings, labels)` after each step moves the means of its classes: mean <- momentum x mean + (1 - momentum) x mean of
    the batch's items. On several ranks every rank gives the embeddings of the global batch, so that all choose alike.
    The means at the start of an epoch serve the whole of it: then batches do not depend on how far a DataLoader's workers draw
    ahead, and a resumed run goes on exactly. `state_dict` holds both.
    """

    def __init__(
        self,
        labels: Labels,
        *,
        num_classes: int,
        num_images: int = 2,
        num_candidates: int | None = None,  # None: the classes of ten batches
        momentum: float = 0.5,
        share_known: float = 0.9,
        short: Short = "fill",
        num_batches: int | None = None,
        seed: int = 0,
        rank: int = 0,
        num_ranks: int = 1,
    ) -> None:
        if num_candidates is not None:
            whole_number("num_candidates", num_candidates, least=num_classes)
        if not 0 <= momentum < 1:
            raise ValueError(f"momentum={momentum}: expected a number from 0 to less than 1 (at 1 the means would never move)")
        if not 0 < share_known <= 1:
            raise ValueError(f"share_known={share_known}: expected a share of the classes above 0 and up to 1")
        self.num_candidates = 10 * num_classes if num_candidates is None else num_candidates
        self.momentum = momentum
        self.share_known = share_known
        self._set_up(
            labels,
            num_classes=num_classes,
            num_images=num_images,
            least=2,
            short=short,
            balance="class",
            num_batches=num_batches,
            seed=seed,
            rank=rank,
            num_ranks=num_ranks,
        )
        self._settings = (*self._settings, self.num_candidates, momentum, share_known)
        self._class_of = {int(self.labels[positions[0]]): name for name, positions in enumerate(self.members)}
        self._running: Means | None = None
        self._in_use: Means | None = None  # since the start of the epoch under way
        self._epoch_in_use = 0
        self._directions: Means | None = None  # of the means in use, if enough are known

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Moves the means of these labels' classes. Copies both to the CPU."""
        rows, names = embeddings.detach().float().cpu().numpy(), labels.detach().cpu().numpy()
        if rows.ndim != 2 or names.shape != rows.shape[:1]:
            raise ValueError(
                f"embeddings of shape {rows.shape} with labels of shape {names.shape}: expected (items, dimensions) and (items,)"
            )
        means = np.full((len(self.members), rows.shape[1]), np.nan, np.float32) if self._running is None else self._running.copy()
        if means.shape[1] != rows.shape[1]:
            raise ValueError(f"embeddings of {rows.shape[1]} dimensions after some of {means.shape[1]}: expected the same number")
        for label in np.unique(names).tolist():
            name = self._class_of.get(label)
            if name is None:
                continue  # a class that is left out of the batches
            mean = rows[names == label].mean(axis=0)
            means[name] = mean if np.isnan(means[name, 0]) else self.momentum * means[name] + (1 - self.momentum) * mean
        self._running = means

    def begin(self, epoch: int, step: int) -> None:
        if step == 0:
            self._in_use = self._running
        elif epoch != self._epoch_in_use:
            raise ValueError(f"epoch {epoch} cannot begin at step {step}: the class means it began with are not here; load its state_dict")
        self._epoch_in_use = epoch

    def batches(self, order: Order) -> Iterator[Runs]:
        self._directions = None
        if self._in_use is not None and np.mean(~np.isnan(self._in_use[:, 0])) >= self.share_known:
            means = np.nan_to_num(self._in_use)  # not known: 0, equally far from all
            self._directions = means / np.maximum(np.linalg.norm(means, axis=1, keepdims=True), 1e-12)
        return super().batches(order)

    def _arrange(self, pool: deque[Visit], chosen: set[int], space: int) -> None:
        """Brings those of the first candidates to the front that the greedy choice takes; ties go to the one that waits longest."""
        if self._directions is None or not pool:
            return
        seen: list[Visit] = []
        candidates: list[Visit] = []
        while pool and len(candidates) < self.num_candidates:
            seen.append(pool.popleft())
            if seen[-1][0] not in chosen:
                candidates.append(seen[-1])
        directions = self._directions[[name for name, _ in candidates]]  # (candidates, dimensions)
        nearness = np.full(len(candidates), -2.0, np.float32)  # to the nearest chosen class; a cosine is at least -1
        for other in sorted(chosen):
            np.maximum(nearness, directions @ self._directions[other], out=nearness)
        taken: list[Visit] = []
        free = np.ones(len(candidates), np.bool_)
        while space > 0 and free.any():
            best = int(np.argmax(np.where(free, nearness, -np.inf)))  # the first one, if nothing is chosen yet
            free[best] = False
            taken.append(candidates[best])
            space -= candidates[best][1]
            np.maximum(nearness, directions @ directions[best], out=nearness)
        first = {name for name, _ in taken}
        pool.extendleft(reversed([*taken, *(visit for visit in seen if visit[0] not in first)]))

    def state_dict(self, *, epoch: int, step: int) -> dict[str, Any]:
        if step > 0 and epoch != self._epoch_in_use:
            raise ValueError(f"epoch={epoch} with step={step}, but the last pass was epoch {self._epoch_in_use}: give the epoch under way")
        return {**super().state_dict(epoch=epoch, step=step), "running": _saved(self._running), "in_use": _saved(self._in_use)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._running, self._in_use, self._epoch_in_use = _loaded(state["running"]), _loaded(state["in_use"]), state["epoch"]


def _saved(means: Means | None) -> Tensor | None:
    """A copy that torch.load(weights_only=True) and safetensors take."""
    return None if means is None else torch.from_numpy(means.copy())


def _loaded(means: Tensor | None) -> Means | None:
    return None if means is None else means.cpu().numpy().copy()
