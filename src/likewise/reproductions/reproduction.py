"""Reproduction: what one run of `likewise reproduce` knows of each item, beside what was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from likewise.comparison.results import Estimate
from likewise.protocols import Protocol
from likewise.reproductions.paper_claims import PaperClaim
from likewise.reproductions.paper_item import PaperItem

ClaimVerdict = Literal["confirmed", "contradicted", "open", "not run"]  # open: it was run, and noise leaves it open
JointVerdict = Literal["confirmed", "contradicted", "mixed", "open", "not run"]  # of a claim in all places together
VERDICTS: tuple[JointVerdict, ...] = get_args(JointVerdict)

Tables = dict[str, npt.NDArray[np.float64]]  # score -> (seeds, test classes)


@dataclass(frozen=True, eq=False)
class RowResult:
    """A row as it was run."""

    scores: dict[str, Estimate]  # by name, in [0, 1]
    by_class: Tables  # of the scores that belong to queries
    seconds: tuple[float, ...]  # of training, one a seed
    dim: int
    settings: dict[str, Any] = field(default_factory=dict)  # what tuning chose, by dotted name; empty where nothing was tuned
    adapted: str = ""  # what it does otherwise to fit the batch: "2 images a class instead of 4"
    embeddings: Path | None = None  # .npy float16 (test items, dim) of the first seed, where they were kept
    planes: tuple[Path, ...] = ()  # of 2 dimensions, one a seed: .npy float32 (test items, 2), not brought to length 1


@dataclass(frozen=True, eq=False)
class PartResult:
    """A part as far as it was run."""

    protocol: Protocol  # as it was run
    rows: dict[str, RowResult]
    left_out: dict[str, str]  # row -> why it never will be there: it cannot exist under these conditions, or it failed
    waiting: dict[str, str]  # row -> what it waits for
    seeds: int  # fewest of a row
    data_words: str  # "CUB-200-2011: 5,864 items of 100 classes train, 5,924 of 100 test"
    weights: str = ""  # the file of pretrained weights; empty: random
    class_sizes: npt.NDArray[np.float64] | None = None  # queries of each test class
    test_digest: str = ""  # names the test items: classes are the same where it is
    device: str = "cpu"
    labels: npt.NDArray[np.int64] | None = None  # of the test items, where rows have planes
    class_names: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judged:
    """A claim after it was judged."""

    claim: PaperClaim
    part: str  # where it was judged; empty for claims over parts, and for what is computed
    verdict: ClaimVerdict
    evidence: str  # a sentence with figures, seeds and intervals; of what was not run, what it needs
    refuted_by: str
    row: str = ""  # of claims that are judged for one row or curve at a time


@dataclass(frozen=True, eq=False)
class ItemResult:
    """An item as far as it was run."""

    item: PaperItem
    parts: dict[str, PartResult]  # those of which anything was run
    needs: dict[str, str]  # part -> what it needs, of the others
    claims: tuple[Judged, ...]


@dataclass(frozen=True, eq=False)
class Reproduction:
    """One run of the command."""

    items: tuple[ItemResult, ...]
    folder: Path
    command: str
    versions: dict[str, str]
    is_stand_in: bool = False  # --quick: figures that mean nothing
    created: str = ""  # ISO date and time
    trainings_left: int = 0  # of those that were asked for and can be run here

    def verdicts(self) -> list[tuple[PaperItem, PaperClaim, JointVerdict]]:
        """Every claim of the papers once, whatever the number of places that it was judged in; questions of ours are left out."""
        return [
            (result.item, claim, joint_verdict([judged.verdict for judged in result.claims if judged.claim is claim]))
            for result in self.items
            for claim in result.item.claims
            if not claim.ours
        ]

    def counts(self) -> dict[JointVerdict, int]:
        """How many of the papers' claims ended how."""
        verdicts = [verdict for _, _, verdict in self.verdicts()]
        return {verdict: verdicts.count(verdict) for verdict in VERDICTS}


def joint_verdict(verdicts: Sequence[ClaimVerdict]) -> JointVerdict:
    """Of a claim that was judged in several places: confirmed or contradicted in some and the other in none, mixed if both, else open."""
    found = set(verdicts) & {"confirmed", "contradicted"}
    if found:
        return "mixed" if len(found) > 1 else next(iter(found))
    return "open" if "open" in verdicts else "not run"
