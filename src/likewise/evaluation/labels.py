"""Labels of any kind as int64 class codes, the same for queries and gallery."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

Labels = Tensor | np.ndarray | Sequence[int] | Sequence[str]


def class_codes(labels: Labels, gallery_labels: Labels | None = None, *, device: torch.device | str = "cpu") -> tuple[Tensor, Tensor]:
    """Codes 0 .. num_classes - 1 in sorted order of the labels; two labels share a code exactly when they are equal.

    Integers are compared as integers (never as floats: beyond 2^24 float32 merges neighbours), strings as strings.
    Without `gallery_labels` the second result is the first one.
    """
    if isinstance(labels, Tensor) and (gallery_labels is None or isinstance(gallery_labels, Tensor)):
        return _tensor_codes(labels, gallery_labels, torch.device(device))
    query_labels = _as_array(labels, "labels")
    if gallery_labels is None:
        codes = torch.from_numpy(np.unique(query_labels, return_inverse=True)[1].astype(np.int64)).to(device)
        return codes, codes
    other_labels = _as_array(gallery_labels, "gallery_labels")
    if (query_labels.dtype.kind == "U") != (other_labels.dtype.kind == "U"):
        raise ValueError(
            f"labels are {_kind(query_labels)} but gallery_labels are {_kind(other_labels)}: expected the same kind for both, "
            "convert one of them"
        )
    kinds = {query_labels.dtype, other_labels.dtype}
    if query_labels.dtype.kind != "U" and np.dtype(np.uint64) in kinds and len(kinds) > 1:
        # numpy would join uint64 and a signed type as float64; object keeps every integer exact.
        query_labels, other_labels = query_labels.astype(object), other_labels.astype(object)
    joined = np.unique(np.concatenate([query_labels, other_labels]), return_inverse=True)[1].astype(np.int64)
    both = torch.from_numpy(joined).to(device)
    return both[: len(query_labels)], both[len(query_labels) :]


def _tensor_codes(labels: Tensor, gallery_labels: Tensor | None, device: torch.device) -> tuple[Tensor, Tensor]:
    tensors = [("labels", labels)] + ([] if gallery_labels is None else [("gallery_labels", gallery_labels)])
    for name, tensor in tensors:
        if tensor.ndim != 1:
            raise ValueError(f"{name} have shape {tuple(tensor.shape)}: expected one label an item, shape (items,)")
        if tensor.is_floating_point() or tensor.is_complex():
            raise ValueError(
                f"{name} are {tensor.dtype}: expected integers or strings, as floats merge large class numbers; convert with {name}.long()"
            )
    if any(tensor.dtype == torch.uint64 for _, tensor in tensors):
        return class_codes(labels.cpu().numpy(), None if gallery_labels is None else gallery_labels.cpu().numpy(), device=device)
    joined = torch.cat([tensor.to(device=device, dtype=torch.int64) for _, tensor in tensors])
    codes = torch.unique(joined, return_inverse=True)[1]
    return (codes, codes) if gallery_labels is None else (codes[: len(labels)], codes[len(labels) :])


def _as_array(labels: Labels, name: str) -> np.ndarray:
    array = labels.detach().cpu().numpy() if isinstance(labels, Tensor) else np.asarray(labels)
    if array.ndim != 1:
        raise ValueError(f"{name} have shape {array.shape}: expected one label an item, shape (items,)")
    if array.dtype.kind == "O":
        kinds = {type(item) for item in array.tolist()}
        if kinds <= {str}:
            array = array.astype(str)
        elif not kinds <= {int, bool}:
            raise ValueError(f"{name} mix {sorted(kind.__name__ for kind in kinds)}: expected all integers or all strings")
    if array.dtype.kind == "S":
        array = array.astype(str)
    if array.dtype.kind == "f" and array.size == 0:
        array = array.astype(np.int64)  # an empty list has no kind of its own
    if array.dtype.kind not in "iubUO":
        raise ValueError(
            f"{name} are {array.dtype}: expected integers or strings, as floats merge large class numbers; convert with .astype('int64')"
        )
    return array


def _kind(array: np.ndarray) -> str:
    return "strings" if array.dtype.kind == "U" else "integers"
