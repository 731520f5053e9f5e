"""The leaderboard of the page: a table to sort, with intervals drawn, in as many columns as the window is wide."""

from __future__ import annotations

import math
from collections.abc import Mapping

from likewise.comparison.results import Board, Estimate, MethodResult
from likewise.reports.drawing import MethodLine
from likewise.reports.markup import Markup, join, tag
from likewise.reports.sentences import interval, noise_in_words
from likewise.wording import NONE, bytes_in_words, percent, seconds_in_words

BAR = (96, 10)  # pixels
# Scores by their place: so many are always there, with their intervals; so many in a window of 54 rem, and of 74; others where asked for.
ALWAYS, IN_HALF, IN_WHOLE = 2, 5, 9
UNTUNED = "No method is marked as best: untuned values were compared. "
MARKS = {"best": "★", "leads": "★", "equal for all purposes": "=", "within noise": "≈"}


def leaderboard(board: Board, lines: Mapping[str, MethodLine]) -> Markup:
    """The methods under equal conditions, then those apart with the reason."""
    bars = (
        "Scores in %. Dot and bar: mean over seeds and its 95 % interval, over seeds and test classes together; all bars of a score "
        "are on one scale. Point at a score for its interval and its seeds. "
    )
    marks = (
        f"★ highest {board.leading}; ≈ these data do not tell it from that, with the noise of seeds and of test classes summed and the "
        "choice of the best among all methods counted in. "
    )
    marks += "= equal for all purposes. " if board.indifferent is not None else ""
    said = (marks if board.names_winner else UNTUNED) if board.equal else ""
    return join([_table(board, lines), tag("p", {"class": "note"}, bars, said, noise_in_words(board))])


def _table(board: Board, lines: Mapping[str, MethodLine]) -> Markup:
    with_p = board.names_winner and any(method.p_value is not None for method in board.equal)
    columns = {"method": "", **{name: _class_of(place) for place, name in enumerate(board.scores)}}
    columns |= {"p": "half"} if with_p else {}
    columns |= {"training": "half", "memory": "full"}
    about = {
        "p": "chance of any method's falling this far behind if all were equal",
        "training": "mean time of a training",
        "memory": "peak while training",
    }
    heads = [
        tag(
            "th",
            {"scope": "col", "class": of_class or False, "aria-sort": "descending" if name == board.leading else "none"},
            tag("button", {"type": "button", "title": about.get(name, f"sort by {name}")}, name),
        )
        for name, of_class in columns.items()
    ]
    bodies = [tag("tbody", {}, *(_row(board, method, lines[method.name], with_p=with_p) for method in board.equal))] if board.equal else []
    if board.apart:
        words = tag("th", {"scope": "rowgroup", "colspan": len(columns)}, "Not under equal conditions")
        bodies.append(tag("tbody", {"class": "between"}, tag("tr", {}, words)))
        bodies.append(tag("tbody", {}, *(_row(board, method, lines[method.name], with_p=with_p) for method in board.apart)))
    label = f"Leaderboard on {board.dataset}"
    inside = tag("table", {"class": "board", "aria-label": label}, tag("thead", {}, tag("tr", {}, *heads)), *bodies)
    more = tag(
        "label",
        {"class": "more always" if "asked" in columns.values() else "more"},
        Markup('<input type="checkbox"> '),
        "all scores, time and memory",
    )
    return tag(
        "div", {"class": "whole"}, more, tag("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": label}, inside)
    )


def _class_of(place: int) -> str:
    """From which width of the window on a score is shown."""
    return "" if place < ALWAYS else "half" if place < IN_HALF else "full" if place < IN_WHOLE else "asked"


def _row(board: Board, method: MethodResult, line: MethodLine, *, with_p: bool) -> Markup:
    cells = [_name(board, method, line), *(_score(board, place, method, line) for place in range(len(board.scores)))]
    if with_p:
        cells.append(_p_value(method))
    seconds = method.mean_seconds
    cells.append(tag("td", {"class": "half", "data-sort": "" if math.isnan(seconds) else seconds}, seconds_in_words(seconds)))
    cells.append(tag("td", {"class": "full", "data-sort": method.memory_bytes}, bytes_in_words(method.memory_bytes)))
    near = board.standing(method) in MARKS
    return tag("tr", {"data-method": line.number, "class": "near" if near else False}, *cells)


