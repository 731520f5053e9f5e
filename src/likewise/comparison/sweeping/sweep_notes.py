"""Notes on sweeps: who takes no part, who could not be there, and what was done otherwise to fit a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from likewise.comparison.plan import Plan
from likewise.comparison.results import MethodResult
from likewise.comparison.sweeping.sweeps import Sweeps, names_in, point_in_words, points_of, why_absent
from likewise.comparison.sweeping.swept_methods import LeftOut
from likewise.methods import Method
from likewise.wording import listed


def absence_notes(sweeps: Sweeps, methods: Sequence[Method]) -> list[str]:
    """Which methods take no part in a sweep, and why."""
    notes = []
    for sweep, values in sweeps.items():
        reasons: dict[str, list[str]] = {}
        for method in methods:
            why = {why_absent(method, point_in_words(settings)) for settings in points_of(sweep, values)}
            if "" not in why:
                reasons.setdefault(min(why), []).append(method.title)
        notes += [f"the sweep over {listed(names_in(sweep))} is without {listed(titles)}: {why}" for why, titles in reasons.items()]
    return notes


def left_out_notes(plan: Plan, left_out: Sequence[LeftOut]) -> list[str]:
    """What could not be trained or scored at a point; whoever takes no part in a whole sweep is noted from the start."""
    titles: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for entry in left_out:
        if entry.point and (entry.method, entry.point) in plan.places:
            titles[entry.dataset, entry.point, entry.why].append(entry.title)
    return [f"{data} {point} is without {listed(named)}: {why}" for (data, point, why), named in titles.items()]


def adapted_notes(methods: Sequence[MethodResult]) -> list[str]:
    """Who does something otherwise to fit a batch."""
    titles: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for result in methods:
        if result.adapted:
            titles[result.dataset, point_in_words(result.sweep), result.adapted].append(result.title)
    return [
        f"{' '.join(filter(None, (data, point)))}: {listed(named)} with {adapted}, to fit the batch"
        for (data, point, adapted), named in titles.items()
    ]
