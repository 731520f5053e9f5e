"""likewise.reproduce: tables and figures of the papers, run with what there is, beside what was published; their claims judged."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from likewise.addresses import shown_words, without_secrets
from likewise.argument_types import checked_arguments
from likewise.comparison.compare import TimeIsUp
from likewise.comparison.level_scores import level_name
from likewise.comparison.plan_progress import Progress
from likewise.data.dataset import Dataset
from likewise.environment import checked_device, versions
from likewise.files import write_whole
from likewise.methods import Method
from likewise.progress import ProgressCallback
from likewise.reproductions.benches import Bench, BenchFigures, figures_in
from likewise.reproductions.item_work import ItemWork, RowWork, trainings_left, work_of
from likewise.reproductions.pages import write_markdown, write_pages
from likewise.reproductions.pages.figure_tables import claims_csv, figures_csv
from likewise.reproductions.paper_item import PaperItem, items_named
from likewise.reproductions.reproduction import ItemResult, PartResult, Reproduction, RowResult
from likewise.reproductions.stand_ins import StandIns
from likewise.reproductions.supplies import Supplies
from likewise.reproductions.verdicts.item_claims import judge_item
from likewise.reproductions.verdicts.looks import Looks

SEEDS = 3  # that a claim can be judged by at all takes two
NOT_YET = "its turn has not come: the same command goes on"


@checked_arguments
def reproduce(
    items: str | PaperItem | Iterable[str | PaperItem] = (),
    *,
    data: Mapping[str, str | Path | Dataset] | Sequence[str | Path] = (),
    weights: str | Path | Sequence[str | Path] = (),
    seeds: int | None = None,
    settings: Mapping[str, Any] | None = None,
    minutes: float | None = None,
    quick: bool = False,
    out: str | Path | None = None,
    device: str = "auto",
    jobs: int | None = None,
    command: str | None = None,
    on_progress: ProgressCallback | None = None,
) -> Reproduction:
    """Runs items and judges their claims; writes a page a paper, the same as Markdown, figures.csv and claims.csv into the folder.

    What was done there before is kept.

    items: "rll/table-3", or a paper ("rll") for all of its items; none: all (`likewise.reproductions.paper_item.ITEMS`).
    data: where data sets are, ["cub:/data/CUB_200_2011"] or {"cub": "/data/CUB_200_2011"}; parts of items whose data are not given are
    left out, and what they need is said. weights: files, or names that `likewise weights` lists; a part takes those of its backbone.
    seeds: trainings of every row, 3 unless said; one alone leaves every claim open.
    settings: of every protocol, that differ: {"steps": 1000}.
    minutes: after so many nothing new is begun, and what there is is written; the same call goes on. 0: only write.
    quick: every row on a few drawn characters under a tiny protocol: whether it runs, and no figure that means anything.
    out: the folder, runs/reproduce unless said.  jobs, device: as `likewise.compare` has them.
    on_progress: is told what is trained, and how many trainings of those that were left are done.
    """
    if seeds is not None and seeds < 1:
        raise ValueError(f"seeds={seeds}: expected at least 1")
    if minutes is not None and not minutes >= 0:
        raise ValueError(f"minutes={minutes:g}: expected a number not below 0")
    chosen = items_named([items] if isinstance(items, str | PaperItem) else items)
    folder = Path(out or ("runs/reproduce-quick" if quick else "runs/reproduce")).absolute()
    given = [weights] if isinstance(weights, str | Path) else weights
    supplies = StandIns({}) if quick else Supplies.of(data, given, settings or {})
    folder.mkdir(parents=True, exist_ok=True)
    works = [work_of(item, supplies, folder / "benches") for item in chosen]
    seeds = (1 if quick else SEEDS) if seeds is None else seeds
    words = shlex.join(shown_words(sys.argv)) if command is None else without_secrets(command)
    run = _Run(works, seeds, checked_device(device), jobs, None if minutes is None else time.monotonic() + 60 * minutes, words, on_progress)
    faults = run.all()
    looks = Looks(folder)
    read: dict[Path, BenchFigures | None] = {}
    results = tuple(_result(work, faults, read, None if quick else looks) for work in works)
    looks.save()
    found = Reproduction(
        items=results,
        folder=folder,
        command=words,
        versions=versions(),
        is_stand_in=quick,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        trainings_left=trainings_left(works, seeds=seeds, without=faults),
    )
    write_whole(folder / "figures.csv", figures_csv(found).encode())
    write_whole(folder / "claims.csv", claims_csv(found).encode())
    write_pages(found, folder)
    write_markdown(found, folder / "markdown")
    return found


class _Run:
    """Trains what items lack, item by item.

    Where time is limited, all of an item with one seed before any with the next, so that a slice of it shows whole tables.
    """

    def __init__(
        self,
        works: Sequence[ItemWork],
        seeds: int,
        device: str,
        jobs: int | None,
        until: float | None,
        command: str,
        on_progress: ProgressCallback | None,
    ) -> None:
        self.works, self.seeds, self.device, self.jobs, self.until, self.command = works, seeds, device, jobs, until, command
        self.on_progress = on_progress or (lambda what, done, total: None)
        self.total = trainings_left(works, seeds=seeds)
        self.done = 0

    def all(self) -> dict[Path, str]:
        """Bench -> what went wrong with it as a whole, of those that could not be run."""
        faults: dict[Path, str] = {}
        for work in self.works:
            for seeds in range(1, self.seeds + 1) if self.until is not None else (self.seeds,):
                for bench, methods in work.by_bench():
                    if bench.path in faults:
                        continue
                    lacking = bench.lacks(methods, seeds=seeds)
                    try:
                        self._grow(bench, methods, seeds, f"{work.item.name}, {bench.dataset.name}")
                    except TimeIsUp:
                        return faults
                    except ValueError as fault:  # of these conditions: the others go on
                        faults[bench.path] = str(fault)
                    self.done += lacking
        return faults

    def _grow(self, bench: Bench, methods: Sequence[Method], seeds: int, what: str) -> None:
        minutes = None if self.until is None else max(0.0, self.until - time.monotonic()) / 60
        before: int | None = None

        def tell(progress: Progress) -> None:
            nonlocal before
            finished = sum(claim.finished is not None and claim.piece.kind == "final" for claim in progress.claims.values())
            before = finished if before is None else before
            self.on_progress(what, min(self.done + finished - before, self.total), self.total)

        bench.grow(methods, seeds=seeds, device=self.device, jobs=self.jobs, minutes=minutes, command=self.command, on_progress=tell)


def _result(work: ItemWork, faults: Mapping[Path, str], read: dict[Path, BenchFigures | None], looks: Looks | None) -> ItemResult:
    parts: dict[str, PartResult] = {}
    needs = dict(work.needs)
    for part in work.item.parts:
        if part.name in needs:
            continue
        of_part = [row for row in work.rows if row.part == part.name]
        result = _part(work, part.name, of_part, faults, read)
        if result.rows:
            parts[part.name] = result
        else:
            needs[part.name] = next(iter([*result.left_out.values(), *result.waiting.values()]), "none of its rows can be run here")
    return ItemResult(work.item, parts, needs, judge_item(work.item, parts, needs, looks))


def _part(
    work: ItemWork, part: str, of_part: Sequence[RowWork], faults: Mapping[Path, str], read: dict[Path, BenchFigures | None]
) -> PartResult:
    rows: dict[str, RowResult] = {}
    left_out = {row: why for (other, row), why in work.cannot.items() if other == part}
    waiting: dict[str, str] = {}
    figures: BenchFigures | None = None
    for entry in of_part:
        path = entry.bench.path
        if path not in read:
            read[path] = figures_in(entry.bench)
        found = read[path]
        name = entry.method.name if entry.is_whole else level_name(entry.method.name, entry.levels)
        if found is not None and name in found.rows:
            rows[entry.row] = found.rows[name]
            figures = found
        elif found is not None and entry.method.name in found.failures:
            left_out[entry.row] = found.failures[entry.method.name]
        elif path in faults:
            left_out[entry.row] = faults[path]
        else:
            waiting[entry.row] = NOT_YET
    weights = of_part[0].bench.weights if of_part else None
    return PartResult(
        protocol=work.protocols[part],
        rows=rows,
        left_out=left_out,
        waiting=waiting,
        seeds=min((len(row.seconds) for row in rows.values()), default=0),
        data_words="" if figures is None else figures.data_words,
        weights="" if weights is None else weights.path.name,
        class_sizes=None if figures is None else figures.class_sizes,
        test_digest="" if figures is None else figures.plan.data[0].split["test_digest"],
        device="cpu" if figures is None else figures.plan.device,
        labels=None if figures is None else figures.labels,
        class_names=of_part[0].bench.dataset.class_names if of_part else (),
    )
