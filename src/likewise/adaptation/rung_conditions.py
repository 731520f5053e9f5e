"""Under which conditions rungs are taken: the method, the protocols, the weights."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from likewise.adaptation.rungs import Rung
from likewise.data.dataset import Dataset, Features
from likewise.methods import Method, load_method
from likewise.models.weights.pretrained import WEIGHTS
from likewise.protocols import Protocol, load_protocol
from likewise.protocols.suited import why_features_may_not_suit

FROZEN = "photos"  # the protocol of a head on features
# of a backbone that learns: gently, as over-fitting to the training classes is the limit (docs/experiments.md)
TUNED: dict[str, Any] = {"batch": 64, "steps": 300, "learning_rate": 2e-5, "frozen_batch_norm": True}


@dataclass(frozen=True)
class Conditions:
    """What decides, beside the data, what a rung comes to."""

    method: Method
    frozen: Protocol  # of the rungs that leave the backbone as it is
    tuned: Protocol  # of those that change it; which part of it learns is the rung's
    weights: Path | None  # of the backbone; None: the data are vectors
    notes: tuple[str, ...] = ()  # what the user should know of them

    def protocol(self, rung: Rung) -> Protocol:
        if rung.learns == "nothing" or rung.learns == "head":
            return self.frozen
        return replace(self.tuned, trains=rung.learns)

    def method_at(self, rate: float) -> Method:
        return replace(self.method, rates=replace(self.method.rates, base=self.method.rates.base * rate))


def conditions_for(dataset: Dataset, *, method: str | Path | Method, weights: str | Path | None) -> Conditions:
    """For these data: where they are images, with these weights (see `likewise weights`), or the protocol's own."""
    frozen = load_protocol(FROZEN)
    chosen = load_method(method).for_protocol(frozen.name)
    if isinstance(dataset.items, Features):
        if weights is not None:
            raise ValueError(f"weights={str(weights)!r} for vectors: the network that made them is not trained; leave --weights out")
        return Conditions(chosen, frozen, frozen, None)
    frozen = frozen.for_weights(weights)
    tuned = replace(frozen, frozen=False, views=1, compile=False, **TUNED)
    notes = why_features_may_not_suit(dataset) if weights is None or str(weights) in WEIGHTS else ()  # what a file is of is not known
    return Conditions(chosen, frozen, tuned, frozen.weights_file(weights), notes)
