"""How the figures came about, for the page: what was equal, what was tuned, the guard's record, versions, command, time."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from likewise.comparison.results import Board, ComparisonResults
from likewise.reports.markup import Markup, join, table, tag
from likewise.reports.sentences import how_to_embed, is_of_vectors, look_in_words, tuning_in_words
from likewise.wording import NONE, count_of, seconds_in_words

HANDED_OUT = ("opened", "resumed")  # events of the guard in which somebody saw the test classes


def equal_section(results: ComparisonResults) -> Markup:
    parts = [table({"class": "facts"}, ("condition", "the same for every method"), results.equal.items())]
    if results.protocol:
        inside = table({"class": "facts"}, ("field", "value"), ((name, value_in_words(value)) for name, value in results.protocol.items()))
        parts.append(tag("details", {}, tag("summary", {}, "The whole protocol"), inside))
    return join(parts)


def tuned_section(board: Board, results: ComparisonResults) -> Markup:
    """Tuned values beside those of the method files."""
    rows = []
    for method in board.methods:
        for name, value in method.settings.items():
            default = value_in_words(method.defaults[name]) if name in method.defaults else NONE
            best = max((trial.score for trial in method.trials if trial.score is not None), default=None)
            rows.append((method.title, tag("code", {}, name), tag("b", {}, value_in_words(value)), default, _percent(best)))
    if not rows:
        return tag("p", {}, "Nothing was tuned: every method ran with the values of its file.")
    heads = ("method", "setting", "tuned to", "in the method file", "best MAP@R on the folds, %")
    words = tuning_in_words(results)
    words = f"{words[:1].upper()}{words[1:]}. Scored by MAP@R on classes that the trial was not trained on."
    return join([tag("p", {}, words), table({"class": "facts"}, heads, rows)])


def guard_section(results: ComparisonResults) -> Markup:
    """Which look at the test classes this is, and every opening of them."""
    looks = (
        tag("p", {}, *([tag("bdi", {}, board.dataset), ": "] if len(results.boards) > 1 else []), look_in_words(results, board))
        for board in results.boards
        if board.dataset in results.looks
    )
    fault = tag("p", {"class": "fault"}, f"{results.record_fault[:1].upper()}{results.record_fault[1:]}.") if results.record_fault else ""
    return join([*looks, fault, _openings(results)])


def _openings(results: ComparisonResults) -> Markup:
    record = results.guard_record
    if not record:
        return tag("p", {}, "The record is empty." if results.record_fault else "The record is empty: the test classes were never opened.")
    handed_out = [entry for entry in record if entry.get("event", "opened") in HANDED_OUT]
    refused = [entry for entry in record if entry.get("event") == "refused"]
    words = f"The test classes were opened {count_of(len(handed_out), 'time', 'times')}"
    words += f", the first time {handed_out[0].get('time', '')}." if handed_out else "."
    if refused:
        words += f" {count_of(len(refused), 'request was', 'requests were')} refused."
    names = list(dict.fromkeys(name for entry in record for name in entry))
    rows = ([str(i + 1), *(value_in_words(entry.get(name, "")) for name in names)] for i, entry in enumerate(record))
    inside = table({"class": "facts record"}, ("", *names), rows)
    return join([tag("p", {}, words), tag("details", {}, tag("summary", {}, f"All {len(record):,} entries of the record"), inside)])


def time_section(results: ComparisonResults) -> Markup:
    total = sum(results.time_spent.values())
    rows = [(kind, seconds_in_words(seconds), f"{100 * seconds / total:.1f} %") for kind, seconds in results.time_spent.items()]
    rows.append((f"together, in {count_of(results.jobs, 'job', 'jobs side by side')}", seconds_in_words(total), ""))
    rows.append(("by the clock", seconds_in_words(results.elapsed), ""))
    return table({"class": "facts"}, ("work", "time", "share"), rows)


def origin_section(results: ComparisonResults) -> Markup:
    added: list[Markup] = []
    for extension in results.extensions:
        when = extension.time[:16].replace("T", " ")
        added += [tag("p", {}, f"and on {when}, to add to it:"), command_line(extension.command)]
    return join([command_line(results.command), *added, table({"class": "facts"}, ("software", "version"), results.versions.items())])


def use_section(results: ComparisonResults) -> Markup:
    """How to put the best method to work. Addressed from the page's own folder, which may be moved as a whole."""
    which = "The best method's first seed" if results.names_winner else "The first seed of the first method in the table"
    parts = [tag("p", {}, f"{which} lies in the folder of this page, ready to be used there:")]
    for data, place in results.best.items():
        winner = results.board(data).winner
        if winner is not None:
            parts.append(tag("p", {}, tag("b", {}, winner.title), " on ", tag("bdi", {}, data)))
            parts.append(command_line(how_to_embed(Path(place.name), vectors=is_of_vectors(results, data))))
    return join(parts)


def value_in_words(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{name} {value_in_words(entry)}" for name, entry in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(value_in_words(entry) for entry in value)
    return str(value)


def _percent(score: float | None) -> str:
    return NONE if score is None else f"{100 * score:.2f}"


def command_line(words: str) -> Markup:
    """A command line, to be copied."""
    copy = tag("button", {"type": "button", "class": "copy"}, "copy")
    return tag("div", {"class": "command"}, tag("code", {}, words), copy)
