"""A comparison from a request to its results: which method is best on this data, under equal conditions, and is the difference real?"""

from __future__ import annotations

import re
import shlex
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from typing import Protocol as Interface

from likewise.addresses import shown_words, without_secrets
from likewise.comparison.folder import BEST, NETWORKS, ComparisonFolder, open_folder, plan_in, seal_folder, unseal_folder
from likewise.comparison.gather import Gatherer
from likewise.comparison.plan import Piece, Plan
from likewise.comparison.plan_progress import OnProgress, Progress, check_code
from likewise.comparison.request import Request, make_plan, read_datasets, with_suited_protocol
from likewise.comparison.results import ComparisonResults, MethodResult
from likewise.comparison.running.database import storage_faults_explained
from likewise.comparison.running.ray_runner import RayRunner
from likewise.comparison.running.store import Store
from likewise.comparison.running.workers import LocalRunner, Orders
from likewise.comparison.running.workshop import Context, Stopwatch, load_network
from likewise.comparison.time_left import seconds_left
from likewise.comparison.tuning import Study, record_studies
from likewise.configuration import as_table, with_settings
from likewise.data.dataset import Dataset
from likewise.data.ledger import CountedLook
from likewise.environment import check_alone, checked_device, device_kind, num_cores
from likewise.files import file_digest
from likewise.formats.settings_files import read_sealed_table
from likewise.models.bundle import DESCRIPTION
from likewise.models.embedder import Embedder
from likewise.progress import ProgressCallback
from likewise.protocols import Protocol, load_protocol
from likewise.ray_session import LOCAL
from likewise.training.feeds import embedder_of, feed_conditions, make_feed
from likewise.wording import seconds_in_words


class TimeIsUp(Exception):
    """The minutes that a comparison was given are over before all of it is done."""


class Runner(Interface):
    """What does the pieces."""

    jobs: int

    def run(self, orders: Orders, on_progress: OnProgress) -> None: ...

    def close(self) -> None: ...


@dataclass(frozen=True, eq=False)
class Opened:
    """A comparison that is begun or gone on with: what works on it, on what, and until when."""

    request: Request
    runner: Runner
    folder: ComparisonFolder
    about: dict[str, Any]
    store: Store
    context: Context  # with the plan as it was then
    until: float | None


@contextmanager
def opened(request: Request) -> Iterator[Opened]:
    """The comparison of a request, made if there is none; what it works with is closed in the end."""
    until = None if request.minutes is None else time.monotonic() + 60 * request.minutes
    check_alone("a comparison")
    device = checked_device(request.device)
    with ExitStack() as stack:
        runner = stack.enter_context(closing(_runner(request, device)))  # first, so that workers start meanwhile
        datasets, specs = read_datasets(request.data)
        there = None if request.out is None else plan_in(Path(request.out).absolute(), store=request.store)
        request, told = with_suited_protocol(request, datasets, there=there)
        path = Path(default_folder(request, datasets) if request.out is None else request.out).absolute()
        folder, about = open_folder(
            path,
            lambda there: make_plan(request, datasets, specs, there=there, told=told),
            store=request.store,
            command=_command(request),
        )
        stack.enter_context(storage_faults_explained(path))
        store = stack.enter_context(closing(folder.store()))
        plan = store.progress().plan
        weights = plan.protocol.weights_file(request.weights)
        weights = None if weights is None else weights.absolute()
        context = Context(plan, datasets, path, weights, device, folder.comparison, request.keep_items)
        yield Opened(request, runner, folder, about, store, context, until)


