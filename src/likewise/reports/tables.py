"""The leaderboard as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from likewise.comparison.results import Board, ComparisonResults, MethodResult
from likewise.comparison.sweeping.sweeps import TOGETHER, as_written, point_in_words
from likewise.reports.sentences import (
    conditions_in_words,
    gain_in_words,
    headline,
    hits_in_words,
    look_in_words,
    noise_in_words,
    power_in_words,
    swept_in_words,
)
from likewise.wording import NONE, bytes_in_words, percent, printable, seconds_in_words

LATEX_MARKS = {"within noise": r"$^{\approx}$", "equal for all purposes": "$^{=}$"}
LATEX_LETTERS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
}


def csv_table(results: ComparisonResults) -> str:
    """Everything in full precision, sweeps too: scores as shares of 1, seconds, bytes."""
    scores = list(dict.fromkeys(name for method in results.methods for name in method.scores))
    published = list(dict.fromkeys(name for method in results.methods for name in method.published))
    swept = list(dict.fromkeys(name for method in results.methods for name in method.sweep))
    parts = ("mean", "low", "high", "deviation")
    heads = ["dataset", "method", "title", "apart", "dim", *(f"sweep {name}" for name in swept), "verdict", "p_value"]
    heads += ["difference_low", "difference_high", "chance_best"] + (["verdict of point", "adapted"] if swept else [])
    heads += [f"{name} {part}" for name in scores for part in parts]
    heads += [f"{name} published" for name in published] + ["seconds", "memory_bytes", "look"]
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(heads)
    for method in results.methods:
        row: list[str | int | float | None] = [method.dataset, method.name, method.title, method.apart, method.dim]
        row += [as_written(method.sweep[name]) if name in method.sweep else None for name in swept]
        if results.names_winner:
            row += [method.standing, method.p_value, *(method.difference or (None, None)), method.chance_best]
        else:
            row += [None] * 5
        if swept:
            row += [point_standing(results, method), method.adapted]
        for name in scores:
            estimate = method.scores.get(name)
            row += [None] * len(parts) if estimate is None else [getattr(estimate, part) for part in parts]
        row += [method.published.get(name) for name in published]
        look = results.looks.get(method.dataset)
        row += [method.mean_seconds, method.memory_bytes, None if look is None else look.number]
        writer.writerow([printable(cell) if isinstance(cell, str) else cell for cell in row])
    return written.getvalue()


def point_standing(results: ComparisonResults, method: MethodResult) -> str:
    """How a method at a point of a sweep stands beside its own best point there; empty where that is not told."""
    names = TOGETHER.join(method.sweep)
    swept = [entry for entry in results.swept if (entry.dataset, entry.sweep, entry.method) == (method.dataset, names, method.name)]
    return swept[0].standing(point_in_words(method.sweep)) if swept and swept[0].is_told else ""


def markdown_table(results: ComparisonResults, boards: Sequence[Board]) -> str:
    parts = [f"# {_markdown(results.title)}", conditions_in_words(results)]
    for board in boards:
        parts.append(f"## {_markdown(board.dataset)}")
        if board.dataset in results.looks:
            parts.append(_markdown(look_in_words(results, board)))
        said = (hits_in_words(results, board), headline(board), gain_in_words(board), power_in_words(board))
        parts += [_markdown(words) for words in said if words]
        swept = [(entry, swept_in_words(entry)) for entry in results.swept if entry.dataset == board.dataset]
        told = [f"- {_markdown(f'{entry.title}, {entry.sweep}: {words}')}" for entry, words in swept if words]
        parts += ["\n".join(told)] if told else []
        for methods in (board.equal, board.apart):
            if not methods:
                continue
            heads = ["method", "", *board.scores, "training", "memory"]
            lines = [heads, ["---", "---", *(["---:"] * (len(heads) - 2))]]
            for method in methods:
                cells = [_markdown(method.title), _markdown(_standing(board, method))]
                cells += [_markdown(_score(method, name)) for name in board.scores]
                lines.append([*cells, seconds_in_words(method.mean_seconds), bytes_in_words(method.memory_bytes)])
            parts.append("\n".join("| " + " | ".join(line) + " |" for line in lines))
    parts.append("Scores in %, mean over seeds ± half of the 95 % interval over seeds and test classes.")
    parts += dict.fromkeys(filter(None, map(noise_in_words, boards)))
    return "\n\n".join(parts) + "\n"


def latex_table(results: ComparisonResults, boards: Sequence[Board]) -> str:
    """One tabular a data set, for the package booktabs.

    Where a best is named, it and what is not told from it are in bold: an approximation sign marks what is within noise of it, an equals
    sign what is equal to it for all purposes.
    """
    parts = [f"% {printable(results.title)}\n% {conditions_in_words(results)} Needs \\usepackage{{booktabs}} and UTF-8."]
    for board in boards:
        rows = [" & ".join(["method", *(latex_text(name) for name in board.scores)]) + r" \\", r"\midrule"]
        for methods in (board.equal, board.apart):
            if methods is board.apart and board.equal and board.apart:
                rows.append(r"\midrule")
            for method in methods:
                name = latex_text(method.title) + (f" ({latex_text(method.apart)})" if method.apart else "")
                scores = [latex_text(_score(method, score)).replace("±", r"$\pm$") for score in board.scores]
                standing = board.standing(method)
                if standing not in ("", "behind"):
                    scores[0] = rf"\textbf{{{scores[0]}}}{LATEX_MARKS.get(standing, '')}"
                rows.append(" & ".join([name, *scores]) + r" \\")
        body = "\n".join([r"\toprule", *rows, r"\bottomrule"])
        verdict = (headline(board), gain_in_words(board), power_in_words(board), noise_in_words(board))
        said = (board.dataset, look_in_words(results, board), *verdict)
        heading = "\n".join(f"% {printable(words)}" for words in said if words)
        parts.append(f"{heading}\n\\begin{{tabular}}{{l{'r' * len(board.scores)}}}\n{body}\n\\end{{tabular}}")
    return "\n\n".join(parts) + "\n"


def latex_text(text: str) -> str:
    return "".join(LATEX_LETTERS.get(letter, letter) for letter in printable(text))


def _score(method: MethodResult, name: str) -> str:
    estimate = method.scores.get(name)
    if estimate is None:
        return NONE
    if estimate.low is None or estimate.high is None:
        return percent(estimate.mean)
    return f"{percent(estimate.mean)} ± {percent((estimate.high - estimate.low) / 2)}"


def _standing(board: Board, method: MethodResult) -> str:
    return method.apart or board.standing(method)


def _markdown(text: str) -> str:
    """As it stands in a cell: no letter of it is taken for markup."""
    escaped = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + letter if letter in "\\`*_[]|#" else letter for letter in escaped)
