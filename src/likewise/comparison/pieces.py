"""Piece: the unit of a comparison's work, of its claims and of its results."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal["trial", "final", "score", "items"]
KINDS: tuple[Kind, ...] = get_args(Kind)

# What a piece costs beside a training, about: for the time left.
COST: dict[Kind, float] = {"trial": 1.0, "final": 1.0, "score": 0.1, "items": 0.1}

BY = "MAP@R"  # what sets of values are chosen by, and methods ranked
UNTRAINED = "untrained"  # the network as it was initialised: every comparison's lowest line


@dataclass(frozen=True)
class Piece:
    """A pure function of the plan, the data and these fields: whoever runs it, where and when, finds the same.

    trial: one fold of one set of values.  final: one seed with the chosen values on all training classes; the network is kept.
    score: that network on the test classes.  items: what the report shows of the test classes.
    """

    kind: Kind
    data: str  # name of the data set
    point: str = ""  # of a sweep: "dim=64"; empty: the protocol as it is
    method: str = ""
    number: int = 0  # of the set of values (trial) or the seed (final, score)
    fold: int = 0

    @property
    def key(self) -> str:
        """Names the piece in the store. Data set and method may hold any character, so they stand last and first to be split off."""
        return "|".join((self.kind, str(self.number), str(self.fold), self.point, self.method, self.data))

    @staticmethod
    def of(key: str) -> Piece:
        kind, number, fold, point, method, data = key.split("|", 5)
        return Piece(kind, data, point, method, int(number), int(fold))  # type: ignore[arg-type]

    @property
    def run(self) -> str:
        """In words, for the guard's record, file names and messages."""
        where = " ".join(part for part in (self.data, self.point) if part)
        if self.kind == "items":
            return f"{where}: pictures for the report"
        number = f"set {self.number}, fold {self.fold}" if self.kind == "trial" else f"seed {self.number}"
        return f"{where}: {self.method}, {number}"
