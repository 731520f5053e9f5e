"""The command `likewise compare`: from words on a command line to a table, a report and its path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from likewise.comparison.compare import TimeIsUp
from likewise.comparison.request import Request
from likewise.comparison.results import ComparisonResults
from likewise.comparison.sweeping.sweeps import parsed_sweep
from likewise.reports.comparison_report import compare_and_report
from likewise.reports.sentences import TO_TUNE, command_to_go_on, how_to_embed, is_of_vectors, time_in_words
from likewise.terminal.comparison_progress import live_progress
from likewise.terminal.leaderboard import leaderboard_view
from likewise.terminal.screen import Screen
from likewise.wording import printable

WORK = ("training", "evaluation")  # what a comparison is for; everything else is overhead


def run_compare(request: Request, *, profile: bool) -> bool:
    """Runs or goes on with a comparison; prints its table and the path of its report. False if its minutes are over before."""
    console = Screen()
    try:
        with live_progress() as (on_progress, on_preparing):
            results = compare_and_report(request, on_progress=on_progress, on_preparing=on_preparing)
    except TimeIsUp as stop:
        console.print(str(stop), soft_wrap=True, highlight=False, markup=False)
        return False
    console.print(leaderboard_view(results))
    if profile:
        console.print(profile_view(results))
    for line in closing_lines(results):
        console.print(line, soft_wrap=True, highlight=False, markup=False)
    return True


def named_methods(text: str | None) -> list[str] | None:
    """["raw", "margin"] of "raw, margin"."""
    return None if text is None else [name.strip() for name in text.split(",") if name.strip()]


def swept_values(texts: Sequence[str]) -> dict[str, list[Any]]:
    """{"dim": [64, 128]} of ["dim=64,128"]."""
    sweeps: dict[str, list[Any]] = {}
    for name, values in map(parsed_sweep, texts):
        if name in sweeps:
            raise ValueError(f"--sweep {name} is given twice: give all its values at once, as in --sweep dim=64,128")
        sweeps[name] = values
    return sweeps


def closing_lines(results: ComparisonResults) -> list[str]:
    """Where the report is, and how to put the best method to work."""
    lines = [f"report: {results.report}"]
    for data, place in results.best.items():
        winner = results.board(data).winner
        if winner is not None:
            place_in_table = "best" if results.names_winner else "first in the table"
            lines.append(f"{place_in_table}: {printable(winner.title)} on {printable(data)}, in {place}; use it with")
            lines.append(f"  {how_to_embed(place, vectors=is_of_vectors(results, data))}")
    for command in dict.fromkeys(filter(None, (command_to_go_on(results, board) for board in results.boards))):
        lines += ["to tell more apart, go on with more seeds:", f"  {command}"]
    if not results.names_winner and results.can_be_tuned:
        lines.append(f"untuned: {TO_TUNE}")
    return lines


def profile_view(results: ComparisonResults) -> Table:
    """Where the time went, all jobs together, the largest share first."""
    spent = results.time_spent
    total = sum(spent.values())
    title = f"where the time went: {time_in_words(results)}"
    table = Table(title=title, title_justify="left", box=None, header_style="dim", pad_edge=False)
    for name in ("work", "seconds", "share"):
        table.add_column(name, justify="left" if name == "work" else "right")
    for kind, seconds in sorted(spent.items(), key=lambda entry: -entry[1]):
        table.add_row(kind, f"{seconds:.1f}", f"{100 * seconds / total:.1f} %")
    outside = total - sum(spent.get(kind, 0.0) for kind in WORK)
    table.add_row("outside training and evaluation", f"{outside:.1f}", f"{100 * outside / total:.1f} %", style="bold")
    return table
