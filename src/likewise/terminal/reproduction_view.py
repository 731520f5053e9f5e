"""The command `likewise reproduce`: what there is to ask for, how far it is, and what became of the claims."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table
from rich.text import Text

from likewise.data.readers import READERS
from likewise.progress import ProgressCallback
from likewise.reproductions.paper_item import PAPERS, PaperItem, items_named
from likewise.reproductions.reproduce import reproduce
from likewise.reproductions.reproduction import VERDICTS, ItemResult, JointVerdict, Judged, Reproduction
from likewise.terminal.comparison_progress import BETWEEN_LINES, clock
from likewise.terminal.screen import Screen, say
from likewise.wording import count_of

STYLES: dict[JointVerdict, str] = {"confirmed": "green", "contradicted": "red", "mixed": "magenta", "open": "yellow", "not run": "dim"}


def list_items(names: Sequence[str]) -> None:
    """Prints what there is to ask for."""
    Screen().print(items_view(items_named(names)))


def run_reproduce(
    items: Sequence[str],
    *,
    data: Sequence[str],
    weights: Sequence[str],
    seeds: int | None,
    settings: Mapping[str, Any],
    minutes: float | None,
    quick: bool,
    out: Path | None,
    jobs: int | None,
    device: str,
) -> None:
    """Runs or goes on with items; prints the claims and where everything is written."""
    with reproduction_progress() as on_progress:
        found = reproduce(
            items,
            data=data,
            weights=weights,
            seeds=seeds,
            settings=settings,
            minutes=minutes,
            quick=quick,
            out=out,
            jobs=jobs,
            device=device,
            on_progress=on_progress,
        )
    console = Screen()
    console.print(reproduction_view(found))
    if found.trainings_left:
        left = count_of(found.trainings_left, "training is", "trainings are")
        console.print(f"the time is up: {left} left; the same command goes on", soft_wrap=True, highlight=False, markup=False)
    for paper in dict.fromkeys(result.item.paper for result in found.items):
        console.print(f"page: {found.folder / f'{paper}.html'}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"figures: {found.folder / 'figures.csv'}", soft_wrap=True, highlight=False, markup=False)
    console.print(f"claims: {found.folder / 'claims.csv'}", soft_wrap=True, highlight=False, markup=False)


def items_view(items: Sequence[PaperItem]) -> RenderableType:
    """The items, a table a paper: what each asks, which data and weights it has parts for, how many rows and claims."""
    views: list[RenderableType] = []
    for paper in dict.fromkeys(item.paper for item in items):
        known = PAPERS[paper]
        views.append(Text.assemble((f"\n{paper}", "bold"), f"  {known.title} ({known.venue})"))
        table = Table(box=None, pad_edge=False, header_style="dim")
        for name in ("item", "asks", "data", "weights", "rows", "claims"):
            table.add_column(name, justify="right" if name in ("rows", "claims") else "left", no_wrap=name == "item", overflow="fold")
        for item in items:
            if item.paper == paper:
                data = ", ".join(dict.fromkeys(part.data for part in item.parts))
                protocols = [part.conditions() for part in item.parts]
                weights = ", ".join(dict.fromkeys(protocol.backbone for protocol in protocols if protocol.weights == "required"))
                rows = sum(bool(row.method) for row in item.rows.values())
                table.add_row(item.name, Text(item.asks), data, weights, str(rows), str(sum(not claim.ours for claim in item.claims)))
        views.append(table)
    readers = dict.fromkeys(part.data for item in items for part in item.parts)
    views.append(Text("\ndata: " + ", ".join(f"{name} is {READERS[name].about}" for name in readers), style="dim"))
    return Group(*views)


@contextmanager
def reproduction_progress() -> Iterator[ProgressCallback]:
    """A bar on stderr with the time left, or a line now and then where stderr is a file."""
    console = Screen(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    columns = (TextColumn("[bold]{task.description}", markup=True), BarColumn(bar_width=28), TextColumn("{task.fields[state]}"))
    with Progress(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("starting", total=None, state="")
        clocked = _Clock()

        def show(what: str, done: int, total: int) -> None:
            bar.update(task, description=what, completed=done, total=total or None, state=clocked.words(done, total))

        yield show


class _Clock:
    """The time left, by the trainings that are done since it began."""

    def __init__(self) -> None:
        self._began = time.monotonic()

    def words(self, done: int, total: int) -> str:
        spent = time.monotonic() - self._began
        left = f", about {clock(spent * (total - done) / done)} left" if 0 < done < total else ""
        return f"{done:,}/{total:,} trainings, {clock(spent)}{left}"


class _Lines:
    def __init__(self) -> None:
        self._clock = _Clock()
        self._last = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        if time.monotonic() - self._last >= BETWEEN_LINES:
            self._last = time.monotonic()
            say(f"{what}: {self._clock.words(done, total)}", err=True)


def reproduction_view(reproduction: Reproduction) -> RenderableType:
    """Every claim with its verdict, what could not be run and why, and the counts."""
    views: list[RenderableType] = []
    if reproduction.is_stand_in:
        views.append(Text("a stand-in on drawn characters: whether it runs; no figure means anything", style="bold yellow"))
    for result in reproduction.items:
        views += _item(result)
    counts = reproduction.counts()
    total = sum(counts.values())
    parts = [Text(f"{counts[verdict]} {verdict}", style=STYLES[verdict]) for verdict in VERDICTS if counts[verdict]]
    views.append(Text("\n") + Text(f"{count_of(total, 'claim', 'claims')}: ") + Text(", ").join(parts))
    return Group(*views)


def _item(result: ItemResult) -> list[RenderableType]:
    item = result.item
    views: list[RenderableType] = [Text.assemble((f"\n{item.name}", "bold"), f"  {item.title}")]
    for part, why in result.needs.items():
        views.append(Text(f"  {item.part(part).title or part}: not run, {why}", style="dim"))
    for name, part_result in result.parts.items():
        reasons = {**part_result.left_out, **part_result.waiting}
        for row, why in reasons.items():
            views.append(Text(f"  {item.part(name).title or name}, {item.rows[row].title or row}: {why}", style="dim"))
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 1, 0, 2))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for judged in result.claims:
        table.add_row(Text(judged.verdict, style=STYLES[judged.verdict]), _claim(item, judged))
    views.append(table)
    return views


def _claim(item: PaperItem, judged: Judged) -> Text:
    where = [item.part(judged.part).title or judged.part] if judged.part in item.part_names else [judged.part]
    row = item.rows[judged.row].title or judged.row if judged.row in item.rows else judged.row
    place = ", ".join(filter(None, (*where, row)))
    return Text.assemble(judged.claim.says, (f" [{place}]" if place else "", "cyan"), (f"\n{judged.evidence}", "dim"))
