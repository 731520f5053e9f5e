"""The card of an adaptation: what pays, the ladder, the scores, how to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from likewise.adaptation.answer import outcome_in_words, points
from likewise.adaptation.ladder import Step
from likewise.adaptation.rungs import RUNGS
from likewise.training.run_folder import command_line
from likewise.wording import NONE, percent, seconds_in_words

if TYPE_CHECKING:
    from likewise.adaptation.adapt import Adaptation

COLUMNS = ("rung", "MAP@R", "95 % interval", "gain", "time", "counts?")  # on held-out training classes


def rows(steps: tuple[Step, ...]) -> list[tuple[str, ...]]:
    """A row of texts for each rung."""
    return [_row(step) for step in steps]


def card_text(result: Adaptation, data: str) -> str:
    lines = [
        f"# {result.chosen[:1].upper()}{result.chosen[1:]} on {data}",
        "",
        f"{result.sentence[:1].upper()}{result.sentence[1:]}",
        "",
        "MAP@R on held-out training classes, in percent:",
        "",
        *_table(COLUMNS, rows(result.ladder.steps)),
        "",
    ]
    if result.scores:
        names = list(result.scores)
        scored = [
            ("as they are", *(percent(result.as_they_are[name], digits=1) for name in names)),
            (result.chosen, *(percent(result.scores[name], digits=1) for name in names)),
        ]
        lines += [*_table(("test classes, %", *names), scored), ""]
    if result.look is not None:
        lines += [f"{result.look.in_words[:1].upper()}{result.look.in_words[1:]} (`test_openings.jsonl`).", ""]
    lines += [*(f"- note: {note}" for note in result.notes), "", "```sh", command_line(), "```", ""]
    lines += ["Use it: `likewise embed . DATA -o vectors.npz`, or in Python `likewise.Embedder.load(folder).embed(paths)`.", ""]
    return "\n".join(lines)


def _row(step: Step) -> tuple[str, ...]:
    way = f" ({step.setting.in_words})" if step.setting.in_words else ""
    title = RUNGS[step.rung].title.removeprefix("the ").removeprefix("a ")
    interval = NONE if step.interval is None else " to ".join(percent(limit, digits=1) for limit in step.interval)
    return (
        f"{title}{way}",
        NONE if step.score is None else percent(step.score, digits=1),
        interval,
        NONE if step.gain is None else points(step.gain).removesuffix(" points"),
        NONE if step.score is None else seconds_in_words(step.seconds),
        outcome_in_words(step),
    )


def _table(header: tuple[str, ...], body: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {' | '.join(row)} |" for row in body)]
