"""Checks of what a user hands in: a ValueError that names the value, what was expected and what to do."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

import torch
from torch import Tensor


def known_name(kind: str, name: str, names: Iterable[str]) -> str:
    """The name itself, if it is one of the names."""
    names = list(names)
    if name in names:
        return name
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.4)
    hint = f"did you mean {close[0]!r}?" if close else f"known are {', '.join(sorted(names))}"
    raise ValueError(f"unknown {kind} {name!r}: {hint}")


def checked_labels(
    vectors: Tensor, labels: Tensor, *, names: tuple[str, str], num_classes: int | None = None, dim: int | None = None, values: bool = True
) -> Tensor:
    """The labels as int64 on the vectors' device, after both were found to be a batch.

    On a GPU this looks at the device once, for all faults of the values together; with values=False only shapes and types count.
    """
    what, labels_name = names
    if not isinstance(vectors, Tensor) or not isinstance(labels, Tensor):
        raise ValueError(f"{what} and {labels_name} must be tensors, not {type(vectors).__name__} and {type(labels).__name__}")
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
