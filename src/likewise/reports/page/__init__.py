"""The report as one HTML file that needs nothing but itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from likewise.comparison.baselines import BASELINES
from likewise.comparison.results import Board, ComparisonResults, TestItems, read_vectors
from likewise.comparison.sweeping.sweeps import point_in_words
from likewise.configuration import with_settings
from likewise.methods import METHODS, load_method
from likewise.reports.charts import (
    cost_chart,
    critical_difference_chart,
    power_chart,
    recall_chart,
    training_charts,
    validation_chart,
    weight_charts,
    weights_note,
)
from likewise.reports.drawing import SMALL, Chart, MethodLine, inline, method_lines
from likewise.reports.embedding_map import embedding_map
from likewise.reports.markup import Markup, data_island, escape, join, tag
from likewise.reports.method_curves import PairCurves, pair_curves
from likewise.reports.page.conditions_html import equal_section, guard_section, origin_section, time_section, tuned_section, use_section
from likewise.reports.page.differences_html import differences
from likewise.reports.page.examples_html import items_data, lists_section, make_sprite, map_section, shown_items
from likewise.reports.page.leaderboard_html import leaderboard, swatch
from likewise.reports.page.sweeps_html import sweeps_section
from likewise.reports.ranked_lists import ranked_lists
from likewise.reports.sentences import (
    conditions_in_words,
    gain_in_words,
    headline,
    hits_in_words,
    levels_in_words,
    look_in_words,
    time_in_words,
)
from likewise.reports.sweep_charts import sweep_charts
from likewise.reports.tuning_charts import best_after_chart, rate_charts
from likewise.wording import count_of

MOST_SPRITE_BYTES = 5_000_000  # of all data sets together; a third more in the page


@dataclass(frozen=True)
class Section:
    """A part of the page; `name` is its address in it and `of` the data set it is about, empty for all."""

    name: str
    title: str
    body: Markup
    of: str = ""


@dataclass(frozen=True)
class Shared:
    """What every part of the page needs to know."""

    results: ComparisonResults
    lines: Mapping[str, MethodLine]
    titles: Mapping[str, str]  # by method
    curves: Mapping[str, PairCurves | str]  # by method: its weights, or why there are none

    @staticmethod
    def of(results: ComparisonResults) -> Shared:
        if not results.methods:
            raise ValueError("the comparison has no results to report: expected at least one finished method; run it to the end first")
        titles = {method.name: method.title for method in results.methods}
        used = {method.name: method for method in results.used}
        curves: dict[str, PairCurves | str] = {}
        for name in titles:
            if name not in BASELINES and (name in used or name in METHODS):
                settings = next(result.settings for result in results.methods if result.name == name)
                curves[name] = pair_curves(with_settings(used.get(name) or load_method(name), settings))
        return Shared(results, method_lines(list(titles)), titles, curves)


def report_page(shared: Shared) -> str:
    results, boards = shared.results, shared.results.boards
    sections: list[Section] = []
    data: dict[str, Any] = {}
    sprites: list[str] = []
    ranks = critical_difference_chart(results, shared.titles, shared.lines)
    if ranks:
        words = "Rank 1 is best. A bar joins methods whose average ranks over the data sets differ by less than the critical difference "
        words += "(Nemenyi, 5 %)."
        if (results.critical_difference or 0.0) > len(results.average_ranks) - 1:
            words += " With so few data sets it is more than any two ranks can differ by: this test cannot tell any methods apart."
        sections.append(_section("ranks", "Average ranks", _charts(ranks, "ranks"), tag("p", {"class": "note"}, words)))
    for number, board in enumerate(boards):
        sections += _board_sections(shared, board, number)
        items = results.items.get(board.dataset)
        if items is not None:
            examples, known, rule = _examples(shared, board, items, number, MOST_SPRITE_BYTES // len(boards))
            sections += examples
            data |= known
            sprites.append(rule)
        sections.append(
            _section("tuning", "What was tuned", tuned_section(board, results), _tuning_charts(shared, board, number), of=board.dataset)
        )
    sections += _closing_sections(shared)
    return framed(
        results.title,
        _body(results, boards, sections),
        data_island("data", {"items": data}),
        sprites="\n".join(sprites),
        script=_file("page.js"),
    )


def framed(title: str, body: Markup, data: Markup, *, sprites: str = "", script: str = "") -> str:
    """A whole page: its body in the frame and the style that all pages share."""
    parts = {"title": escape(title), "style": _file("page.css"), "sprites": sprites, "body": body, "data": data, "script": script}
    before, *pieces = _file("page.html").split("{{")  # all at once: what one part holds is never taken for the place of another
    for piece in pieces:
        name, _, rest = piece.partition("}}")
        before += parts[name] + rest
    return before


def _body(results: ComparisonResults, boards: Sequence[Board], sections: Sequence[Section]) -> Markup:
    several = len(boards) > 1
    links = [tag("a", {"href": f"#{name}"}, name) for name in dict.fromkeys(section.name for section in sections)]
    theme = tag("button", {"type": "button", "id": "theme", "hidden": True}, "dark")
    facts = f"{conditions_in_words(results)} {results.created[:16].replace('T', ' ')}"
    facts += f", {time_in_words(results)}." if results.time_spent else "."
    header = tag(
        "header",
        {},
        tag("h1", {}, results.title),
        *(tag("p", {"class": "plain"}, words) for words in (hits_in_words(results, board) for board in boards) if words),
        *(
            tag("p", {"class": "headline"}, " ".join(filter(None, (headline(board), gain_in_words(board), look_in_words(results, board)))))
            for board in boards
        ),
        tag("p", {"class": "under"}, facts),
    )
    choice = ""
    if several:
        buttons = [
            tag("button", {"type": "button", "data-dataset": board.dataset, "aria-pressed": "false"}, board.dataset) for board in boards
        ]
        choice = tag("div", {"class": "choice", "role": "group", "aria-label": "data set"}, "Data set: ", *buttons)
    seen: set[str] = set()
    written = []
    for section in sections:
        title = f"{section.title}: {section.of}" if section.of and several else section.title
        attributes: dict[str, str | float | bool] = {"id": section.name} if section.name not in seen else {}
        if section.of and several:
            attributes["data-of"] = section.of
            attributes.pop("id", None)
            if section.name not in seen:
                written.append(tag("span", {"id": section.name}))  # the address of whichever data set is shown
        seen.add(section.name)
        written.append(tag("section", attributes, tag("h2", {}, title), section.body))
    nav = tag("nav", {"aria-label": "sections"}, tag("div", {}, tag("div", {"class": "links"}, *links), theme))
    footer = tag("footer", {}, "Made by likewise. This file needs no network: keep it, mail it, open it anywhere.")
    return join([header, nav, tag("main", {}, choice, *written), footer])


def _board_sections(shared: Shared, board: Board, number: int) -> list[Section]:
    results, lines = shared.results, shared.lines
    at = point_in_words(board.point)
    note = tag("p", {}, f"All trainings belong to a sweep; this is the board at {at}.") if at else ""
    of_levels = [tag("p", {}, words) for words in levels_in_words(results, board)]
    sections = [_section("leaderboard", "Leaderboard", note, leaderboard(board, lines), *of_levels, of=board.dataset)]
    if board.names_winner and board.verdict is not None and len(board.verdict.means) > 1:
        power = power_chart(board)
        detectable = _charts(power, f"power-{number}") if power else ""
        inside = differences(results, board, lines)
        sections.append(_section("differences", "Is the difference real?", inside, detectable, of=board.dataset))
    drawn = sweep_charts(results, board, lines)
    if drawn or any(entry.dataset == board.dataset for entry in results.swept):
        charts = [_key(shared, board), _charts(drawn, f"sweeps-{number}")] if drawn else []
        sections.append(_section("sweeps", "What settings change", *charts, sweeps_section(results, board, lines), of=board.dataset))
    curves = cost_chart(board, lines) + recall_chart(board, lines) + validation_chart(board, lines)
    if curves:
        words = "Bands are 95 % intervals. Point at a method above to see its lines alone, click to keep it so."
        note = tag("p", {"class": "note"}, words)
        sections.append(_section("curves", "Curves", _key(shared, board), _charts(curves, f"curves-{number}"), note, of=board.dataset))
    training = training_charts(board, lines)
    if training:
        words = "A line for each seed. Losses are not on one scale: only a method's own seeds can be compared."
        note = tag("p", {"class": "note"}, words)
        sections.append(_section("loss", "Training loss", _charts(training, f"training-{number}"), note, of=board.dataset))
    return sections


def _examples(shared: Shared, board: Board, items: TestItems, number: int, most_bytes: int) -> tuple[list[Section], dict[str, Any], str]:
    """Map and ranked lists of one data set, what the script needs for them, and the style rule that holds their thumbnails."""
    vectors = read_vectors(board.methods, items)
    methods = [method for method in board.methods if method.name in vectors]
    if not methods:
        return [], {}, ""
    metric = shared.results.protocol.get("compared_by", "cosine")
    shown_map, lists = embedding_map(methods, vectors, items.labels), ranked_lists(vectors, items, metric=metric)
    shown, key = shown_items(shown_map, lists), str(number)
    sprite = None if items.thumbnails is None else make_sprite(items.thumbnails, shown, most_bytes=most_bytes)
    rule = ""
    if sprite is not None:
        size = f"calc({sprite.columns} * var(--w)) calc({sprite.rows} * var(--w))"
        rule = f'[data-items="{key}"] .thumb {{ background-image: url("{sprite.uri}"); background-size: {size}; }}'
    sections = [_section("map", "Map of the test items", map_section(shown_map, methods, items, key=key), of=board.dataset)]
    if lists is not None:
        inside = lists_section(lists, methods, items, lines=shared.lines, shown=shown, sprite=sprite, key=key)
        sections.append(_section("lists", "Ranked lists", inside, of=board.dataset))
    return sections, {key: items_data(items, shown, shown_map, sprite)}, rule


def _tuning_charts(shared: Shared, board: Board, number: int) -> Markup:
    parts: list[str] = []
    by_rate = rate_charts(board, shared.lines)
    if by_rate:
        words = (
            "MAP@R on held-out training classes; the filled dot was chosen, a cross is a trial that failed. Dots are joined where nothing "
            "but the rate differs. A best rate at either end might have a better one beyond it."
        )
        parts += [tag("h3", {}, "Score against rate"), _charts(by_rate, f"rates-{number}"), tag("p", {"class": "note"}, words)]
    after = best_after_chart(board, shared.lines)
    if after:
        words = "Lines that still rise at the end belong to methods that further trials might raise; where lines cross, the budget decides."
        parts += [_key(shared, board), _charts(after, f"after-{number}"), tag("p", {"class": "note"}, words)]
    return join(parts)


def _closing_sections(shared: Shared) -> list[Section]:
    results = shared.results
    sections = []
    charts = weight_charts(shared.curves, shared.titles)
    without = [(name, words) for name, words in shared.curves.items() if isinstance(words, str)]
    if charts or without:
        legend = Markup(
            '<p><span class="legend-line" style="border-color:var(--positive)"></span>positive pair '
            '<span class="legend-line" style="border-color:var(--negative);border-top-style:dotted"></span>negative pair</p>'
        )
        words = (
            "A loss is a choice of weights for pairs: how strongly a pair pulls or pushes, against its similarity. " + weights_note() + " "
            "Linear up to 1, logarithmic beyond."
        )
        reasons = [tag("li", {}, tag("b", {}, shared.titles[name]), ": ", reason) for name, reason in without]
        body = [_charts(charts, "weights"), tag("p", {"class": "note"}, words)] if charts else []
        sections.append(
            _section("weights", "Weights of pairs", legend, *body, tag("ul", {"class": "reasons"}, *reasons) if reasons else "")
        )
    sections.append(_section("conditions", "What was equal", equal_section(results)))
    sections.append(_section("guard", "Looks at the test classes", guard_section(results)))
    if results.notes:
        sections.append(_section("notes", "Notes", tag("ul", {"class": "notes"}, *(tag("li", {}, note) for note in results.notes))))
    if results.best:
        sections.append(_section("use", "Put it to work", use_section(results)))
    origin = tag("div", {}, tag("h3", {}, "Command and versions"), origin_section(results))
    spent = tag("div", {}, tag("h3", {}, "Time spent"), time_section(results)) if results.time_spent else ""
    sections.append(_section("repeat", "How to repeat it", tag("div", {"class": "columns"}, origin, spent)))
    return sections


def _key(shared: Shared, board: Board) -> Markup:
    """Which line is which method's."""
    names = dict.fromkeys(method.name for method in board.methods)
    buttons = []
    for name in names:
        line = shared.lines[name]
        attributes: dict[str, str | float | bool] = {"type": "button", "data-method": line.number, "aria-pressed": "false"}
        buttons.append(tag("li", {}, tag("button", attributes, swatch(line), tag("bdi", {}, shared.titles[name]))))
    return tag("ul", {"class": "key", "aria-label": count_of(len(names), "method", "methods")}, *buttons)


def _charts(charts: Sequence[Chart], name: str) -> Markup:
    drawn = []
    for i, chart in enumerate(charts):
        caption = tag("figcaption", {}, chart.title, tag("small", {}, chart.note) if chart.note else "") if chart.title else ""
        drawn.append(tag("figure", {}, caption, inline(chart, name=f"{name}-{i}")))
    small = charts[0].size == SMALL
    return tag("div", {"class": "charts small" if small else "charts"}, *drawn)


def _section(name: str, title: str, *parts: str, of: str = "") -> Section:
    return Section(name, title, join(parts), of)


def _file(name: str) -> str:
    return (files("likewise.reports.page") / name).read_text(encoding="utf-8")
