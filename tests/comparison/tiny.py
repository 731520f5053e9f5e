"""A comparison that takes a second: a few small images, three steps a training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from likewise.comparison.results import ComparisonResults
from likewise.protocols import Protocol, load_protocol
from likewise.reports.comparison_report import compare

DATA = "glyphs:classes=16,images=6,size=16"
METHODS = ("contrastive", "raw_vthm", "proxy_nca")
TUNING = {"tune": "all", "trials": 3, "folds": 2}


def tiny_protocol(**changes: Any) -> Protocol:
    quick = load_protocol("quick")
    return replace(
        quick,
        **{
            "name": "tiny",
            "backbone": "convnet",
            "steps": 3,
            "batch": 16,
            "dim": 8,
            "ks": (1, 2),
            "validate_every": 3,
            **TUNING,
            **changes,
        },
    )


def tiny_compare(out: Path, **changes: Any) -> ComparisonResults:
    asked: dict[str, Any] = {"methods": METHODS, "data": DATA, "protocol": tiny_protocol(), "seeds": 2, "jobs": 1, **changes}
    return compare(asked.pop("methods"), asked.pop("data"), out=out, device="cpu", **{"report": False, **asked})


def table_of(results: ComparisonResults) -> list[tuple[Any, ...]]:
    """Everything in a comparison's table but times and memory, to the last digit."""
    return [
        (
            m.name,
            m.dataset,
            tuple(m.sweep.items()),
            m.apart,
            m.dim,
            m.settings,
            m.scores,
            m.p_value,
            m.standing,
            m.difference,
            m.chance_best,
            m.trials,
        )
        for m in results.methods
    ]


def openings_of(results: ComparisonResults) -> list[str]:
    return [opening["event"] for opening in results.guard_record]
