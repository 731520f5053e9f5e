"""The answer: what a ladder found, in one sentence."""

from __future__ import annotations

from likewise.adaptation.judgement import Judgement
from likewise.adaptation.ladder import Ladder, Step
from likewise.adaptation.rungs import FEATURES, RUNGS
from likewise.wording import listed


def what_pays(ladder: Ladder, *, device: str) -> str:
    """ "what pays here: within-class whitening (+1.2 points of MAP@R over the features as they are on held-out ...); ..." """
    steps = {step.rung: step for step in ladder.steps}
    later = list(RUNGS)[1 + list(RUNGS).index(ladder.chosen) :]
    judged = [step for step in ladder.steps if step.outcome in ("counts", "nothing", "harms")]
    if ladder.gain is None and not judged:
        clauses = ["what pays here cannot be told, and the features stay as they are"]
    elif ladder.gain is None:
        clauses = ["nothing pays here beyond the features as they are"]
    else:
        clauses = [f"what pays here: {RUNGS[ladder.chosen].title} ({gain_in_words(ladder.gain)})"]
    for outcome, one, many in (
        ("nothing", "adds nothing beyond noise", "add nothing beyond noise"),
        ("harms", "makes it worse", "make it worse"),
        ("cannot tell", "cannot be judged on so few classes", "cannot be judged on so few classes"),
    ):
        titles = [RUNGS[name].title for name in later if name in steps and steps[name].outcome == outcome]
        if titles:
            clauses.append(f"{listed(titles)} {one if len(titles) == 1 else many}")
    clauses += _not_tried([steps[name] for name in later if name in steps], device)
    return "; ".join(clauses) + "."


def gain_in_words(gain: Judgement) -> str:
    over = f"{signed(gain.gain)} points of MAP@R over {RUNGS[FEATURES].title} on held-out training classes"
    return f"{over}, 95 % interval {signed(gain.low)} to {signed(gain.high)}"


def signed(gain: float) -> str:
    """ "+1.2", in points."""
    return f"{100 * gain:+.1f}"


def about(seconds: float) -> str:
    """ "about 40 min"."""
    if seconds < 90:
        return f"about {max(1, round(seconds))} s"
    return f"about {round(seconds / 60)} min" if seconds < 5400 else f"about {seconds / 3600:.0f} h"


def outcome_in_words(step: Step, of_repeats: int) -> str:
    """Whether it counts, for a table; and whether it was given up before it was scored on all draws of folds."""
    if step.outcome == "no time":
        return f"not tried: would take {about(step.seconds)}"
    if step.outcome == "impossible":
        return f"not possible: {step.reason}"
    words = {
        "start": "the start",
        "counts": "counts",
        "nothing": "no gain beyond noise",
        "harms": "worse",
        "cannot tell": "too few classes to tell",
    }[step.outcome]
    return f"{words}: given up after {step.repeats} of {of_repeats} draws" if step.repeats < of_repeats else words


def _not_tried(steps: list[Step], device: str) -> list[str]:
    """ "fine-tuning was not tried: it would take about 40 min for the last stage and about 2 h for the whole network on this CPU"."""
    where = "this CPU" if device == "cpu" else "this GPU"
    late = [step for step in steps if step.outcome == "no time"]
    clauses = [
        f"{RUNGS[step.rung].title} was not tried: it would take {about(step.seconds)} on {where}"
        for step in late
        if not RUNGS[step.rung].changes_backbone
    ]
    tuned = [f"{about(step.seconds)} {RUNGS[step.rung].part}" for step in late if RUNGS[step.rung].changes_backbone]
    return [*clauses, *([f"fine-tuning was not tried: it would take {listed(tuned)} on {where}"] if tuned else [])]
