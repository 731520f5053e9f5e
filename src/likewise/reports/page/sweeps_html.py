"""What settings change, for the page: every method at every point of a sweep, its points beside each other, and who is not there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from likewise.comparison.results import Board, ComparisonResults, MethodResult
from likewise.comparison.sweeping.sweeps import point_in_words
from likewise.comparison.sweeping.swept_methods import SweptMethod
from likewise.reports.drawing import MethodLine
from likewise.reports.markup import Markup, join, table, tag
from likewise.reports.page.leaderboard_html import MARKS, swatch
from likewise.reports.sentences import interval, points_named, swept_in_words
from likewise.wording import NONE, percent

CHOSEN_HERE = (
    "Scores of test classes: a value that is chosen from this table has seen them. Tuning (--trials, --tune) chooses on classes held out "
    "from training. Each method's values are judged by themselves, at 95 %."
)


def sweeps_section(results: ComparisonResults, board: Board, lines: Mapping[str, MethodLine]) -> Markup:
    """For each sweep a table of methods and points, and what is told of each method."""
    swept = [entry for entry in results.swept if entry.dataset == board.dataset]
    parts: list[Markup] = []
    for sweep in dict.fromkeys(entry.sweep for entry in swept):
        of_sweep = [entry for entry in swept if entry.sweep == sweep]
        said = [(entry, swept_in_words(entry)) for entry in of_sweep]
        listed = [tag("li", {}, tag("bdi", {}, entry.title), ": ", words) for entry, words in said if words]
        parts += [
            tag("h3", {}, sweep),
            _table(results, board, of_sweep, lines),
            tag("ul", {"class": "notes"}, *listed) if listed else Markup(""),
        ]
    marks = (
        f"{board.leading} in %; ★ the highest of its row, ≈ these data do not tell it from that, * adapted to fit the batch (see notes). "
    )
    return join([*parts, tag("p", {"class": "note"}, marks, CHOSEN_HERE)])


def _table(results: ComparisonResults, board: Board, swept: Sequence[SweptMethod], lines: Mapping[str, MethodLine]) -> Markup:
    points = list(dict.fromkeys(point for entry in swept for point in (*entry.points, *entry.left_out)))
    found = {(method.name, point_in_words(method.sweep)): method for method in results.methods if method.dataset == board.dataset}
    rows = []
    for entry in swept:
        cells = [_cell(entry, point, found.get((entry.method, point)), board.leading) for point in points]
        rows.append([join([swatch(lines[entry.method]), tag("bdi", {}, entry.title)]), *cells])
    return table({"class": "facts"}, ("method", *points_named(points)), rows)


def _cell(swept: SweptMethod, point: str, method: MethodResult | None, score: str) -> Markup:
    if method is None or score not in method.scores:
        return tag("span", {"title": swept.left_out.get(point, "not scored")}, NONE)
    estimate = method.scores[score]
    standing = swept.standing(point) if swept.is_told else ""
    mark = MARKS.get(standing, "")
    title = "; ".join(filter(None, (interval(estimate), standing, method.adapted)))
    return tag("span", {"title": title}, " ".join(filter(None, (percent(estimate.mean), mark, "*" * bool(method.adapted)))))