def _name(board: Board, method: MethodResult, line: MethodLine) -> Markup:
    standing = board.standing(method)
    sign = MARKS.get(standing, "")
    mark = tag("span", {"class": "mark"}, sign, tag("small", {}, standing)) if sign else ""
    why = tag("small", {"class": "reason"}, method.apart) if method.apart else ""
    small = tag("small", {}, f"{method.name} · {method.dim:,}-d")
    return tag("th", {"scope": "row", "data-sort": method.title}, swatch(line), tag("bdi", {}, method.title), mark, why, small)


def swatch(line: MethodLine) -> Markup:
    dash = {"-": "", "--": "6 3", ":": "2 3", "-.": "6 3 2 3"}[line.dashes]
    stroke = f'<line x1="1" y1="5" x2="21" y2="5" stroke="var(--m{line.colour_number})" stroke-width="3" stroke-dasharray="{dash}"/>'
    return Markup(f'<svg class="swatch" viewBox="0 0 22 10" aria-hidden="true">{stroke}</svg>')


def _score(board: Board, place: int, method: MethodResult, line: MethodLine) -> Markup:
    name = board.scores[place]
    of_class = " ".join(filter(None, ("score", _class_of(place))))
    estimate = method.scores.get(name)
    if estimate is None or math.isnan(estimate.mean):
        return tag("td", {"class": of_class, "data-sort": ""}, NONE)
    parts = [tag("strong" if name == board.leading else "span", {}, percent(estimate.mean))]
    if place < ALWAYS:
        known = [other.scores[name] for other in board.methods if name in other.scores and not math.isnan(other.scores[name].mean)]
        parts.append(_bar(estimate, known, line))
        parts += [tag("small", {}, interval(estimate))] if estimate.low is not None else []
    published = method.published.get(name)
    parts += [tag("small", {"class": "paper"}, f"paper {percent(published, digits=1)}")] if published is not None else []
    seeds = ", ".join(percent(value) for value in estimate.values)
    in_full = f"{interval(estimate)}; seeds {seeds}"
    in_full += "" if estimate.deviation is None else f"; standard deviation {percent(estimate.deviation)}"
    return tag("td", {"class": of_class, "data-sort": estimate.mean, "title": in_full}, *parts)


def _bar(estimate: Estimate, known: list[Estimate], line: MethodLine) -> Markup:
    """The interval on the scale of its column."""
    width, height = BAR
    limits = [limit for other in known for limit in (other.low, other.mean, other.high) if limit is not None]
    low, high = min(limits), max(limits)
    span = (high - low) or 1.0

    def at(value: float) -> str:
        return f"{4 + (width - 8) * (value - low) / span:.1f}"

    colour, middle = f"var(--m{line.colour_number})", height / 2
    parts = [f'<line x1="4" x2="{width - 4}" y1="{middle}" y2="{middle}" stroke="var(--rule)"/>']
    if estimate.low is not None and estimate.high is not None:
        parts.append(
            f'<line x1="{at(estimate.low)}" x2="{at(estimate.high)}" y1="{middle}" y2="{middle}" stroke="{colour}" stroke-width="5"'
            ' stroke-linecap="round" opacity=".45"/>'
        )
    parts.append(f'<circle cx="{at(estimate.mean)}" cy="{middle}" r="2.8" fill="{colour}"/>')
    return Markup(f'<svg class="bar" viewBox="0 0 {width} {height}" aria-hidden="true">{"".join(parts)}</svg>')


def p_value_in_words(p_value: float) -> str:
    return "< 0.001" if p_value < 0.001 else f"{p_value:.3f}"


def _p_value(method: MethodResult) -> Markup:
    if method.p_value is None:
        return tag("td", {"class": "half", "data-sort": 2}, NONE)
    return tag("td", {"class": "half", "data-sort": method.p_value}, p_value_in_words(method.p_value))
