"""How far a comparison is, for someone who looks: a line while it runs, and a table for `--status`."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table
from rich.text import Text

from likewise.comparison.folder import REPORT, find_folder
from likewise.comparison.plan import KINDS, Claim, Kind, Piece, Plan
from likewise.comparison.plan_progress import OnProgress, Progress
from likewise.comparison.running.store import Owner
from likewise.comparison.time_left import is_at_most, seconds_left
from likewise.progress import ProgressCallback
from likewise.terminal.screen import Screen, say
from likewise.wording import count_of, printable

STAGES: dict[Kind, str] = {"trial": "tuning", "final": "training", "score": "test scores", "items": "pictures"}
BETWEEN_LINES = 30.0  # seconds, where nobody watches a bar


@contextmanager
def live_progress() -> Iterator[tuple[OnProgress, ProgressCallback]]:
    """A bar on stderr, or a line now and then where stderr is a file: what to tell of pieces, and of what is prepared for all of them.

    The notes of the plan come first: who would rather begin anew should know before the work is done.
    """
    console = Screen(stderr=True)
    if not console.is_terminal:
        lines = _Lines()
        yield lines.pieces, lines.preparing
        return
    columns = (
        TextColumn("[bold]{task.description}"),
        BarColumn(bar_width=28),
        TextColumn("{task.fields[pieces]}"),
        TimeElapsedColumn(),
        _TimeLeft(),
        TextColumn("{task.fields[best]}", style="green", markup=False),
    )
    with Bar(*columns, console=console, transient=True, refresh_per_second=4) as bar:
        task = bar.add_task("starting", total=None, pieces="", best="", end=None, about="")
        notes = _Notes()
        began: dict[str, float] = {}  # what is prepared -> when

        def prepare(what: str, done: int, total: int) -> None:
            now = time.monotonic()
            spent = now - began.setdefault(what, now)
            bar.update(
                task,
                description=escape(what),
                completed=done,
                total=total or None,
                pieces=f"{done:,}/{total:,}" if total else "",
                end=now + spent * (total - done) / done if done else None,
            )

        def show(progress: Progress) -> None:
            for note in notes.new(progress):
                bar.console.print(Text(f"! {note}", style="yellow"))
            done, total = counted(progress)
            left = seconds_left(progress, now=time.time())
            bar.update(
                task,
                description=stage(progress),
                completed=sum(map(progress.plan.cost, done)),
                total=sum(map(progress.plan.cost, total)),
                pieces=f"{len(done)}/{len(total)} pieces",
                best=best_so_far(progress),
                end=None if left is None else time.monotonic() + left,
                about="at most " if is_at_most(progress) else "",
            )

        yield show, prepare


class _Notes:
    """The notes of a plan, each told once."""

    def __init__(self) -> None:
        self._told: set[str] = set()

    def new(self, progress: Progress) -> list[str]:
        fresh = [note for note in progress.plan.notes if note not in self._told]
        self._told.update(fresh)
        return [printable(note) for note in fresh]


class _TimeLeft(ProgressColumn):
    """Counts down between two looks at the pieces."""

    def render(self, task: Task) -> Text:
        end = task.fields["end"]
        return Text("" if end is None else f"{task.fields['about']}{clock(end - time.monotonic())} left", style="progress.remaining")


def _about(progress: Progress) -> str:
    return "at most" if is_at_most(progress) else "about"


def clock(seconds: float) -> str:
    """ "0:42", "12:05", "1:02:03"."""
    minutes, second = divmod(max(0, math.ceil(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


class _Lines:
    def __init__(self) -> None:
        self._last = time.monotonic()
        self._notes = _Notes()

    def pieces(self, progress: Progress) -> None:
        for note in self._notes.new(progress):
            say(f"! {note}", err=True)
        if self._is_due():
            done, total = counted(progress)
            left = seconds_left(progress, now=time.time())
            parts = (
                stage(progress),
                f"{len(done)}/{len(total)} pieces",
                "" if left is None else f"{_about(progress)} {clock(left)} left",
                best_so_far(progress),
            )
            self._say(", ".join(filter(None, parts)))

    def preparing(self, what: str, done: int, total: int) -> None:
        if self._is_due():
            self._say(f"{what}, {done:,}/{total:,}" if total else what)

    def _is_due(self) -> bool:
        return time.monotonic() - self._last >= BETWEEN_LINES

    def _say(self, line: str) -> None:
        self._last = time.monotonic()
        say(line, err=True)


def counted(progress: Progress) -> tuple[list[Piece], list[Piece]]:
    """The pieces that are done, and all that there will be: failed sets of values have no further folds, failed trainings no scores."""
    done = [claim.piece for claim in progress.claims.values() if claim.finished is not None]
    return done, done if progress.is_complete else progress.expected()


def stage(progress: Progress) -> str:
    """What is under way, in a word or two."""
    kinds = {piece.kind for piece in progress.due()}
    return next((STAGES[kind] for kind in KINDS if kind in kinds), "finished")


def best_so_far(progress: Progress) -> str:
    """Who leads: on the test classes once these are scored, before that on the held-out classes of tuning."""
    for kind, where in (("score", ""), ("trial", " on held-out training classes")):
        scores: dict[str, list[float]] = {}
        for claim in progress.claims.values():
            piece = claim.piece
            if piece.kind == kind and claim.score is not None and not piece.point and piece.data == progress.plan.data[0].name:
                scores.setdefault(piece.method, []).append(claim.score)
        means = {name: math.fsum(values) / len(values) if kind == "score" else max(values) for name, values in scores.items()}
        if means:
            best = max(means, key=means.__getitem__)
            return f"best {progress.plan.by_name[best].title} {100 * means[best]:.1f}{where}"
    return ""


def status_view(folder: Path, *, store: str | None) -> RenderableType:
    """The state of the comparison in a folder. It only reads: whoever works on it is not held up."""
    comparison = find_folder(folder.absolute(), store=store)
    if comparison is None:
        raise ValueError(f"there is no comparison in {folder}: give the folder that --out named")
    with closing(comparison.store()) as database:
        stored, claims = database.plan(), database.claims()
    if stored is None:
        raise ValueError(f"the database of {folder} does not know this comparison: was it emptied?")
    table, about = stored
    progress = Progress(Plan.from_table(table), claims)
    done, total = counted(progress)
    left = None if progress.is_complete else seconds_left(progress, now=time.time())
    when = "" if left is None else f", {_about(progress)} {clock(left)} left"
    head = Text.assemble((str(folder), "bold"), f": {stage(progress)}, {len(done)} of {len(total)} pieces done{when}")
    lines = [
        f"started {about['created']}: {about['command']}",
        best_so_far(progress),
        f"report: {folder / REPORT}" if (folder / REPORT).is_file() else "",
    ]
    under_way = [claim for claim in claims.values() if claim.finished is None]
    failed = Counter((claim.piece.method, claim.failure) for claim in claims.values() if claim.failure is not None)
    views: list[RenderableType] = [head, *(Text(line) for line in lines if line), _by_method(progress)]
    views += [Text(_in_words(claim)) for claim in under_way]
    views += [
        Text(f"failed: {method}, {count_of(times, 'piece', 'pieces')}: {failure}", style="red")
        for (method, failure), times in failed.items()
    ]
    if not progress.is_complete and not any(not Owner.from_name(claim.owner).is_gone for claim in under_way):
        views.append(Text("nobody works on it now: the same command goes on", style="yellow"))
    return Group(*views)


def _by_method(progress: Progress) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    stages = [kind for kind in ("trial", "final", "score") if kind != "trial" or progress.plan.trials]
    for name in ("method", *(STAGES[kind] for kind in stages)):  # type: ignore[index]
        table.add_column(name, justify="left" if name == "method" else "right")
    done, total = counted(progress)
    for method in progress.plan.methods:
        cells = []
        for kind in stages:
            counts = [sum(piece.kind == kind and piece.method == method.name for piece in pieces) for pieces in (done, total)]
            cells.append(f"{counts[0]}/{counts[1]}" if counts[1] else "")
        table.add_row(Text(method.title), *cells)
    return table


def _in_words(claim: Claim) -> str:
    owner = Owner.from_name(claim.owner)
    who = f"process {owner.pid} on {owner.host.split('/')[0]}"
    since = max(0.0, time.time() - claim.claimed)  # the clock may have been put back
    return f"under way: {claim.piece.in_words} ({who}{', which is gone' if owner.is_gone else ''}, for {since:.0f} s)"
