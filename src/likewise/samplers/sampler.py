"""The contract of a sampler: what training asks of it, its position, shares of ranks, and checks of what it is given."""

from __future__ import annotations

import hashlib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice, pairwise
from typing import Any, ClassVar, Literal, get_args

import numpy as np
import numpy.typing as npt
from torch import Tensor
from torch.utils.data import Sampler

from likewise.samplers.order import LARGEST, Order

Labels = Tensor | npt.NDArray[Any] | Sequence[int]
Runs = list[list[int]]  # a batch as runs of items that stay together where the batch is cut for the ranks
FewClasses = Literal["error", "more_images"]  # what to do where a batch needs more classes than there are


class BatchSampler(Sampler[list[int]], ABC):
    """Batches of positions for `DataLoader(dataset, batch_sampler=...)`, a function of (labels, settings, seed, epoch) alone.

    **Positions.** `labels` holds one label for each item of the very dataset the DataLoader reads, in its order, and a batch holds
    positions in it. For a part of a dataset make that part a dataset of its own, `train = dataset.subset(indices)`, and give
    `train.labels` to the sampler and `train` to the loader: no second numbering exists that could be mixed up. `check_batch`
    compares every batch with these labels.

    **Epochs.** Each pass over the sampler is the next epoch, also if nobody calls `set_epoch`; `set_epoch(epoch)` chooses one.

    **Resuming.** `start_at(epoch, step)` makes the next pass begin with that batch, exactly as an uninterrupted one goes on. The
    training loop names the step, as a DataLoader with workers has already drawn later batches. `state_dict` holds the same, with
    what else the sampler needs, and is refused by a sampler of other labels or settings. The number of ranks may change.

    **Ranks.** All ranks make the same global batch and each yields its share. The shares in the order of the ranks are exactly
    the batch of a single process. They are cut between classes: with classes of one size they differ by at most one class; else
    each is within one class of an equal share. Where that leaves a rank without any, they are cut between items and differ by at
    most one item.

    **Training.** A method names a sampler and its settings, a protocol the size of a batch: `for_batch` makes the sampler of both.
    Settings that follow from the batch are `set_by_batch`, and a method cannot give them.
    """

    set_by_batch: ClassVar[tuple[str, ...]] = ()
    gives_positive_pairs: ClassVar[bool] = True  # whether every batch holds two images of one class

    @classmethod
    @abstractmethod
    def for_batch(cls, labels: Labels, batch: int, settings: Mapping[str, Any], *, few_classes: FewClasses = "error") -> BatchSampler:
        """The sampler whose batches hold `batch` items, or as many as its shape of a batch allows.

        settings: what else it is made with: the settings of a method, seed, rank and num_ranks.
        few_classes: where the labels cannot fill such a batch, a ValueError that says what to change, or a batch they can fill.
        """

    @classmethod
    def settings_of_methods(cls) -> tuple[str, ...]:
        """The names of the settings that a method may give."""
        others = {"labels", "seed", "rank", "num_ranks", *cls.set_by_batch}
        return tuple(name for name in inspect.signature(cls).parameters if name not in others)

    @classmethod
    def with_fewer_images(cls, settings: Mapping[str, Any], batch: int) -> dict[str, Any] | None:
        """These settings of a method with as many images of a class as leave room for two classes in a batch of so many items.

        None where they leave it already, and where no number would: two classes need two images of each, or no positive pair is there.
        """
        return None

    @classmethod
    def number_in(cls, settings: Mapping[str, Any], name: str) -> int:
        """A setting that is a whole number above 0, or the sampler's default of it."""
        value = settings.get(name, inspect.signature(cls).parameters[name].default)
        if value is inspect.Parameter.empty:
            raise ValueError(f"the {cls.__name__} sampler needs a number {name}: --set sampler.{name}=4")
        whole_number(f"sampler.{name}", value)
        return int(value)

    def __init__(
        self,
        labels: npt.NDArray[np.int64],
        *,
        batch_size: int,
        num_batches: int,
        seed: int,
        rank: int,
        num_ranks: int,
        settings: tuple[object, ...],
    ) -> None:
        whole_number("seed", seed, least=0)
        whole_number("num_batches", num_batches)
        whole_number("num_ranks", num_ranks)
        if not 0 <= rank < num_ranks:
            raise ValueError(f"rank={rank} of num_ranks={num_ranks}: expected a rank from 0 to {num_ranks - 1}")
        if batch_size < num_ranks:
            raise ValueError(
                f"a batch of {batch_size} items cannot be shared by num_ranks={num_ranks}: every rank needs an item, make the batch larger"
            )
        self.labels = labels
        self.batch_size = batch_size  # of the global batch
        self.seed = seed
        self.rank = rank
        self.num_ranks = num_ranks
        self._num_batches = num_batches
        self._settings = (type(self).__name__, batch_size, num_batches, seed, *settings)
        self._next = (0, 0)  # epoch and step that the next pass begins with

    @abstractmethod
    def batches(self, order: Order) -> Iterator[Runs]:
        """The global batches of an epoch, at least `len(self)` of them."""

    def begin(self, epoch: int, step: int) -> None:
        """Called when a pass begins, for samplers that learn while training."""

    def update(self, embeddings: Tensor, labels: Tensor) -> None:
        """Called after each step with the embeddings of the global batch, for samplers that learn while training."""

    @property
    def learns(self) -> bool:
        """Whether `update` does anything: if not, nobody needs to gather the embeddings of all ranks for it."""
        return type(self).update is not BatchSampler.update

    def __len__(self) -> int:
        return self._num_batches

    def __iter__(self) -> Iterator[list[int]]:
        # A generator: a DataLoader with workers asks for two iterators and uses one, and only its first batch begins the pass.
        epoch, step = self._next
        self._next = (epoch + 1, 0)
        self.begin(epoch, step)
        for runs in islice(self.batches(Order(self.seed, epoch)), step, self._num_batches):
            yield share(runs, self.rank, self.num_ranks)

    def set_epoch(self, epoch: int) -> None:
        """The next pass is this epoch. The step of `start_at` stays, if it was for this epoch."""
        whole_number("epoch", epoch, least=0)
        if epoch != self._next[0]:
            self._next = (epoch, 0)

    def start_at(self, epoch: int, step: int) -> None:
        """The next pass begins with batch `step` of this epoch (0 is the first; `len(self)` leaves nothing of it)."""
        whole_number("epoch", epoch, least=0)
        if not 0 <= step <= len(self):
            raise ValueError(f"step={step} in an epoch of {len(self)} batches: expected 0 to {len(self)}")
        self._next = (epoch, step)

    def state_dict(self, *, epoch: int, step: int) -> dict[str, Any]:
        """The state of a training that has done `step` batches of this epoch."""
        return {"epoch": epoch, "step": step, "fingerprint": self._fingerprint()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["fingerprint"] != self._fingerprint():
            raise ValueError(
                "this state is of another sampler: its kind, labels, batch, epoch length and seed must be those it was saved with"
                f" (here {self._settings})"
            )
        self.start_at(state["epoch"], state["step"])

    def _fingerprint(self) -> str:
        digest = hashlib.sha256(repr(self._settings).encode())
        digest.update(self.labels.tobytes())
        return digest.hexdigest()


def share(runs: Runs, rank: int, num_ranks: int) -> list[int]:
    """A rank's part of a batch: neighbouring whole runs, cut as near to equal shares as runs allow; items, if runs are too few."""
    batch = [item for run in runs for item in run]
    if num_ranks == 1:
        return batch
    ends = np.cumsum([len(run) for run in runs])
    wanted = np.arange(1, num_ranks) * len(batch)  # equal shares, times the ranks: all stays whole
    after = np.searchsorted(ends * num_ranks, wanted)
    before = np.maximum(after - 1, 0)
    cuts = np.where((ends[after] + ends[before]) * num_ranks <= 2 * wanted, ends[after], ends[before])
    edges = [0, *cuts.tolist(), len(batch)]
    if any(first >= last for first, last in pairwise(edges)):
        edges = [len(batch) * r // num_ranks for r in range(num_ranks + 1)]
    return batch[edges[rank] : edges[rank + 1]]


def whole_labels(labels: Labels) -> npt.NDArray[np.int64]:
    """Labels as int64, on the CPU."""
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"labels have shape {array.shape}: expected one label an item, shape (items,)")
    if array.size == 0:
        raise ValueError("labels are empty: expected one label for each item of the dataset")
    if array.dtype.kind not in "iu":
        raise ValueError(f"labels are {array.dtype}: expected whole numbers, such as Dataset.labels")
    return array.astype(np.int64)


def whole_number(name: str, value: int, *, least: int = 1) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or not least <= value <= LARGEST:
        raise ValueError(f"{name}={value!r}: expected a whole number of at least {least}")


def one_of(name: str, value: str, choices: Any) -> None:
    """Checks a value against the choices of a Literal."""
    names = get_args(choices)
    if value not in names:
        raise ValueError(f"{name}={value!r}: expected one of {', '.join(map(repr, names))}")
