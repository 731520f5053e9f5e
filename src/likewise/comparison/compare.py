"""compare: which method is best on this data, under equal conditions, and is the difference real?"""

from __future__ import annotations

import os
import re
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from likewise.comparison.best import keep_best
from likewise.comparison.faults import told_how_to_go_on
from likewise.comparison.folder import Home, open_home
from likewise.comparison.gather import Gatherer
from likewise.comparison.local_runner import LocalRunner, OnProgress
from likewise.comparison.plan import Plan, Progress
from likewise.comparison.request import DataAsked, MethodsAsked, datasets_of, make_plan
from likewise.comparison.results import ComparisonResults
from likewise.comparison.tuning import Study, record_studies
from likewise.comparison.worker import Orders
from likewise.comparison.workshop import Context
from likewise.environment import checked_device
from likewise.protocols import Protocol


class Runner(Interface):
    """What does the pieces."""

    jobs: int

    def run(self, orders: Orders, on_progress: OnProgress) -> None: ...

    def close(self) -> None: ...


def compare(
    methods: MethodsAsked | None = None,
    data: DataAsked = "glyphs",
    *,
    protocol: str | Path | Protocol | None = None,
    settings: Mapping[str, Any] | None = None,
    trials: int | None = None,
    folds: int | None = None,
    seeds: int | None = None,
    sweeps: Mapping[str, Sequence[int]] | None = None,
    weights: str | Path | None = None,
    jobs: int | None = None,
    out: str | Path | None = None,
    store: str | None = None,
    ray: str | None = None,
    gpu_share: float = 1.0,
    device: str = "auto",
    keep_networks: bool = False,
    report: bool = True,
    command: str | None = None,
    on_progress: OnProgress = lambda progress: None,
) -> ComparisonResults:
    """Trains every method under the same protocol, tuned with the same budget, and scores them on classes that none has seen.

    methods: names, .toml files or Methods; "papers", "all"; None: ten of the papers'.
    data: what `likewise.data.readers.read` takes, a Dataset, or several, over which ranks are averaged.
    protocol: None: the one that suits the data.  settings: values of its fields that differ, by name.
    trials, folds, seeds: of tuning and of the final trainings; None: the protocol's.
    sweeps: {"dim": [64, 128]} or {"batch": [...]}: the final trainings again with each of these, and the values chosen without.
    jobs: pieces at once on this machine; None: one a core, or one on a GPU.  ray: "local" or a cluster's address instead.
    out: the folder; a comparison that is there already goes on, or is only read if it is finished.  store: a PostgreSQL address.
    keep_networks: of every method and seed, not of the best alone (results.best).  report: False for none (results.report).
    """
    watch = Stopwatch()
    device = checked_device(device)
    with closing(_runner(jobs, ray=ray, device=device, gpu_share=gpu_share)) as runner:  # first, so that workers start meanwhile
        datasets, specs = datasets_of(data)
        plan = make_plan(
            datasets,
            specs,
            methods,
            protocol=protocol,
            settings=settings or {},
            trials=trials,
            num_folds=folds,
            seeds=seeds,
            sweeps=sweeps or {},
            weights=weights,
            device=device,
        )
        folder = Path(default_folder(plan) if out is None else out).absolute()
        home, plan, about = open_home(folder, plan, store=store, command=command or shlex.join(sys.argv))
        context = Context(plan, datasets, folder, None if weights is None else Path(weights).absolute(), device)
        with told_how_to_go_on(folder), closing(home.store()) as held:
            before = held.rows()
            watch.lap("start-up", times=runner.jobs)
            if not Progress(plan, before).is_complete:
                held.forget_failures()
                runner.run(Orders(context, home.url, home.comparison), on_progress)
                watch.lap("pieces", times=runner.jobs)
            gatherer = Gatherer(context, held, about)
            watch.seconds["waiting"] = max(0.0, watch.seconds.pop("pieces", 0.0) - gatherer.seconds_since(before))
            _record_tuning(home, gatherer.progress)
            results = gatherer.results()
            watch.lap("statistics", times=runner.jobs)
    with told_how_to_go_on(folder):
        best = keep_best(home, context, results, keep_networks=keep_networks)
        watch.lap("saving the best", times=runner.jobs)
        spent = results.time_spent | watch.seconds
        results = replace(results, time_spent=spent, jobs=runner.jobs, folder=folder, used=tuple(plan.methods), best=best)
        if not report:
            return results
        from likewise.reports.comparison_report import write_report  # brings matplotlib along

        page = write_report(results, folder)
    watch.lap("report", times=runner.jobs)
    return replace(results, report=page, time_spent=results.time_spent | watch.seconds)


def default_folder(plan: Plan) -> Path:
    return Path("runs") / re.sub(r"[^A-Za-z0-9_.-]+", "-", f"compare-{'-'.join(plan.sources)}-{plan.protocol.name}")


class Stopwatch:
    """Seconds by kind of work, lap after lap."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._began = time.perf_counter()

    def lap(self, kind: str, *, times: int) -> None:
        """Since the last lap, for as many jobs as were busy or waited."""
        now = time.perf_counter()
        self.seconds[kind] = (now - self._began) * times
        self._began = now


def _runner(jobs: int | None, *, ray: str | None, device: str, gpu_share: float) -> Runner:
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs={jobs}: expected at least 1")
    if ray is not None:
        from likewise.comparison.ray_runner import RayRunner

        return RayRunner(ray, jobs=jobs, device=device, gpu_share=gpu_share)
    if jobs is None:
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        jobs = 1 if device.startswith("cuda") else cores
    return LocalRunner(jobs)


def _record_tuning(home: Home, progress: Progress) -> None:
    plan = progress.plan
    studies = [
        Study(
            f"{home.comparison}/{source.name}/{name}",
            plan.by_name[name],
            sets,
            [progress.fold_scores(source.name, name, number) for number in range(len(sets))],
        )
        for source in plan.data
        for name, sets in plan.sets.items()
    ]
    if studies:
        with home.alone():
            record_studies(home.url, studies)
