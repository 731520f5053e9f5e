"""The leaderboard for the terminal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from likewise.comparison.results import Board, ComparisonResults, MethodResult
from likewise.reports.sentences import (
    conditions_in_words,
    gain_in_words,
    headline,
    hits_in_words,
    interval,
    levels_in_words,
    look_in_words,
    noise_in_words,
    power_in_words,
    swept_in_words,
)
from likewise.wording import NONE, bytes_in_words, percent, printable, seconds_in_words

SCORE, BESIDE = 8, 40  # letters of a column of scores, and of all columns beside scores and titles
TITLE, LONGEST_TITLE = 24, 32
MARKS = {
    "best": ("★", "bold green"),
    "leads": ("★", "bold green"),
    "equal for all purposes": ("=", "green"),
    "within noise": ("≈", "green"),
}


def leaderboard_view(results: ComparisonResults) -> RenderableType:
    """A table and its sentence for each data set; methods not under equal conditions below the others."""
    return Leaderboard(results)


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Whole titles where two scores have room beside them, then as many scores as the terminal is wide. Titles give way first."""

    results: ComparisonResults

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        longest = min(LONGEST_TITLE, max(len(printable(method.title)) for method in self.results.methods))
        room = options.max_width - BESIDE
        title = min(longest, max(room - 2 * SCORE, min(TITLE, room - SCORE), SCORE))
        yield from _view(self.results, max(1, (room - title) // SCORE), title)


def _view(results: ComparisonResults, num_scores: int, title_width: int) -> Iterator[RenderableType]:
    for dataset in results.datasets:
        board = results.board(dataset)
        yield Text(printable(dataset), style="bold")
        yield _table(board, board.scores[:num_scores], title_width)
        for words in filter(None, (hits_in_words(results, board), headline(board), gain_in_words(board), *levels_in_words(results, board))):
            yield Text(printable(words))
        if board.verdict is not None and not board.verdict.undecided:
            for words in filter(None, (power_in_words(board), noise_in_words(board))):
                yield Text(printable(words), style="dim")
        if dataset in results.looks:
            yield Text(printable(look_in_words(results, board)), style="dim" if results.looks[dataset].number == 1 else "yellow")
        for entry in results.swept:
            if entry.dataset == dataset and (words := swept_in_words(entry)):
                yield Text(printable(f"{entry.title}, {entry.sweep}: {words}"))
        for method in (method for method in board.apart if not method.levels):  # whose title says it
            yield Text(f"{printable(method.title)} is listed apart: {printable(method.apart)}", style="dim")
        yield Text("")
    if results.average_ranks:
        ranks = sorted(results.average_ranks.items(), key=lambda entry: entry[1])
        yield Text("average ranks: " + ", ".join(f"{printable(name)} {rank:.2f}" for name, rank in ranks))
    marks = "  ★ first, ≈ within noise of it" + (", = equal to it for all purposes" if results.indifferent else "")
    yield Text(conditions_in_words(results) + (marks if results.names_winner else ""), style="dim")
    for note in results.notes:
        yield Text(f"! {printable(note)}", style="yellow")


def _table(board: Board, scores: tuple[str, ...], title_width: int) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 1), header_style="dim", pad_edge=False)
    table.add_column("", no_wrap=True, min_width=1)
    table.add_column("method", no_wrap=True, overflow="ellipsis", max_width=title_width)
    for i, name in enumerate(scores):
        table.add_column(name, justify="right", no_wrap=True)
        if i == 0:
            table.add_column("95 % interval", justify="center", no_wrap=True)
    table.add_column("training", justify="right", no_wrap=True)
    table.add_column("memory", justify="right", no_wrap=True)
    for method in board.methods:
        table.add_row(*_cells(board, method, scores))
    return table


def _cells(board: Board, method: MethodResult, scores: tuple[str, ...]) -> Iterator[Text]:
    mark, style = MARKS.get(board.standing(method), ("", "dim" if method.apart else ""))
    yield Text(mark, style=style)
    yield Text(printable(method.title), style=style)
    for i, name in enumerate(scores):
        estimate = method.scores.get(name)
        yield Text(NONE if estimate is None else percent(estimate.mean), style=style)
        if i == 0:
            yield Text("" if estimate is None else interval(estimate), style="dim")
    yield Text(seconds_in_words(method.mean_seconds), style="dim")
    yield Text(bytes_in_words(method.memory_bytes), style="dim")
