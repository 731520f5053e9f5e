"""Files of tensors by name: .safetensors, and .pth or .pt read without running code."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

from likewise.formats.regular_file import UnreadableFile, opened, parsing, require_regular
from likewise.formats.unpacking import require_sound_zip
from likewise.limits import require_within


def read_safetensors(path: Path) -> dict[str, Any]:  # tensors by name
    """The tensors, on the CPU. The library holds their declared sizes against the file."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    with parsing(path, "safetensors file", "fetch it again"):
        require_within("file_bytes", require_regular(path).st_size, f"{path} has bytes:")
        try:
            return load_file(path)
        except SafetensorError as fault:
            raise UnreadableFile(f"{path} is not a safetensors file, or cut off ({fault}): fetch it again") from fault


def read_pickled_tensors(path: Path) -> Any:
    """What torch.save wrote of tensors, tables and lists. Anything that could run code is refused, unread."""
    import torch

    with parsing(path, "file of tensors", "save the state_dict alone, best as .safetensors"):
        require_within("file_bytes", require_regular(path).st_size, f"{path} has bytes:")
        with opened(path) as file:
            if zipfile.is_zipfile(file):
                require_sound_zip(path, file)
            file.seek(0)
            try:
                return torch.load(file, map_location="cpu", weights_only=True)
            except MemoryError:
                raise
            except Exception as fault:  # broken zip files, broken pickles and refused code have no common type
                what = "broken, or more than tensors, which could run code and is not loaded"
                raise UnreadableFile(f"{path}: {what} ({type(fault).__name__}); save the state_dict alone, best as .safetensors") from fault
