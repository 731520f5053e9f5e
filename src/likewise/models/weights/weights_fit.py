"""Do weights fit a backbone? Told before anything is computed, with the backbones that they would fit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from likewise.models.backbones import BACKBONES, make_backbone, takes_vectors
from likewise.models.weights.weight_files import fit_weights, read_weights


def check_weights(backbone: str, weights: Path) -> None:
    """Refuses a file whose tensors are not this backbone's, in words."""
    state = read_weights(weights)
    try:
        _fit(backbone, state, weights)
    except ValueError:
        others = [name for name in BACKBONES if not takes_vectors(name) and _fits(name, state, weights)]
        if not others:
            raise
        which = ", as their source tells" if len(others) > 1 else ""
        remedy = " or ".join(f"--set backbone={name}" for name in others)
        raise ValueError(f"{weights} holds weights of {' or '.join(others)}{which}, and the backbone is {backbone}: {remedy}") from None


def _fit(backbone: str, state: Mapping[str, Tensor], weights: Path) -> None:
    made = make_backbone(backbone)
    fit_weights(made.named_as_in_files, state, weights, ignore=made.classifier)


def _fits(backbone: str, state: Mapping[str, Tensor], weights: Path) -> bool:
    try:
        _fit(backbone, state, weights)
    except ValueError:
        return False
    return True
