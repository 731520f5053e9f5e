"""How long a rung will take, from a few timed steps."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from likewise.adaptation.fitting import Fitter
from likewise.adaptation.rungs import Rung
from likewise.protocols import Protocol
from likewise.training.feeds import Feed
from likewise.training.fit import fit
from likewise.training.loop import Listener

TIMED_STEPS = 5  # the first warms up
CLASSES, IMAGES = 6, 4  # in the batch that is timed
PASSES = 3  # forward passes that a training step costs: one forward, and backward about twice as much


@dataclass(frozen=True)
class TimeNeeded:
    """Seconds."""

    once: float  # before the first fit: maps of all images
    a_fit: float  # one training, its start from a whitening, and the scores of what is held out, with every share


def time_needed(fitter: Fitter, rung: Rung) -> TimeNeeded:
    return _of_network(fitter, rung) if rung.changes_backbone else _of_head(fitter, rung)


def _of_head(fitter: Fitter, rung: Rung) -> TimeNeeded:
    """Vectors are cheap: the training itself, for a few steps. Once before, as what is loaded the first time is not needed in every fit."""
    protocol = fitter.conditions.protocol(rung)
    few = replace(protocol, steps=TIMED_STEPS)
    _seconds_a_step(fitter, few, fitter.feed(rung))
    began = time.perf_counter()
    a_step = _seconds_a_step(fitter, few, fitter.feed(rung))
    start = max(0.0, time.perf_counter() - began - TIMED_STEPS * a_step)
    return TimeNeeded(once=0.0, a_fit=start + protocol.steps * a_step)


def _of_network(fitter: Fitter, rung: Rung) -> TimeNeeded:
    """A few images at a time; whatever is done to an image takes as long in larger batches."""
    began = time.perf_counter()
    few = fitter.few(rung, classes=CLASSES, images=IMAGES)
    a_map = (time.perf_counter() - began) / len(few) if fitter.goes_on_from_maps(rung) else 0.0
    protocol = fitter.conditions.protocol(rung)
    batch = min(protocol.batch, len(few))
    a_step = _seconds_a_step(fitter, replace(protocol, batch=batch, steps=TIMED_STEPS, dim=min(protocol.dim, 8)), few)
    num_items = len(fitter.dataset)
    passes = PASSES * protocol.batch * protocol.steps + num_items * (1 + len(rung.shares))
    return TimeNeeded(once=a_map * num_items, a_fit=a_step / batch / PASSES * passes)


def _seconds_a_step(fitter: Fitter, protocol: Protocol, feed: Feed) -> float:
    timer = _Timer()
    fit(fitter.conditions.method, protocol, feed, seed=0, weights=fitter.conditions.weights, device=fitter.device, listener=timer)
    return float(np.median(np.diff(timer.times)))


class _Timer(Listener):
    def __init__(self) -> None:
        self.times: list[float] = []

    def step(self, step: int) -> None:
        self.times.append(time.perf_counter())
