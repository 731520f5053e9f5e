"""Checks of what a user hands in: a ValueError that names the value, what was expected and what to do."""

from __future__ import annotations

import dataclasses
import difflib
from abc import ABCMeta
from collections.abc import Iterable
from types import FunctionType
from typing import TYPE_CHECKING, Any, Protocol

import torch
from torch import Tensor, nn

from likewise.wording import quoted

if TYPE_CHECKING:
    _ProtocolMeta = ABCMeta
else:
    _ProtocolMeta = type(Protocol)


class ByMethods(_ProtocolMeta):
    """The metaclass of protocols whose isinstance asks for the methods they list and for nothing else.

    Python 3.11's own check of a runtime protocol takes ten times as long, which a small batch's loss would feel.
    """

    methods: tuple[str, ...]  # empty for classes that derive from a protocol: their objects are told by their class

    def __init__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> None:
        super().__init__(name, bases, namespace)
        listed = [method for method, value in namespace.items() if isinstance(value, FunctionType) and not method.startswith("_")]
        cls.methods = tuple(listed) if Protocol in bases else ()

    def __instancecheck__(cls, instance: object) -> bool:
        if not cls.methods:
            return super().__instancecheck__(instance)
        for method in cls.methods:  # noqa: SIM110  # a generator would take twice as long
            if not hasattr(instance, method):
                return False
        return True


def require_frozen(kind: str, thing: object) -> None:
    """A ValueError for a dataclass that may change under the code compiled for it; what a module learns changes in any case."""
    if isinstance(thing, nn.Module) or not dataclasses.is_dataclass(thing):
        return
    name = type(thing).__name__
    if not type(thing).__dataclass_params__.frozen:  # type: ignore[union-attr]
        raise ValueError(f"the {kind} {name} is a dataclass whose settings may change once it is in use: write @dataclass(frozen=True)")


def known_name(kind: str, name: str, names: Iterable[str]) -> str:
    """The name itself, if it is one of the names."""
    names = list(names)
    if name in names:
        return name
    close = close_name(name, names)
    hint = f"did you mean {close!r}?" if close else f"known are {', '.join(sorted(names))}"
    raise ValueError(f"unknown {kind} {quoted(name)}: {hint}")


def close_name(name: str, names: Iterable[str]) -> str | None:
    """The one of the names that was probably meant: by its initials (lr), its beginning or its letters."""
    names = list(names)
    if not name:
        return None
    initials = [known for known in names if len(name) > 1 and "".join(word[:1] for word in known.split("_")) == name]
    beginnings = [known for known in names if len(name) > 2 and known.startswith(name)]
    return next(iter([*initials, *beginnings, *difflib.get_close_matches(name, names, n=1, cutoff=0.55)]), None)


def checked_labels(
    vectors: Tensor, labels: Tensor, *, names: tuple[str, str], num_classes: int | None = None, dim: int | None = None, values: bool = True
) -> Tensor:
    """The labels as int64 on the vectors' device, after both were found to be a batch.

    On a GPU this looks at the device once, for all faults of the values together; with values=False only shapes and types count.
    """
    what, labels_name = names
    for name, given in ((what, vectors), (labels_name, labels)):
        if not isinstance(given, Tensor):
            raise ValueError(f"{name} must be a tensor, not {type(given).__name__}: torch.as_tensor makes one")
    if vectors.ndim != 2 or not vectors.is_floating_point() or vectors.numel() == 0:
        raise ValueError(f"{what} must be a float tensor (items, dimensions), not {vectors.dtype} {tuple(vectors.shape)}")
    if labels.ndim != 1 or labels.is_floating_point() or labels.is_complex() or labels.dtype == torch.bool:
        raise ValueError(f"{labels_name} must be an integer tensor (items,), not {labels.dtype} {tuple(labels.shape)}")
    if labels.shape[0] != vectors.shape[0]:
        raise ValueError(f"{vectors.shape[0]} {what} but {labels.shape[0]} {labels_name}: every item needs one label")
    if dim is not None and vectors.shape[1] != dim:
        raise ValueError(f"{what} have {vectors.shape[1]} dimensions, the objective was made for {dim}: set dim={vectors.shape[1]}")
    labels = labels.to(device=vectors.device, dtype=torch.long)
    if not values:
        return labels
    with torch.no_grad():
        # the sum is not finite if an entry is not; it may also overflow, which the second look finds harmless
        sound = vectors.sum(dtype=torch.promote_types(vectors.dtype, torch.float32)).isfinite()
        if num_classes is not None:
            least, largest = labels.aminmax()
            sound = sound & (least >= 0) & (largest < num_classes)
        if not sound:
            _name_the_fault(vectors, labels, what, labels_name, num_classes)
    return labels


def _name_the_fault(vectors: Tensor, labels: Tensor, what: str, labels_name: str, num_classes: int | None) -> None:
    bad = (~vectors.isfinite().all(-1)).nonzero().flatten().tolist()
    if bad:
        shown = ", ".join(map(str, bad[:5])) + (", ..." if len(bad) > 5 else "")
        raise ValueError(
            f"{what} hold NaN or infinity in {len(bad)} of {len(labels)} rows ({shown}): look at the model and its input there"
        )
    if num_classes is not None:
        outside = labels[(labels < 0) | (labels >= num_classes)]
        if outside.numel():
            raise ValueError(
                f"{labels_name} hold {int(outside[0])}, but the objective knows classes 0 to {num_classes - 1}: "
                "raise num_classes or renumber the labels"
            )
