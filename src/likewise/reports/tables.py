"""The leaderboard as CSV, Markdown and LaTeX."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from io import StringIO

from likewise.comparison.results import Board, ComparisonResults, MethodResult
from likewise.reports.sentences import conditions_in_words, look_in_words
from likewise.wording import NONE, bytes_in_words, percent, printable, seconds_in_words

GROUP_SIGNS = {"best": "best", "within noise of the best": "within noise"}
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
    heads = ["dataset", "method", "title", "apart", "dim", *(f"sweep {name}" for name in swept), "within_noise", "p_value"]
    heads += [f"{name} {part}" for name in scores for part in parts]
    heads += [f"{name} published" for name in published] + ["seconds", "memory_bytes", "look"]
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(heads)
    for method in results.methods:
        row: list[str | int | float | None] = [method.dataset, method.name, method.title, method.apart, method.dim]
        row += [method.sweep.get(name) for name in swept]
        row += [int(method.within_noise), method.p_value] if results.names_winner else [None, None]
        for name in scores:
            estimate = method.scores.get(name)
            row += [None] * len(parts) if estimate is None else [getattr(estimate, part) for part in parts]
        row += [method.published.get(name) for name in published]
        look = results.looks.get(method.dataset)
        row += [method.mean_seconds, method.memory_bytes, None if look is None else look.number]
        writer.writerow([printable(cell) if isinstance(cell, str) else cell for cell in row])
    return written.getvalue()


def markdown_table(results: ComparisonResults, boards: Sequence[Board]) -> str:
    parts = [f"# {_markdown(results.title)}", conditions_in_words(results)]
    for board in boards:
        parts.append(f"## {_markdown(board.dataset)}")
        if board.dataset in results.looks:
            parts.append(_markdown(look_in_words(results, board)))
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
    return "\n\n".join(parts) + "\n"


def latex_table(results: ComparisonResults, boards: Sequence[Board]) -> str:
    """One tabular a data set, for the package booktabs; the best and what is within noise of it in bold, where a best is named."""
    parts = [f"% {printable(results.title)}\n% {conditions_in_words(results)} Needs \\usepackage{{booktabs}} and UTF-8."]
    for board in boards:
        rows = [" & ".join(["method", *(latex_text(name) for name in board.scores)]) + r" \\", r"\midrule"]
        for methods in (board.equal, board.apart):
            if methods is board.apart and board.equal and board.apart:
                rows.append(r"\midrule")
            for method in methods:
                name = latex_text(method.title) + (f" ({latex_text(method.apart)})" if method.apart else "")
                scores = [latex_text(_score(method, score)).replace("±", r"$\pm$") for score in board.scores]
                if board.group(method):
                    scores[0] = rf"\textbf{{{scores[0]}}}"
                rows.append(" & ".join([name, *scores]) + r" \\")
        body = "\n".join([r"\toprule", *rows, r"\bottomrule"])
        look = look_in_words(results, board)
        heading = f"% {printable(board.dataset)}" + (f"\n% {printable(look)}" if look else "")
        parts.append(f"{heading}\n\\begin{{tabular}}{{l{'r' * len(board.scores)}}}\n{body}\n\\end{{tabular}}")
    return "\n\n".join(parts) + "\n"


def latex_text(text: str) -> str:
    return "".join(LATEX_LETTERS.get(letter, letter) for letter in printable(text))


def _score(method: MethodResult, name: str) -> str:
    estimate = method.scores.get(name)
    if estimate is None:
        return NONE
    return f"{percent(estimate.mean)} ± {percent((estimate.high - estimate.low) / 2)}"


def _standing(board: Board, method: MethodResult) -> str:
    return method.apart or GROUP_SIGNS.get(board.group(method), "")


def _markdown(text: str) -> str:
    """As it stands in a cell: no letter of it is taken for markup."""
    escaped = printable(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return "".join("\\" + letter if letter in "\\`*_[]|#" else letter for letter in escaped)
