"""The card of an adaptation: what pays, the ladder, the scores, how to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from likewise.adaptation.answer import outcome_in_words, signed
from likewise.adaptation.ladder import Step
from likewise.adaptation.rungs import FEATURES, RUNGS
from likewise.addresses import command_line
from likewise.wording import NONE, count_of, percent, seconds_in_words

if TYPE_CHECKING:
    from likewise.adaptation.adapt import Adaptation

COLUMNS = ("rung", "MAP@R", "before", "gain", "95 % interval", "time", "counts?")  # on held-out training classes


def rows(steps: tuple[Step, ...]) -> list[tuple[str, ...]]:
    """A row of texts for each rung."""
    return [_row(step, steps[0].repeats) for step in steps]


def what_the_columns_are(steps: tuple[Step, ...]) -> str:
    """For above the table."""
    draws = f", means of {count_of(steps[0].repeats, 'draw', 'draws')} of folds" if steps[0].repeats else ""
    return (
        f"MAP@R on held-out training classes, in percent{draws}; before: the best rung above it, on the same folds; gain: the difference, "
        "with its interval"
    )


def card_text(result: Adaptation, data: str) -> str:
    lines = [
        f"# {result.chosen[:1].upper()}{result.chosen[1:]} on {data}",
        "",
        f"{result.sentence[:1].upper()}{result.sentence[1:]}",
        "",
        f"{what_the_columns_are(result.ladder.steps)}:",
        "",
        *_table(COLUMNS, rows(result.ladder.steps)),
        "",
    ]
    if result.scores:
        names = list(result.scores)
        scored = [("as they are", *(percent(result.as_they_are[name], digits=1) for name in names))]
        if result.ladder.chosen != FEATURES:
            scored.append((result.chosen, *(percent(result.scores[name], digits=1) for name in names)))
        lines += [*_table(("test classes, %", *names), scored), ""]
    if result.look is not None:
        lines += [f"{result.look.in_words[:1].upper()}{result.look.in_words[1:]} (`test_openings.jsonl`).", ""]
    lines += [*(f"- note: {note}" for note in result.notes), "", "```sh", command_line(), "```", ""]
    lines += ["Use it: `likewise embed . DATA -o vectors.npz`, or in Python `likewise.Embedder.load(folder).embed(paths)`.", ""]
    return "\n".join(lines)


def _row(step: Step, of_repeats: int) -> tuple[str, ...]:
    way = f" ({step.setting.in_words})" if step.setting.in_words else ""
    title = RUNGS[step.rung].title.removeprefix("the ").removeprefix("a ")
    return (
        f"{title}{way}",
        *(NONE if score is None else percent(score, digits=1) for score in (step.score, step.before)),
        NONE if step.gain is None else signed(step.gain),
        NONE if step.gain_interval is None else " to ".join(map(signed, step.gain_interval)),
        NONE if step.score is None else seconds_in_words(step.seconds),
        outcome_in_words(step, of_repeats),
    )


def _table(header: tuple[str, ...], body: list[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}", *(f"| {' | '.join(row)} |" for row in body)]
