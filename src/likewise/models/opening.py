"""A model as commands take it: a run, a comparison or its best, a saved embedder, or the name of public weights."""

from __future__ import annotations

from pathlib import Path

import torch

from likewise.models.bundle import bundle_home
from likewise.models.embedder import Embedder
from likewise.models.weights.pretrained import WEIGHTS


def open_model(model: Embedder | str | Path, device: torch.device | str = "cpu") -> Embedder:
    """The embedder in the folder, or public weights as they are. A folder comes before a name."""
    if isinstance(model, Embedder):
        return model
    if str(model) in WEIGHTS and not Path(model).exists():
        return Embedder.pretrained(str(model), device=device)
    return Embedder.load(model_home(model), device)


def model_home(model: str | Path) -> Path:
    """The folder with the embedder: this one, its `embedder` (a run's), its `best` (a comparison's) or its `model` (an index's)."""
    return bundle_home(model_folder(model))


def model_folder(model: str | Path) -> Path:
    """The folder of a run or of an embedder: of a comparison that of its best, of an index that of its model."""
    folder = Path(model)
    if not folder.exists():
        raise ValueError(f"{model} is neither a folder nor the name of weights: give a run, a saved model, or a name of `likewise weights`")
    return next((folder / name for name in ("best", "model") if (folder / name).is_dir()), folder)
