"""The leaderboard of the page: a table to sort, with intervals drawn."""

from __future__ import annotations

import math
from collections.abc import Mapping

from likewise.comparison.results import Board, Estimate, MethodResult
from likewise.reports.drawing import MethodLine
from likewise.reports.markup import Markup, join, tag
from likewise.reports.sentences import interval, noise_in_words
from likewise.wording import NONE, bytes_in_words, percent, seconds_in_words

BAR = (96, 10)  # pixels
UNTUNED = "No method is marked as best: untuned values were compared. "
MARKS = {"best": "★", "leads": "★", "equal for all purposes": "=", "within noise": "≈"}


def leaderboard(board: Board, lines: Mapping[str, MethodLine]) -> Markup:
    """The methods under equal conditions, then those apart with the reason."""
    parts = []
    if board.equal:
        parts.append(_table(board, board.equal, lines))
        bars = (
            "Scores in %. Dot and bar: mean over seeds and its 95 % interval, over seeds and test classes together; all bars of a score "
            "are on one scale. "
        )
        marks = (
            f"★ highest {board.leading}; ≈ these data do not tell it from that, with the noise of seeds and of test classes summed and the "
            "choice of the best among all methods counted in. "
        )
        marks += "= equal for all purposes. " if board.indifferent is not None else ""
        parts.append(tag("p", {"class": "note"}, bars, marks if board.names_winner else UNTUNED, noise_in_words(board)))
    if board.apart:
        parts.append(tag("h3", {}, "Not under equal conditions"))
        parts.append(_table(board, board.apart, lines))
    return join(parts)


def _table(board: Board, methods: tuple[MethodResult, ...], lines: Mapping[str, MethodLine]) -> Markup:
    is_apart = bool(methods[0].apart)
    with_p = board.names_winner and any(method.p_value is not None for method in methods) and not is_apart
    heads = ["method", *(["apart because"] if is_apart else []), *board.scores, *(["p"] if with_p else []), "training", "memory"]
    about = {
        "p": "chance of any method's falling this far behind if all were equal",
        "training": "mean time of a training",
        "memory": "peak while training",
    }
    cells = [
        tag(
            "th",
            {"scope": "col", "aria-sort": "descending" if name == board.leading else "none"},
            tag("button", {"type": "button", "title": about.get(name, f"sort by {name}")}, name),
        )
        for name in heads
    ]
    rows = []
    for method in methods:
        line = lines[method.name]
        row = [_name(board, method, line)]
        if is_apart:
            row.append(tag("td", {"class": "reason", "data-sort": method.apart}, method.apart))
        row += [_score(board, name, method, line) for name in board.scores]
        if with_p:
            row.append(_p_value(method))
        seconds = method.mean_seconds
        row.append(tag("td", {"data-sort": "" if math.isnan(seconds) else seconds}, seconds_in_words(seconds)))
        row.append(tag("td", {"data-sort": method.memory_bytes}, bytes_in_words(method.memory_bytes)))
        near = board.standing(method) in MARKS
        rows.append(tag("tr", {"data-method": line.number, "class": "near" if near else False}, *row))
    label = "Methods not under equal conditions" if is_apart else f"Leaderboard on {board.dataset}"
    inside = tag("table", {"class": "board", "aria-label": label}, tag("thead", {}, tag("tr", {}, *cells)), tag("tbody", {}, *rows))
    return tag("div", {"class": "scroll", "tabindex": 0, "role": "region", "aria-label": label}, inside)


def _name(board: Board, method: MethodResult, line: MethodLine) -> Markup:
    standing = board.standing(method)
    sign = MARKS.get(standing, "")
    mark = tag("span", {"class": "mark"}, sign, tag("small", {}, standing)) if sign else ""
    small = tag("small", {}, f"{method.name} · {method.dim:,}-d")
    return tag("th", {"scope": "row", "data-sort": method.title}, swatch(line), tag("bdi", {}, method.title), mark, small)


def swatch(line: MethodLine) -> Markup:
    dash = {"-": "", "--": "6 3", ":": "2 3", "-.": "6 3 2 3"}[line.dashes]
    stroke = f'<line x1="1" y1="5" x2="21" y2="5" stroke="var(--m{line.colour_number})" stroke-width="3" stroke-dasharray="{dash}"/>'
    return Markup(f'<svg class="swatch" viewBox="0 0 22 10" aria-hidden="true">{stroke}</svg>')


def _score(board: Board, name: str, method: MethodResult, line: MethodLine) -> Markup:
    estimate = method.scores.get(name)
    if estimate is None or math.isnan(estimate.mean):
        return tag("td", {"class": "score", "data-sort": ""}, NONE)
    known = [other.scores[name] for other in board.methods if name in other.scores and not math.isnan(other.scores[name].mean)]
    leads = name == board.leading
    number = tag("strong" if leads else "span", {}, percent(estimate.mean))
    spread = tag("small", {}, interval(estimate)) if leads and estimate.low is not None else ""
    published = method.published.get(name)
    paper = tag("small", {"class": "paper"}, f"paper {percent(published, digits=1)}") if published is not None else ""
    seeds = ", ".join(percent(value) for value in estimate.values)
    in_full = f"{interval(estimate)}; seeds {seeds}"
    in_full += "" if estimate.deviation is None else f"; standard deviation {percent(estimate.deviation)}"
    return tag("td", {"class": "score", "data-sort": estimate.mean, "title": in_full}, number, _bar(estimate, known, line), spread, paper)


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
        return tag("td", {"data-sort": 2}, NONE)
    return tag("td", {"data-sort": method.p_value}, p_value_in_words(method.p_value))
