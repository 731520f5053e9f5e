"""Request: what a user asks of a comparison, and the plan that follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from likewise.checks import known_name
from likewise.comparison.plan import NO_METHOD, SWEEPABLE, UNTRAINED, Plan, Source
from likewise.comparison.tuning import draw_sets
from likewise.configuration import divided, with_settings
from likewise.data.dataset import Dataset, Features
from likewise.data.readers import read
from likewise.data.splits import SPLIT_SEED, folds, split
from likewise.environment import checked_device
from likewise.files import file_digest
from likewise.methods import METHODS, Method, load_method
from likewise.protocols import PROTOCOLS, Protocol, load_protocol

# One or two of each of the papers' families, those that a first look should have.
PAPER_METHODS = (
    "contrastive",
    "triplet_semihard",
    "lifted",
    "n_pairs",
    "margin",
    "proxy_nca",
    "proxy_softmax",
    "ranked_list",
    "nonlinear_rank",
    "raw_vthm",
)
BEYOND_THE_PAPERS = "beyond the papers"  # `paper` in the method files

MethodsAsked: TypeAlias = str | Path | Method | Sequence[str | Path | Method]
DataAsked: TypeAlias = str | Path | Dataset | Sequence[str | Path | Dataset]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a comparison is asked to do.

    methods: names, .toml files or Methods; "papers", "all"; None: ten of the papers'.
    data: what `likewise.data.readers.read` takes, a Dataset, or several, over which ranks are averaged.
    protocol: a name, a .toml file or a Protocol; None: the one that suits the data.  settings: values of its fields that differ, by name.
    trials, folds, seeds: of tuning and of the final trainings; None: the protocol's.
    sweeps: {"dim": [64, 128]} or {"batch": [...]}: the final trainings again with each of these, and the values chosen without.
    weights: a file of pretrained weights of the backbone, where the protocol takes one.
    jobs: pieces at once on this machine; None: one a core, or one on a GPU.  device: "cpu", "cuda", or "auto": cuda where there is one.
    ray: "local" or a cluster's address instead of this machine's processes.  gpu_share: the part of a GPU that a training takes there.
    out: the folder; a comparison that is there already goes on, or is only read if it is finished. None: runs/compare-...
    store: the address of a PostgreSQL database for the results; None: a file in the folder. Its password is never stored or shown.
    keep_networks: keep those of every method and seed, not of the best alone (results.best).
    command: what the report says it was started with; None: the command of this process.
    """

    methods: MethodsAsked | None = None
    data: DataAsked = "glyphs"
    protocol: str | Path | Protocol | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    trials: int | None = None
    folds: int | None = None
    seeds: int | None = None
    sweeps: Mapping[str, Sequence[int]] = field(default_factory=dict)
    weights: str | Path | None = None
    jobs: int | None = None
    out: str | Path | None = None
    store: str | None = field(default=None, repr=False)
    ray: str | None = None
    gpu_share: float = 1.0
    device: str = "auto"
    keep_networks: bool = False
    command: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name, value, least in (("jobs", self.jobs, 1), ("trials", self.trials, 0), ("folds", self.folds, 2), ("seeds", self.seeds, 1)):
            if value is not None and value < least:
                raise ValueError(f"{name}={value}: expected at least {least}")
        for name, values in self.sweeps.items():
            known_name("sweep", name, SWEEPABLE)
            if not values or min(values) < 1 or len(set(values)) < len(values):
                raise ValueError(f"sweep {name}={','.join(map(str, values))}: expected different whole numbers above 0")


def methods_of(asked: MethodsAsked | None, protocol: str) -> tuple[Method, ...]:
    """The methods that are meant: names, files, Methods; "papers" and "all" for many; None for ten of the papers'.

    Each has its paper's own settings where the protocol is that paper's.
    """
    given = list(PAPER_METHODS) if asked is None else [asked] if isinstance(asked, (str, Path, Method)) else list(asked)
    methods: dict[str, Method] = {}
    for entry in given:
        many = {"all": METHODS, "papers": METHODS}.get(entry, ()) if isinstance(entry, str) else ()
        for method in map(load_method, many or (entry,)):
            if entry == "papers" and method.paper == BEYOND_THE_PAPERS:
                continue
            if not many and method.name in methods:
                raise ValueError(f"method {method.name!r} is given twice: give each once (a file with another name is another method)")
            if method.name == UNTRAINED or "|" in method.name:
                raise ValueError(
                    f"method name {method.name!r}: expected a name without '|' and other than {UNTRAINED!r}, which is always there"
                )
            methods[method.name] = method.for_protocol(protocol)
    if not methods:
        raise ValueError("no methods: give at least one name that `likewise methods` lists, papers, or all")
    return tuple(methods.values())


