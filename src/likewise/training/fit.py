"""fit: one training from its first step to its last, in memory."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch

from likewise.methods import Method
from likewise.models.head_start import Starts
from likewise.models.network import Network
from likewise.protocols import Protocol
from likewise.training.devices import Devices
from likewise.training.feeds import Feed
from likewise.training.loop import Listener, Row, Training


@dataclass(frozen=True, eq=False)
class Fit:
    """A finished training."""

    network: Network  # with the best step's weights where steps were validated, else the last's
    rows: list[Row]  # the log: step, loss, seconds, and R@1 and MAP@R where validated
    seconds: float
    peak_bytes: int
    best_step: int
    validation: dict[str, float] | None  # scores of the best step


def fit(
    method: Method,
    protocol: Protocol,
    feed: Feed,
    *,
    seed: int,
    weights: Path | None = None,
    validation: Feed | None = None,
    device: str = "auto",
    micro_batch: int | None = None,
    listener: Listener | None = None,
    starts: Starts | None = None,
) -> Fit:
    """Trains a method on a feed under a protocol. The best step is chosen on `validation`: items of other (training) classes.

    starts: of other fits, perhaps on the same feed, whose heads then start from what is known.
    """
    devices = Devices(protocol, device=device)
    if devices.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(devices.device)
    training = Training(
        method, protocol, feed, seed=seed, devices=devices, weights=weights, validation=validation, micro_batch=micro_batch, starts=starts
    )
    training.run(listener)
    return fitted(training)


def fitted(training: Training) -> Fit:
    """What a training that has come to its end leaves."""
    validated = training.validation is not None
    return Fit(
        network=training.network,
        rows=training.rows,
        seconds=training.seconds,
        peak_bytes=peak_bytes(training.device),
        best_step=training.best_step if validated else training.step,
        validation=training.best if validated else None,
    )


def peak_bytes(device: torch.device) -> int:
    """The most memory that was held: on the GPU, or by this process; 0 on Windows, which does not tell."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