def carry_out(comparison: Opened, watch: Stopwatch, *, on_progress: OnProgress, on_preparing: ProgressCallback | None = None) -> Progress:
    """All pieces that are not done yet; TimeIsUp, if the request's minutes are over before."""
    context, store = comparison.context, comparison.store
    progress = store.progress()
    if not progress.is_complete:
        check_code(progress)
        if progress.plan.device != device_kind(context.device):
            raise ValueError(
                f"the comparison in {context.folder} was begun on {progress.plan.device} and this is {context.device}, whose scores do "
                "not compare: go on there; a finished one can be read anywhere"
            )
        store.forget_failures()
        on_progress(progress)
        if frozen_protocols(progress.plan) and comparison.request.ray in (None, LOCAL):  # machines elsewhere compute their own
            with watch.measures("features"):
                compute_features(context, on_preparing)
    while not progress.is_complete:  # again, where another process adds to it as it ends
        orders = Orders(context, comparison.folder.url, comparison.folder.comparison, comparison.until)
        with watch.measures("pieces"):
            comparison.runner.run(orders, on_progress)
        progress = store.progress()
        if orders.are_over and not progress.is_complete:
            raise TimeIsUp(_how_far(progress))
    return progress


def run_comparison(
    request: Request, *, on_progress: OnProgress = lambda progress: None, on_preparing: ProgressCallback | None = None
) -> ComparisonResults:
    """Trains every method under the same protocol, tuned with the same budget, and scores them on classes that none has seen.

    Without a report: `likewise.compare` writes one.  on_preparing: is told how far what all pieces need is, before the first of them.
    """
    watch = Stopwatch()
    with ExitStack() as until_gathered:
        with watch.measures("start-up"):
            comparison = until_gathered.enter_context(opened(request))
            before = comparison.store.progress()
        unseal_folder(comparison.folder.path)
        progress = carry_out(comparison, watch, on_progress=on_progress, on_preparing=on_preparing)
        folder, runner, context = comparison.folder, comparison.runner, replace(comparison.context, plan=progress.plan)
        with watch.measures("statistics"):
            indifferent = None if request.indifferent is None else request.indifferent / 100
            gatherer = Gatherer(context, comparison.store, comparison.about, progress, indifferent=indifferent)
            busy = gatherer.seconds_since(before.claims)
            _record_tuning(folder, gatherer.progress)
            results = gatherer.results()
    with storage_faults_explained(folder.path), watch.measures("saving the best"):
        best = keep_best(folder, context, results, progress, gatherer.network_digests, keep_networks=request.keep_networks)
    waiting = max(0.0, watch.seconds.pop("pieces", 0.0) * runner.jobs - busy)
    features = watch.seconds.pop("features", 0.0)  # by all jobs' cores, though in this process
    results = replace(
        results,
        time_spent=results.time_spent | {"waiting": waiting} | ({"features": features * runner.jobs} if features else {}),
        elapsed=gatherer.progress.elapsed + features,
        jobs=runner.jobs,
        folder=folder.path,
        used=progress.plan.methods,
        best=best,
    )
    for kind, seconds in watch.seconds.items():
        results = results.with_time(kind, seconds)
    seal_folder(folder.path)
    return results


def _how_far(progress: Progress) -> str:
    done = sum(claim.finished is not None for claim in progress.claims.values())
    left = seconds_left(progress, now=time.time())
    about = "" if left is None else f", and about {seconds_in_words(left)} are left"
    return f"the time is up: {done} of {len(progress.expected())} pieces are done{about}; the same command goes on from there"


def compute_features(context: Context, on_preparing: ProgressCallback | None) -> None:
    """The features of all images by a frozen backbone, computed by all cores at once, into the cache that every worker reads.

    Test images are among them, as nothing but pixels and weights decides a feature: no label is read, and no piece sees one before the
    guard opens.
    """
    for protocol in frozen_protocols(context.plan):
        for name, dataset in context.datasets.items():
            make_feed(dataset, protocol, weights=context.weights, device=context.device, trains=False, on_progress=on_preparing)
            if protocol.views > 1:
                train = context.split(name).train_part(dataset)
                make_feed(train, protocol, weights=context.weights, device=context.device, on_progress=on_preparing)