def read_datasets(asked: DataAsked) -> tuple[dict[str, Dataset], dict[str, str]]:
    """The data sets by names that are all different, and how each was asked for."""
    given = [asked] if isinstance(asked, (str, Path, Dataset)) else list(asked)
    if not given:
        raise ValueError("no data: give a folder, a file or a data set such as glyphs")
    read_in = [entry if isinstance(entry, Dataset) else read(entry) for entry in given]
    times = Counter(dataset.name for dataset in read_in)
    datasets, specs = {}, {}
    for number, (entry, dataset) in enumerate(zip(given, read_in, strict=True), start=1):
        name = dataset.name if times[dataset.name] == 1 else f"{dataset.name} ({number if isinstance(entry, Dataset) else entry})"
        if name in datasets:
            raise ValueError(f"the data set {name} is given twice: give each once")
        datasets[name], specs[name] = dataset, dataset.name if isinstance(entry, Dataset) else str(entry)
    return datasets, specs


def protocol_for(datasets: Mapping[str, Dataset]) -> str:
    """The protocol that suits the data where none is asked for."""
    suited = set()
    for dataset in datasets.values():
        if isinstance(dataset.items, Features):
            suited.add("features")
        elif dataset.name == "glyphs":
            suited.add("quick")
        else:
            suited.add(dataset.name if dataset.name in PROTOCOLS else "folder")
    if len(suited) > 1:
        raise ValueError(f"these data sets suit different protocols ({', '.join(sorted(suited))}): choose one for all with --protocol")
    return suited.pop()


def make_plan(request: Request, datasets: Mapping[str, Dataset], specs: Mapping[str, str]) -> Plan:
    """Everything decided, for these data sets (see `read_datasets`). What cannot work is refused here, before anything is trained."""
    chosen = load_protocol(protocol_for(datasets) if request.protocol is None else request.protocol)
    of_methods = divided(request.settings, protocol=Protocol, method=Method)["method"]
    if of_methods:
        what = f"setting {min(of_methods)!r} is a method's, and a comparison sets what is equal for all"
        raise ValueError(f"{what}: put it into a method file and give that file among the methods")
    protocol = with_settings(chosen, request.settings)
    trials = protocol.trials if request.trials is None else request.trials
    num_folds = protocol.folds if request.folds is None else request.folds
    weights = protocol.weights_file(request.weights)
    methods = methods_of(request.methods, chosen.name)
    sources = []
    for name, dataset in datasets.items():
        parts = split(dataset, seed=SPLIT_SEED)
        labels = dataset.labels[parts.train]
        if np.unique(labels, return_counts=True)[1].max() < 2:
            raise ValueError(f"{name}: every training class has a single image: metric learning needs at least two images of a class")
        if not parts.num_matched:
            raise ValueError(
                f"{name}: none of the {parts.test.num_items:,} test items has another one of its class to find, so no method could be "
                "scored: test classes need at least two images"
            )
        sides = [dataset.labels[fold.train] for fold in folds(dataset, parts.train, k=num_folds, seed=SPLIT_SEED)] if trials else []
        _check_batches(name, methods, protocol, [labels, *sides])
        sources.append(Source(name, specs[name], parts.to_json()))
    return Plan(
        data=tuple(sources),
        methods=(*methods, NO_METHOD),
        protocol=protocol,
        trials=trials,
        folds=num_folds,
        seeds=protocol.seeds if request.seeds is None else request.seeds,
        sweeps={name: tuple(values) for name, values in request.sweeps.items()},
        weights="" if weights is None else file_digest(weights),
        device="cuda" if checked_device(request.device).startswith("cuda") else "cpu",
        sets={method.name: draw_sets(method, trials=trials) for method in methods} if trials else {},
    )


def _check_batches(name: str, methods: Sequence[Method], protocol: Protocol, trained_on: Sequence[npt.NDArray[np.int64]]) -> None:
    """Refuses what leaves no method a batch to train on, as a data set of few classes does. A single such method is noted later."""
    faults = []
    for method in methods:
        try:
            for labels in trained_on:
                method.make_sampler(labels, protocol.batch, few_classes=protocol.few_classes)
        except ValueError as fault:
            faults.append(fault)
    if len(faults) == len(methods):
        during = " and a fold of tuning has fewer of them" if len(trained_on) > 1 else ""
        raise ValueError(f"{name} has {len(np.unique(trained_on[0]))} training classes{during}: {faults[0]}")
