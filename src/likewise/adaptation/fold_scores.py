"""Scores of held-out training classes, fold by fold, kept in a file as they are found: what a killed run has found is not lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from likewise.adaptation.rungs import Rung, Setting
from likewise.evaluation.certainty.uncertainty import class_tables
from likewise.evaluation.retrieval import per_query
from likewise.files import append_line
from likewise.sealing import has_seal, sealed_json, tell_mended, unsealed_json
from likewise.training.feeds import Int64s

SCORE = "MAP@R"
Table = npt.NDArray[np.float64]


@dataclass(frozen=True)
class FoldScore:
    """What one rung, taken in one way, is worth on the held-out classes of one fold."""

    rung: str
    setting: Setting
    repeat: int
    fold: int
    means: dict[int, float]  # class -> mean MAP@R of its queries
    queries: dict[int, int]  # class -> how many they are
    seconds: float  # of fitting, where this is the first setting of a fit, and scoring

    @property
    def key(self) -> tuple[str, Setting, int, int]:
        return self.rung, self.setting, self.repeat, self.fold


def scores_by_class(vectors: Tensor, labels: Int64s) -> tuple[dict[int, float], dict[int, int]]:
    """Mean MAP@R and number of queries of every class with two items or more, each item searched among all others."""
    found = per_query(vectors, torch.from_numpy(labels), metrics=(SCORE,))
    tables, queries = class_tables([found])
    classes = [int(label) for label in np.unique(labels[found.matched.cpu().numpy()])]
    return dict(zip(classes, tables[SCORE][0].tolist(), strict=True)), dict(zip(classes, map(int, queries), strict=True))


class FoldScores:
    """All that was found so far; each score is on the disk before `add` returns."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._found = {score.key: score for score in _read(path)}

    def add(self, score: FoldScore) -> None:
        content = asdict(score)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        append_line(self._path, sealed_json(content, indent=None).rstrip())
        self._found[score.key] = score

    def get(self, rung: str, setting: Setting, repeat: int, fold: int) -> FoldScore | None:
        return self._found.get((rung, setting, repeat, fold))

    def seconds(self, rung: str) -> float:
        """That the rung has taken so far."""
        return sum(score.seconds for score in self._found.values() if score.rung == rung)

    def table(self, rung: Rung, *, repeats: int, folds: int) -> tuple[Table, Table]:
        """(repeats, classes) means, and how many queries each class has: every class is held out once in every repeat.

        Where the rung can be taken in several ways, a fold has the way that is best on the other folds of its repeat: its own classes
        have no say in what they are scored with, so that the best of many ways looks no better than it is.
        """
        rows: list[list[float]] = []
        counts: dict[int, int] = {}
        for repeat in range(repeats):
            means: dict[int, float] = {}
            for fold in range(folds):
                others = [(repeat, other) for other in range(folds) if other != fold]
                score = self._found[rung.name, self.best_way(rung, others), repeat, fold]
                means |= score.means
                counts |= score.queries
            rows.append([means[label] for label in sorted(means)])
        return np.array(rows), np.array([counts[label] for label in sorted(counts)], dtype=np.float64)

    def best_way(self, rung: Rung, places: Sequence[tuple[int, int]]) -> Setting:
        """The way with the highest mean over the queries of these (repeat, fold); the first of equals."""

        def mean(way: Setting) -> float:
            scores = [self._found[rung.name, way, *place] for place in places]
            total = sum(score.means[label] * count for score in scores for label, count in score.queries.items())
            return total / sum(sum(score.queries.values()) for score in scores)

        return max(rung.settings(), key=mean)


def _read(path: Path) -> list[FoldScore]:
    """A line that a kill or a full disk cut short is skipped, and one that differs from its seal: its fold is done again."""
    scores = []
    for line in path.read_bytes().split(b"\n") if path.is_file() else ():
        try:
            stored = unsealed_json(line + b"\n", f"a line of {path}", mend="its fold is done again")
            scores.append(
                FoldScore(
                    rung=stored["rung"],
                    setting=Setting(**stored["setting"]),
                    repeat=stored["repeat"],
                    fold=stored["fold"],
                    means=_numbered(stored["means"]),
                    queries={label: int(count) for label, count in _numbered(stored["queries"]).items()},
                    seconds=stored["seconds"],
                )
            )
        except (ValueError, KeyError, TypeError) as fault:
            if has_seal(line + b"\n"):
                tell_mended(str(fault))
            continue
    return scores


def _numbered(values: Mapping[str, float]) -> dict[int, float]:
    """JSON's keys are texts."""
    return {int(label): value for label, value in values.items()}
