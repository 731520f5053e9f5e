"""Is the default for photographs ever worse than no training? Random halves of the classes train, the others are scored.

    python benchmarks/photo_splits.py --images CUB_200_2011/images --splits 5 --out DIR

Each split is a comparison of its own under the default protocol for photographs: features as they are, whitening, and the heads of ten
methods with their rates tuned alike. A line a split; the gain is that of the kept row over "no training", with the verdict's interval
of the other's difference to it. The same command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

import likewise
from likewise.comparison.baselines import UNTRAINED, WHITENING
from likewise.comparison.results import Board, MethodResult
from likewise.data import read
from likewise.data.dataset import Dataset


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    dataset = read(options.images)
    print("| split | no training, R@1 / MAP@R | whitening | best head | kept | its gain in MAP@R over no training, 95 % |")
    print("|---|---|---|---|---|---|")
    for seed in range(options.splits):
        results = likewise.compare(
            data=halved(dataset, seed),
            protocol="photos",
            jobs=options.jobs,
            device=options.device,
            out=options.out / f"split-{seed}",
            report=False,
        )
        print(line(seed, results.boards[0]), flush=True)


def halved(dataset: Dataset, seed: int) -> Dataset:
    """The data set with a random half of its classes to train on."""
    trained = np.random.default_rng(seed).permutation(dataset.num_classes)[: dataset.num_classes // 2]
    return replace(dataset, parts=np.where(np.isin(dataset.labels, trained), "train", "test"))


def line(seed: int, board: Board) -> str:
    rows = {method.name: method for method in board.methods}
    head = max((method for method in board.methods if method.is_trained), key=lambda method: method.scores["MAP@R"].mean)
    kept = board.winner
    assert kept is not None
    shown = [_scores(row) for row in (rows[UNTRAINED], rows[WHITENING], head)]
    difference = rows[UNTRAINED].difference
    gain = "is no training" if difference is None else f"{-100 * difference[1]:.1f} to {-100 * difference[0]:.1f}"
    return f"| {seed} | {shown[0]} | {shown[1]} | {shown[2]} ({head.name}) | {kept.name} | {gain} |"


def _scores(row: MethodResult) -> str:
    return " / ".join(f"{100 * row.scores[name].mean:.1f}" for name in ("R@1", "MAP@R"))


if __name__ == "__main__":
    main()
