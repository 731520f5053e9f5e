"""A reproduction as it might have come out: figures near the published ones, on the parts that can be run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import numpy as np

from likewise.comparison.results import Estimate
from likewise.reproductions.paper_item import PaperItem, PaperPart, items_named, scores_of
from likewise.reproductions.reproduction import ClaimVerdict, ItemResult, Judged, PartResult, Reproduction, RowResult

SEEDS = 3
VERDICTS: tuple[ClaimVerdict, ...] = get_args(ClaimVerdict)


def made_estimate(mean: float, rng: np.random.Generator) -> Estimate:
    values = tuple(float(value) for value in np.clip(mean + rng.normal(0, 0.004, SEEDS), 0, 1))
    middle = float(np.mean(values))
    return Estimate(values, middle, float(np.std(values, ddof=1)), middle - 0.012, middle + 0.012)


def made_part(item: PaperItem, part: PaperPart, rng: np.random.Generator) -> PartResult:
    protocol = part.conditions()
    published = item.published.get(item.beside(part), {})
    rows = {}
    for name, row in item.rows_of(part).items():
        if row.method:
            mean = published.get(name, {}).get(item.score, 55.0) / 100 - 0.03
            scores = {score: made_estimate(mean + 0.02 * number, rng) for number, score in enumerate(scores_of(protocol))}
            rows[name] = RowResult(scores, {}, (100.0, 101.0, 99.0), protocol.dim)
    left_out = {name: "3 images a class do not fit" for name in list(rows)[-1:] if len(rows) > 4}
    for name in left_out:
        del rows[name]
    return PartResult(
        protocol=protocol,
        rows=rows,
        left_out=left_out,
        waiting={},
        seeds=SEEDS,
        data_words="100 classes <train> & 100 test",
        weights="w.pth",
    )


def made_reproduction(names: list[str], **more: Any) -> Reproduction:
    """Of these items: parts with ResNet-50 or without weights were run, and verdicts go round in turn."""
    rng = np.random.default_rng(0)
    results = []
    for item in items_named(names):
        within_reach = [part for part in item.parts if part.data in ("mnist", "omniglot") or part.conditions().backbone == "resnet50_v1"]
        parts = {part.name: made_part(item, part, rng) for part in within_reach}
        needs = {part.name: f"give --data {part.data}:PATH" for part in item.parts if part.name not in parts}
        judged = []
        for number, claim in enumerate(item.claims):
            verdict = VERDICTS[number % len(VERDICTS)]
            where = claim.part or next(iter(parts), "")
            if claim.over == "parts":
                where = item.part(next(iter(parts))).series
            rows = claim.each or ((claim.row,) if claim.over == "parts" else ("",))
            judged += [Judged(claim, where, verdict, "R@1: a 61.0, b 58.2", claim.refuted_by, row) for row in rows]
        results.append(ItemResult(item, parts, needs, tuple(judged)))
    return Reproduction(
        tuple(results), Path("out"), "likewise reproduce", {"likewise": "0.1.0"}, created="2026-11-16T22:10:00+00:00", **more
    )
