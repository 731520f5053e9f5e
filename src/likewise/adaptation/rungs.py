"""Rungs: what may be done to pretrained features, from nothing to all of the network."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Literal

from likewise.models.whitening import SHRINKAGES

Learns = Literal["nothing", "head", "high", "lora", "all"]

RATES = (1.0, 0.3, 3.0)  # multiples of the protocol's rate that a trained head tries
SHARES = (1.0, 0.75, 0.5)  # of the way from the pretrained to the fine-tuned backbone (WiSE-FT; Wortsman et al., 2022)


@dataclass(frozen=True)
class Setting:
    """One way to take a rung."""

    rate: float = 1.0  # multiple of the learning rate
    share: float = 1.0  # of the way from the pretrained to the fine-tuned backbone
    shrinkage: float | None = None  # of within-class whitening

    @property
    def in_words(self) -> str:
        """ "rate x 0.3", "0.75 of the way"; empty where there is nothing to say."""
        words = [] if self.shrinkage is None else [f"shrinkage {self.shrinkage:g}"]
        words += [] if self.rate == 1 else [f"rate x {self.rate:g}"]
        words += [] if self.share == 1 else [f"{self.share:g} of the way"]
        return ", ".join(words)


@dataclass(frozen=True)
class Rung:
    """A step of the ladder, and the ways it may be taken."""

    name: str
    title: str  # as a sentence has it
    learns: Learns = "nothing"  # what a training changes; nothing: a closed form
    part: str = ""  # of a network, as a sentence about fine-tuning has it
    rates: tuple[float, ...] = (1.0,)
    shares: tuple[float, ...] = (1.0,)
    shrinkages: tuple[float | None, ...] = (None,)

    def settings(self, rate: float | None = None) -> tuple[Setting, ...]:
        """All ways, or those of one fit."""
        rates = self.rates if rate is None else (rate,)
        return tuple(Setting(*way) for way in product(rates, self.shares, self.shrinkages))

    @property
    def changes_backbone(self) -> bool:
        """Then it needs images, and time."""
        return self.learns not in ("nothing", "head")


FEATURES, PCA, WITHIN = "features", "pca", "within"
RUNGS: dict[str, Rung] = {
    rung.name: rung
    for rung in (
        Rung(FEATURES, "the features as they are"),
        Rung(PCA, "PCA half-whitening"),
        Rung(WITHIN, "within-class whitening", shrinkages=SHRINKAGES),
        Rung("head", "a trained head", "head", rates=RATES),
        Rung("last_stage", "fine-tuning of the last stage", "high", "for the last stage", shares=SHARES),
        Rung("lora", "low-rank fine-tuning", "lora", "at low rank", shares=SHARES),
        Rung("whole", "fine-tuning of the whole network", "all", "for the whole network", shares=SHARES),
    )
}
