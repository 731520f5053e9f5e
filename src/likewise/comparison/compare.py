"""A comparison from a request to its results: which method is best on this data, under equal conditions, and is the difference real?"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from contextlib import ExitStack, closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Protocol as Interface

from likewise.comparison.database import storage_faults_explained, without_passwords
from likewise.comparison.folder import BEST, NETWORKS, ComparisonFolder, open_folder
from likewise.comparison.gather import Gatherer
from likewise.comparison.plan import OnProgress, Piece, Plan, Progress
from likewise.comparison.request import Request, make_plan, read_datasets
from likewise.comparison.results import ComparisonResults, MethodResult
from likewise.comparison.tuning import Study, record_studies
from likewise.comparison.workers import LocalRunner, Orders
from likewise.comparison.workshop import Context, Stopwatch, load_network
from likewise.configuration import as_table, with_settings
from likewise.data.ledger import CountedLook
from likewise.environment import checked_device, num_cores
from likewise.models.bundle import DESCRIPTION
from likewise.models.embedder import Embedder
from likewise.training.feeds import preprocessing_of


class Runner(Interface):
    """What does the pieces."""

    jobs: int

    def run(self, orders: Orders, on_progress: OnProgress) -> None: ...

    def close(self) -> None: ...


def run_comparison(request: Request, *, on_progress: OnProgress = lambda progress: None) -> ComparisonResults:
    """Trains every method under the same protocol, tuned with the same budget, and scores them on classes that none has seen.

    Without a report: `likewise.compare` writes one.
    """
    watch = Stopwatch()
    device = checked_device(request.device)
    with ExitStack() as until_gathered:
        with watch.measures("start-up"):
            runner = until_gathered.enter_context(closing(_runner(request, device)))  # first, so that workers start meanwhile
            datasets, specs = read_datasets(request.data)
            plan = make_plan(request, datasets, specs)
            path = Path(default_folder(plan) if request.out is None else request.out).absolute()
            folder, plan, about = open_folder(path, plan, store=request.store, command=_command(request))
            weights = None if request.weights is None else Path(request.weights).absolute()
            context = Context(plan, datasets, path, weights, device, folder.comparison)
            until_gathered.enter_context(storage_faults_explained(path))
            store = until_gathered.enter_context(closing(folder.store()))
            before = store.claims()
        if not Progress(plan, before).is_complete:
            store.forget_failures()
            with watch.measures("pieces"):
                runner.run(Orders(context, folder.url, folder.comparison), on_progress)
        with watch.measures("statistics"):
            gatherer = Gatherer(context, store, about, indifferent=None if request.indifferent is None else request.indifferent / 100)
            busy = gatherer.seconds_since(before)
            _record_tuning(folder, gatherer.progress)
            results = gatherer.results()
    with storage_faults_explained(path), watch.measures("saving the best"):
        best = keep_best(folder, context, results, keep_networks=request.keep_networks)
    waiting = max(0.0, watch.seconds.pop("pieces", 0.0) * runner.jobs - busy)
    results = replace(
        results,
        time_spent=results.time_spent | {"waiting": waiting},
        elapsed=gatherer.progress.elapsed,
        jobs=runner.jobs,
        folder=path,
        used=tuple(plan.methods),
        best=best,
    )
    for kind, seconds in watch.seconds.items():
        results = results.with_time(kind, seconds)
    return results


def default_folder(plan: Plan) -> Path:
    return Path("runs") / re.sub(r"[^A-Za-z0-9_.-]+", "-", f"compare-{'-'.join(plan.sources)}-{plan.protocol.name}")


def keep_best(folder: ComparisonFolder, context: Context, results: ComparisonResults, *, keep_networks: bool) -> dict[str, Path]:
    """Data set -> the first seed of its best method as an embedder in the folder, for `likewise embed`. The networks go unless kept.

    A finished comparison has one winner for good, so that an embedder that is there stays. The lock is for two processes that end at once.
    """
    kept = {}
    with folder.lock():
        for number, board in enumerate(results.boards, start=1):
            place = folder.path / (BEST if len(results.datasets) == 1 else f"{BEST}_{number}")
            if board.winner is not None and not (place / DESCRIPTION).is_file() and _network_file(context, board.winner).is_file():
                _embedder(context, board.winner, results.looks[board.dataset]).save(place)
            if place.is_dir():
                kept[board.dataset] = place
        if not keep_networks:
            shutil.rmtree(folder.path / NETWORKS, ignore_errors=True)
    return kept


def _network_file(context: Context, method: MethodResult) -> Path:
    return context.network_file(Piece("final", method.dataset, "", method.name))


def _embedder(context: Context, best: MethodResult, look: CountedLook) -> Embedder:
    protocol = context.plan.protocol
    card = {
        "method": as_table(with_settings(context.plan.by_name[best.name], best.settings)),
        "protocol": as_table(protocol),
        "data": {"name": best.dataset, "fingerprint": context.plan.sources[best.dataset].split["fingerprint"]},
        "split": context.plan.sources[best.dataset].split,
        "occasion": asdict(look.look.occasion),
        "seed": 0,
        "scores": {name: estimate.values[0] for name, estimate in best.scores.items()},
    }
    return Embedder(load_network(_network_file(context, best)).eval(), preprocessing_of(protocol, context.datasets[best.dataset]), card)


def _runner(request: Request, device: str) -> Runner:
    if request.ray is not None:
        from likewise.comparison.ray_runner import RayRunner

        return RayRunner(request.ray, jobs=request.jobs, device=device, gpu_share=request.gpu_share)
    return LocalRunner(request.jobs or (1 if device.startswith("cuda") else num_cores()))


def _command(request: Request) -> str:
    """As the store and the report have it. Word by word, as a shell's quotes would hide where a password ends."""
    return shlex.join(map(without_passwords, sys.argv)) if request.command is None else without_passwords(request.command)


def _record_tuning(folder: ComparisonFolder, progress: Progress) -> None:
    plan = progress.plan
    studies = [
        Study(
            f"{folder.comparison}/{source.name}/{name}",
            plan.by_name[name],
            plan.folds,
            [progress.settings(source.name, name, number) for number in progress.set_numbers(source.name, name)],
            [progress.fold_scores(source.name, name, number) for number in progress.set_numbers(source.name, name)],
        )
        for source in plan.data
        for name in plan.sets
    ]
    if studies:
        with folder.lock():
            record_studies(folder.url, studies)
