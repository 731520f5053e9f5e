"""Is the difference real? For the page: every method's difference to the best and all pairs, with intervals that hold at once."""

from __future__ import annotations

from collections.abc import Mapping

from likewise.comparison.results import Board, ComparisonResults, MethodResult
from likewise.evaluation.certainty.verdict import Limits, Verdict
from likewise.reports.drawing import MethodLine
from likewise.reports.markup import Markup, join, table, tag
from likewise.reports.page.conditions_html import command_line
from likewise.reports.page.leaderboard_html import p_value_in_words, swatch
from likewise.reports.sentences import command_to_go_on, points, power_in_words
from likewise.wording import NONE

BAR = (220, 14)  # pixels
MINUS = "\N{MINUS SIGN}"


def differences(results: ComparisonResults, board: Board, lines: Mapping[str, MethodLine]) -> Markup:
    """What cannot be told and what it would take; differences to the best; all pairs."""
    verdict = board.verdict
    assert verdict is not None
    parts: list[str] = [tag("p", {}, words) for words in (verdict.undecided, power_in_words(board)) if words]
    command = command_to_go_on(results, board)
    if command:
        parts += [tag("p", {}, "To go on with more seeds; what is there is kept, and the new look is counted:"), command_line(command)]
    judged = [method for method in board.equal if method.name in verdict.means]
    parts += [_to_the_best(board, verdict, judged, lines), tag("p", {"class": "note"}, *_note(board, verdict))]
    if len(judged) > 2:
        parts += [tag("h3", {}, "All pairs"), _pairs(verdict, judged)]
        words = f"{board.leading} of the column less that of the row, in points; point at a cell for its interval."
        marks = "" if verdict.lacking else " Bold on a tint: told apart; plain: within noise. All intervals hold at once."
        parts.append(tag("p", {"class": "note"}, words + marks))
    return join(parts)


def _to_the_best(board: Board, verdict: Verdict, judged: list[MethodResult], lines: Mapping[str, MethodLine]) -> Markup:
    best = verdict.means[verdict.best]
    reach = [limit for limits in verdict.differences.values() for limit in limits]
    extent = min(0.0, *reach), max(0.0, *reach)
    heads = ["method", "difference to the best", f"{100 * verdict.level:.4g} % interval", "", "chance of being best", "p", "verdict"]
    rows = []
    for method in judged:
        limits = verdict.differences.get(method.name)
        rows.append(
            [
                join([swatch(lines[method.name]), tag("bdi", {}, method.title)]),
                NONE if limits is None else signed(verdict.means[method.name] - best),
                NONE if limits is None else _interval(limits),
                "" if limits is None else _bar(limits, verdict.means[method.name] - best, extent, lines[method.name], board.indifferent),
                NONE if method.chance_best is None else chance_in_words(method.chance_best),
                NONE if method.p_value is None else p_value_in_words(method.p_value),
                method.standing if verdict.undecided is None or method.standing == "equal for all purposes" else NONE,
            ]
        )
    return table({"class": "differences"}, heads, rows)


def _note(board: Board, verdict: Verdict) -> list[str]:
    words = [f"In points of {board.leading}; below 0 is behind. "]
    lacking = sorted(set(verdict.lacking.values()))
    if lacking:
        words.append(f"The intervals do not hold the noise of {lacking[0]}, which cannot be known from these data. ")
    else:
        words.append("The noise of seeds and of test classes is summed; the intervals hold all at once, also after the best was picked. ")
    if board.indifferent is not None:
        words.append(f"The shaded band is what does not matter: {points(board.indifferent)} to either side.")
    return words


def _pairs(verdict: Verdict, judged: list[MethodResult]) -> Markup:
    """A triangle: each method beside all that are ahead of it."""
    heads = [tag("th", {"scope": "col"}, "")]
    heads += [tag("th", {"scope": "col", "title": method.title}, str(place)) for place, method in enumerate(judged[:-1], start=1)]
    rows = [tag("tr", {}, tag("th", {"scope": "row"}, "1 ", tag("bdi", {}, judged[0].title)), *[tag("td", {})] * (len(judged) - 1))]
    for place, method in enumerate(judged[1:], start=1):
        cells = [tag("th", {"scope": "row"}, f"{place + 1} ", tag("bdi", {}, method.title))]
        for ahead in judged[:place]:
            low, high = _pair(verdict, ahead.name, method.name)
            told = not verdict.lacking and (low > 0 or high < 0)
            title = f"{ahead.title} less {method.title}: {_interval((low, high))} points"
            lead = verdict.means[ahead.name] - verdict.means[method.name]
            cells.append(tag("td", {"class": "told" if told else False, "title": title}, f"{100 * lead:.1f}"))
        cells += [tag("td", {})] * (len(judged) - 1 - place)
        rows.append(tag("tr", {}, *cells))
    label = "Differences of all pairs of methods"
    inside = tag("table", {"class": "pairs", "aria-label": label}, tag("thead", {}, tag("tr", {}, *heads)), tag("tbody", {}, *rows))
    return tag("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": label}, inside)


def _pair(verdict: Verdict, first: str, second: str) -> Limits:
    if (first, second) in verdict.pairs:
        return verdict.pairs[first, second]
    low, high = verdict.pairs[second, first]  # equal to the last digits
    return -high, -low


def _bar(limits: Limits, mean: float, extent: Limits, line: MethodLine, indifferent: float | None) -> Markup:
    """The interval beside 0, all on one scale."""
    width, height = BAR
    low, high = extent
    span = (high - low) or 1.0

    def at(value: float) -> str:
        return f"{4 + (width - 8) * (min(max(value, low), high) - low) / span:.1f}"

    colour, middle = f"var(--m{line.colour_number})", height / 2
    band = ""
    if indifferent is not None:
        left, right = float(at(-indifferent)), float(at(indifferent))
        band = f'<rect x="{left:.1f}" width="{right - left:.1f}" y="0" height="{height}" fill="var(--rule)" opacity=".7"/>'
    parts = [
        band,
        f'<line x1="{at(0)}" x2="{at(0)}" y1="0" y2="{height}" stroke="var(--faint)"/>',
        f'<line x1="{at(limits[0])}" x2="{at(limits[1])}" y1="{middle}" y2="{middle}" stroke="{colour}" stroke-width="5"'
        ' stroke-linecap="round" opacity=".45"/>',
        f'<circle cx="{at(mean)}" cy="{middle}" r="2.8" fill="{colour}"/>',
    ]
    return Markup(f'<svg class="bar wide" viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(parts)}</svg>')


def signed(score: float) -> str:
    """A difference in points, with its sign."""
    number = f"{100 * abs(score):.2f}"
    return number if not float(number) else ("+" if score > 0 else MINUS) + number


def chance_in_words(chance: float) -> str:
    return "< 0.1 %" if chance < 0.001 else "> 99.9 %" if chance > 0.999 else f"{100 * chance:.1f} %"


def _interval(limits: Limits) -> str:
    return f"{signed(limits[0])} to {signed(limits[1])}"
