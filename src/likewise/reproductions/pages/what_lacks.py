"""What was not run: each part with what it needs and how long it takes, and all of them summed up by what they need."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from likewise.reproductions.paper_item import PaperItem, PaperPart
from likewise.reproductions.reproduction import ItemResult
from likewise.wording import count_of

MINUTES_SAID = 90  # up to which time is said in minutes


@dataclass(frozen=True)
class Lack:
    """A need that parts share."""

    needs: str
    places: tuple[str, ...]  # items, by name
    num_parts: int
    gpu_minutes: float  # of an H200, a seed of all of them
    cpu_minutes: float  # of one core

    @property
    def in_words(self) -> str:
        """ "4 parts of 3 tables and figures, about 2.5 hours of an H200 a seed"."""
        where = count_of(len(self.places), "table or figure", "tables and figures")
        words = [f"{count_of(self.num_parts, 'part', 'parts')} of {where}", takes_in_words(self.gpu_minutes, self.cpu_minutes)]
        return ", ".join(filter(None, words))


def lacking_parts(result: ItemResult) -> list[tuple[str, str]]:
    """Title of each part that was not run, and what it needs, with the time that it takes."""
    lacking = [part for part in result.item.parts if part.name in result.needs]
    return [(part.title or part.name, _with_time(part, result.needs[part.name])) for part in lacking]


def lacks(results: Iterable[ItemResult]) -> list[Lack]:
    """By what is needed, the most parts first."""
    found: dict[str, list[tuple[PaperItem, PaperPart]]] = {}
    for result in results:
        for part in result.item.parts:
            if part.name in result.needs:
                found.setdefault(result.needs[part.name], []).append((result.item, part))
    summed = [
        Lack(
            needs,
            tuple(dict.fromkeys(item.name for item, _ in entries)),
            len(entries),
            sum(part.gpu_minutes for _, part in entries),
            sum(part.cpu_minutes for _, part in entries),
        )
        for needs, entries in found.items()
    ]
    return sorted(summed, key=lambda lack: -lack.num_parts)


def takes_in_words(gpu_minutes: float, cpu_minutes: float) -> str:
    """ "about 32 minutes of an H200 a seed"; empty where nothing is known."""
    times = [(gpu_minutes, "an H200"), (cpu_minutes, "one CPU core")]
    words = [f"{_duration(minutes)} of {machine}" for minutes, machine in times if minutes]
    return f"about {' and about '.join(words)} a seed" if words else ""


def _with_time(part: PaperPart, needs: str) -> str:
    takes = takes_in_words(part.gpu_minutes, part.cpu_minutes)
    return f"{needs}; it takes {takes}" if takes else needs


def _duration(minutes: float) -> str:
    return f"{minutes:.0f} minutes" if minutes <= MINUTES_SAID else f"{minutes / 60:.1f} hours"
