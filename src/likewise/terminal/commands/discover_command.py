"""The command `likewise discover`: from words on a command line to a formula, a verdict and a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.comparison.compare import TimeIsUp
from likewise.discovery.weight_search import Discovery, discover
from likewise.terminal.comparison_progress import live_progress
from likewise.terminal.leaderboard import leaderboard_view
from likewise.terminal.screen import Screen


def run_discover(
    data: str,
    *,
    against: list[str],
    trials: int,
    folds: int,
    seeds: int,
    protocol: str | None,
    settings: Mapping[str, Any],
    weights: str | None,
    jobs: int | None,
    out: Path | None,
    device: str,
    minutes: float | None,
) -> bool:
    """Searches, and prints what was found. False if its minutes are over before."""
    console = Screen()
    try:
        with live_progress() as (on_progress, on_preparing):
            found = discover(
                data,
                against=against,
                trials=trials,
                folds=folds,
                seeds=seeds,
                protocol=protocol,
                settings=settings,
                weights=weights,
                jobs=jobs,
                out=out,
                device=device,
                minutes=minutes,
                on_progress=on_progress,
                on_preparing=on_preparing,
            )
    except TimeIsUp as stop:
        console.print(str(stop), soft_wrap=True, highlight=False, markup=False)
        return False
    console.print(leaderboard_view(found.results))
    for line in closing_lines(found):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    return True


def closing_lines(found: Discovery) -> list[str]:
    """The formula, the verdict, and how to use what was found."""
    lines = ["", "found, as weights of a pair with similarity s:", *(f"  {line}" for line in found.formula)]
    mining = found.method.mining
    if mining is not None:
        settings = ", ".join(f"{name} {value:.3g}" for name, value in mining.settings.items())
        lines.append(f"  of pairs that {mining.name} keeps{f' ({settings})' if settings else ''}")
    lines += [f"It is {found.sentence}.", f"weights beside the others': {found.picture}", f"report: {found.results.report}"]
    return [*lines, "to train with it:", f"  likewise train {found.file} DATA --out RUN"]
