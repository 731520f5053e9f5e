"""Conditions: from what a user asks for to the plan of a comparison."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from likewise.checks import known_name
from likewise.comparison.pieces import UNTRAINED
from likewise.comparison.plan import NO_METHOD, SWEEPABLE, Plan, Source
from likewise.comparison.tuning import draw_sets
from likewise.configuration import differing, divided, with_settings
from likewise.data.dataset import Dataset, Features
from likewise.data.readers import read
from likewise.data.splits import folds, split
from likewise.environment import checked_device
from likewise.methods import METHODS, Method, load_method
from likewise.protocols import PROTOCOLS, Protocol, load_protocol
from likewise.training.train import SPLIT_SEED, checked_weights, file_digest

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
BEYOND = "beyond the papers"  # `paper` in the method files

MethodsAsked = str | Path | Method | Sequence[str | Path | Method]
DataAsked = str | Path | Dataset | Sequence[str | Path | Dataset]


def methods_of(asked: MethodsAsked | None, protocol: str) -> tuple[Method, ...]:
    """The methods that are meant: names, files, Methods; "papers" and "all" for many; None for ten of the papers'.

    Each has its paper's own settings where the protocol is that paper's.
    """
    given = list(PAPER_METHODS) if asked is None else [asked] if isinstance(asked, (str, Path, Method)) else list(asked)
    found: dict[str, Method] = {}
    for entry in given:
        many = {"all": METHODS, "papers": METHODS}.get(entry, ()) if isinstance(entry, str) else ()
        for method in map(load_method, many or (entry,)):
            if entry == "papers" and method.paper == BEYOND:
                continue
            if not many and method.name in found:
                raise ValueError(f"method {method.name!r} is given twice: give each once (a file with another name is another method)")
            if method.name == UNTRAINED or "|" in method.name:
                raise ValueError(
                    f"method name {method.name!r}: expected a name without '|' and other than {UNTRAINED!r}, which is always there"
                )
            found[method.name] = method.for_protocol(protocol)
    if not found:
        raise ValueError("no methods: give at least one name that `likewise methods` lists, papers, or all")
    return tuple(found.values())


def datasets_of(asked: DataAsked) -> tuple[dict[str, Dataset], dict[str, str]]:
    """The data sets by names that are all different, and how each was asked for."""
    given = [asked] if isinstance(asked, (str, Path, Dataset)) else list(asked)
    if not given:
        raise ValueError("no data: give a folder, a file or a data set such as glyphs")
    read_ones = [entry if isinstance(entry, Dataset) else read(entry) for entry in given]
    times = Counter(dataset.name for dataset in read_ones)
    datasets, specs = {}, {}
    for number, (entry, dataset) in enumerate(zip(given, read_ones, strict=True), start=1):
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


def make_plan(
    datasets: Mapping[str, Dataset],
    specs: Mapping[str, str],
    methods: MethodsAsked | None,
    *,
    protocol: str | Path | Protocol | None,
    settings: Mapping[str, Any],
    trials: int | None,
    num_folds: int | None,
    seeds: int | None,
    sweeps: Mapping[str, Sequence[int]],
    weights: str | Path | None,
    device: str,
) -> Plan:
    """Everything decided; what cannot work is refused here, before anything is trained."""
    chosen = load_protocol(protocol_for(datasets) if protocol is None else protocol)
    of_methods = divided(settings, protocol=Protocol, method=Method)["method"]
    if of_methods:
        what = f"setting {min(of_methods)!r} is a method's, and a comparison sets what is equal for all"
        raise ValueError(f"{what}: put it into a method file and give that file among the methods")
    conditions = with_settings(chosen, settings)
    for name, value, least in (("trials", trials, 0), ("folds", num_folds, 2), ("seeds", seeds, 1)):
        if value is not None and value < least:
            raise ValueError(f"{name}={value}: expected at least {least}")
    trials = conditions.trials if trials is None else trials
    num_folds = conditions.folds if num_folds is None else num_folds
    starts_from = checked_weights(conditions, weights)
    found = methods_of(methods, chosen.name)
    for name, values in sweeps.items():
        known_name("sweep", name, SWEEPABLE)
        if not values or min(values) < 1 or len(set(values)) < len(values):
            raise ValueError(f"sweep {name}={','.join(map(str, values))}: expected different whole numbers above 0")
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
        _check_batches(name, found, conditions, [labels, *sides])
        sources.append(Source(name, specs[name], parts.to_json()))
    return Plan(
        data=tuple(sources),
        methods=(*found, NO_METHOD),
        protocol=conditions,
        trials=trials,
        folds=num_folds,
        seeds=conditions.seeds if seeds is None else seeds,
        sweeps={name: tuple(values) for name, values in sweeps.items()},
        weights="" if starts_from is None else file_digest(starts_from),
        device="cuda" if checked_device(device).startswith("cuda") else "cpu",
        sets={method.name: draw_sets(method, trials=trials) for method in found} if trials else {},
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


def difference(stored: Plan, asked: Plan) -> str | None:
    """The first thing that two plans do not agree on, in words; None if they are the same comparison."""
    differences = differing(_comparable(stored), _comparable(asked))
    return f"{differences[0].name} is {differences[0].before} there and {differences[0].now} here" if differences else None


def _comparable(plan: Plan) -> dict[str, Any]:
    table = plan.as_table()
    del table["sets"]  # drawn from what is compared
    table["data"] = {
        source["name"]: {"content": source["split"]["fingerprint"], "test": source["split"]["test_digest"]} for source in table["data"]
    }
    table["methods"] = {method["name"]: method for method in table["methods"]}
    return table
