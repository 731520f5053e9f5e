"""Weight files: .safetensors, or .pth/.pt read without running code. A file fits wholly or nothing is loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from likewise.formats.tensor_files import read_pickled_tensors, read_safetensors

SHOWN = 4  # names of each kind in a message
PICKLED = (".pth", ".pt")
ENDINGS = (".safetensors", *PICKLED)
WRAPPERS = ("state_dict", "model")  # keys under which training scripts put the weights
MEMBER = "members.0."  # how names in a whole network of ours begin
AN_EMBEDDER = (
    "an embedder that Likewise saved, a whole network with its head, and training starts from a backbone's weights alone: "
    "`likewise embed FOLDER IMAGES --out vectors.npz` uses it, and `likewise compare vectors.npz` trains heads on what it gives"
)


def load_weights(module: nn.Module, path: Path, *, ignore: tuple[str, ...] = ()) -> None:
    """Loads the file into the module, cast to its types. `ignore`: how names begin that the file may have and the module has not."""
    fit_weights(module, read_weights(path), path, ignore=ignore)


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of the file by name, on the CPU; taken out of {"state_dict": ...} and without "module." before every name."""
    if not path.exists():
        raise ValueError(f"weights {path}: no such file; give the path of a .safetensors, .pth or .pt file")
    if path.suffix == ".safetensors":
        return _sound(read_safetensors(path), path)
    if path.suffix not in PICKLED:
        raise ValueError(f"weights {path}: the ending {path.suffix!r} is unknown; expected .safetensors, .pth or .pt")
    return _sound(_state_dict(read_pickled_tensors(path), path), path)


def _sound(state: dict[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The tensors, each found to hold as many numbers as it says, and finite ones."""
    for name, tensor in state.items():
        if (
            tensor.layout != torch.strided
            or tensor.is_quantized
            or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes()
        ):
            raise ValueError(f"weights {path}: {name} is sparse, quantised, or says it holds more than the file does: save plain tensors")
        if (tensor.is_floating_point() or tensor.is_complex()) and not tensor.isfinite().all():
            raise ValueError(f"weights {path}: {name} holds NaN or infinity: fetch the file again, or train again")
    return state


def _state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    for key in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            content = content[key]
            break
    if not isinstance(content, Mapping) or not content or not all(isinstance(value, Tensor) for value in content.values()):
        raise ValueError(f"weights {path}: expected tensors by name, found {type(content).__name__}; save module.state_dict()")
    wrapped = all(str(name).startswith("module.") for name in content)  # by data parallel training
    return {str(name).removeprefix("module.") if wrapped else str(name): value for name, value in content.items()}


def fit_weights(module: nn.Module, state: Mapping[str, Tensor], path: Path, *, ignore: tuple[str, ...] = ()) -> None:
    """Loads tensors into the module if every one of either side has its counterpart of the same shape, else a ValueError with all faults.

    Only a norm's count of batches may be missing, as in old files.
    """
    expected = module.state_dict()
    missing = [name for name in expected if name not in state and not name.endswith("num_batches_tracked")]
    unexpected = [name for name in state if name not in expected and not name.startswith(ignore)]
    misshaped = [
        f"{name} {tuple(state[name].shape)} instead of {tuple(tensor.shape)}"
        for name, tensor in expected.items()
        if name in state and state[name].shape != tensor.shape
    ]
    faults = [_listed(names, what) for names, what in ((missing, "missing"), (unexpected, "unexpected"), (misshaped, "of another shape"))]
    if any(faults) and any(name.startswith(MEMBER) for name in state) and not any(name.startswith(MEMBER) for name in expected):
        raise ValueError(f"weights {path}: this is {AN_EMBEDDER}")
    if any(faults):
        differences = "; ".join(filter(None, faults))
        raise ValueError(
            f"weights {path} do not fit {type(module).__name__}: {differences}. Nothing was loaded: give the file of this network"
        )
    module.load_state_dict({name: tensor for name, tensor in state.items() if name in expected}, strict=False)


def _listed(names: list[str], what: str) -> str:
    if not names:
        return ""
    return f"{len(names)} {what} ({', '.join(names[:SHOWN])}{', ...' if len(names) > SHOWN else ''})"