def frozen_protocols(plan: Plan) -> list[Protocol]:
    """Those among the points of a plan that train on features, one for each kind of them."""
    frozen = [protocol for protocol in map(plan.at_point, plan.points) if protocol.frozen]
    return list({feed_conditions(protocol): protocol for protocol in frozen}.values())


def default_folder(request: Request, datasets: Mapping[str, Dataset]) -> Path:
    """Of a request that has a protocol."""
    assert request.protocol is not None
    name = f"compare-{'-'.join(datasets)}-{load_protocol(request.protocol).name}"
    return Path("runs") / re.sub(r"[^A-Za-z0-9_.-]+", "-", name)


def keep_best(
    folder: ComparisonFolder,
    context: Context,
    results: ComparisonResults,
    progress: Progress,
    digests: Mapping[str, str],
    *,
    keep_networks: bool,
) -> dict[str, Path]:
    """Data set -> a seed of its best method as an embedder in the folder, for `likewise embed`. Networks that are scored go unless kept.

    An embedder that is there stays unless something that was added has made another method the best. Its network is then one of those
    that were trained since: the first of them that is as it was stored. The lock is for two processes that end at once.

    digests: of the networks' files, by their names.
    """
    kept = {}
    with folder.lock():
        for number, board in enumerate(results.boards, start=1):
            place = folder.path / (BEST if len(results.datasets) == 1 else f"{BEST}_{number}")
            if board.winner is not None and _method_of(place) != board.winner.name:
                files = ((seed, _network_file(context, board.winner, seed)) for seed in range(context.plan.seeds))
                seed = next((seed for seed, file in files if file.is_file() and file_digest(file) == digests[file.name]), None)
                if seed is not None:
                    _embedder(context, board.winner, seed, results.looks[board.dataset]).save(place)
            if place.is_dir():
                kept[board.dataset] = place
        if not keep_networks:
            remove_scored(context, progress)
    return kept


def remove_scored(context: Context, progress: Progress) -> None:
    """The networks that are scored go."""
    for piece in progress.final_pieces():
        if progress.is_done(replace(piece, kind="score")):
            context.network_file(piece).unlink(missing_ok=True)
    with suppress(OSError):  # what another process has added is still to be scored
        (context.folder / NETWORKS).rmdir()


def _method_of(place: Path) -> str:
    """The method of the embedder that is kept there; empty if there is none, or it cannot be read."""
    try:
        return str(read_sealed_table(place / DESCRIPTION)["card"]["method"]["name"])
    except (OSError, ValueError, KeyError, TypeError):
        return ""


def _network_file(context: Context, method: MethodResult, seed: int) -> Path:
    return context.network_file(Piece("final", method.dataset, "", method.name, seed))


def _embedder(context: Context, best: MethodResult, seed: int, look: CountedLook) -> Embedder:
    protocol = context.plan.protocol
    card = {
        "method": as_table(with_settings(context.plan.by_name[best.name], best.settings)),
        "protocol": as_table(protocol),
        "data": {"name": best.dataset, "fingerprint": context.plan.sources[best.dataset].split["fingerprint"]},
        "split": context.plan.sources[best.dataset].split,
        "occasion": asdict(look.look.occasion),
        "seed": seed,
        "scores": {name: estimate.values[seed] for name, estimate in best.scores.items()},
    }
    network = load_network(_network_file(context, best, seed)).eval()
    return embedder_of(network, protocol, context.datasets[best.dataset], weights=context.weights, card=card)


def _runner(request: Request, device: str) -> Runner:
    if request.ray is not None:
        return RayRunner(request.ray, jobs=request.jobs, device=device, gpu_share=request.gpu_share)
    return LocalRunner(request.jobs or (1 if device.startswith("cuda") else num_cores()))


def _command(request: Request) -> str:
    """As the store and the report have it."""
    return shlex.join(shown_words(sys.argv)) if request.command is None else without_secrets(request.command)


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
