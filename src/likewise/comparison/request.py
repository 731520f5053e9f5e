"""Request: what a user asks of a comparison, and the plan that follows from it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, get_args

import numpy as np
import numpy.typing as npt

from likewise.checks import known_name
from likewise.comparison.baselines import BASELINES, baselines
from likewise.comparison.plan import CANNOT_TUNE, Plan, Source
from likewise.comparison.sweeping.sweep_notes import absence_notes
from likewise.comparison.sweeping.sweeps import checked_sweeps
from likewise.comparison.tuning import check_trials, draw_sets, tuning_folds
from likewise.configuration import Choice, Uniform, as_table, differing, divided, with_settings
from likewise.data.dataset import Dataset, Features
from likewise.data.readers import read
from likewise.data.splits import SPLIT_SEED, Fold, Split, split
from likewise.environment import device_kind
from likewise.files import file_digest
from likewise.limits import require_within
from likewise.losses import AnyLoss
from likewise.methods import METHODS, Method, load_method
from likewise.models.weights.pretrained import WEIGHTS
from likewise.protocols import PROTOCOLS, Equal, Protocol, Tune, load_protocol
from likewise.protocols.suited import suited_protocol
from likewise.training.small_data import judged_notes, training_notes
from likewise.wording import listed

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
OF_OTHERS = ("compared with", "beyond the papers")  # `paper` in the files of methods that are not the four papers' own
ADAPT = "`likewise adapt`, which judges on the training classes"
MANY = ("papers", "all")  # names of many methods

Labels: TypeAlias = npt.NDArray[np.int64]
MethodAsked: TypeAlias = str | Path | Method | AnyLoss
MethodsAsked: TypeAlias = MethodAsked | Sequence[MethodAsked]
DataAsked: TypeAlias = str | Path | Dataset | Sequence[str | Path | Dataset]


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a comparison is asked to do.

    methods: names, .toml files, Methods or loss objects; "papers", "all"; "+name": beside those that are there; None: those that are
    there, or ten of the papers'.
    data: what `likewise.data.readers.read` takes, a Dataset, or several, over which ranks are averaged.
    protocol: a name, a .toml file or a Protocol; None: the one that suits the data and the machine.
    settings: values of its fields that differ, by name.
    equal: "steps": every method takes as many steps; "time": it trains for as many seconds, those of the protocol or else the time that
    the steps take with the method of median speed. None: the protocol's.
    tune: "rate", the learning rate alone; "all", draws of every setting of a method; "grid", every combination of the values in its file's
    [grid]. The rates are the same for every method; grids may differ in size, and the report says so.
    trials, folds, seeds: sets of values that tuning tries (0: no tuning; of grids, the rates that each combination is tried with), folds
    of the training classes that it tries them on (1: half of the classes are held out, once), and final trainings. None: what is there,
    or the protocol's; so with tune.
    sweeps: {"dim": [64, 128], "loss.alpha": [1, 1.2]}: the final trainings again with each of these values of a setting of the methods or
    of the protocol, everything else as it was chosen without; {"loss.alpha x loss.margin": [(1, 0.2), (1.2, 0.4)]}: of several together.
    Another batch sees as many images; with {"batch x steps": [(32, 600), (64, 600)]} it takes as many steps.
    levels: also score each combination of the levels of a method that has several, from its one training.
    weights: pretrained weights of the backbone, where the protocol takes any: a file, or a name that `likewise weights` lists, which brings
    its backbone. None: those that the protocol names, if it names any.
    jobs: pieces at once on this machine; None: one a core, or one on a GPU.  device: "cpu", "cuda", or "auto": cuda where there is one.
    ray: "local" or a cluster's address instead of this machine's processes.  gpu_share: the part of a GPU that a training takes there.
    out: the folder; a comparison that is there already goes on, or is only read if it is finished. More seeds or methods than it has are
    added to it: what is there is kept, and the test classes are looked at once more. None: runs/compare-...
    store: the address of a PostgreSQL database for the results; None: a file in the folder. Its password is never stored or shown.
    indifferent: points of the score (1.0 is 0.01) that would not matter; methods that close to the best are called equal for all purposes.
    keep_networks: keep those of every method and seed, not of the best alone (results.best).
    keep_items: keep pictures and embeddings of the test items, which the report shows.
    minutes: after so many no new piece is begun; if the comparison is not complete then, that is told, and the same request goes on.
    command: what the report says it was started with; None: the command of this process.
    """

    methods: MethodsAsked | None = None
    data: DataAsked = "glyphs"
    protocol: str | Path | Protocol | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    equal: Equal | None = None
    tune: Tune | None = None
    trials: int | None = None
    folds: int | None = None
    seeds: int | None = None
    sweeps: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    levels: bool = False
    weights: str | Path | None = None
    jobs: int | None = None
    out: str | Path | None = None
    store: str | None = field(default=None, repr=False)
    ray: str | None = None
    gpu_share: float = 1.0
    device: str = "auto"
    indifferent: float | None = None
    keep_networks: bool = False
    keep_items: bool = True
    minutes: float | None = None
    command: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        require_within("jobs", self.jobs or 0, "jobs is")
        for name, value, least in (("jobs", self.jobs, 1), ("trials", self.trials, 0), ("folds", self.folds, 1), ("seeds", self.seeds, 1)):
            if value is not None and value < least:
                raise ValueError(f"{name}={value}: expected at least {least}")
        if self.minutes is not None and not self.minutes >= 0:
            raise ValueError(f"minutes={self.minutes:g}: expected a number not below 0")
        if self.equal is not None:
            known_name("equal", self.equal, get_args(Equal))
        if self.tune is not None:
            known_name("tune", self.tune, get_args(Tune))
        if self.indifferent is not None and not 0 < self.indifferent < 100:
            raise ValueError(f"indifferent={self.indifferent:g}: expected points of the score that would not matter, such as 1.0")


def methods_of(asked: MethodsAsked | None, protocol: str, *, there: Sequence[Method] = ()) -> tuple[Method, ...]:
    """The methods that are meant: names, files, Methods; "papers" and "all" for many; None for ten of the papers'.

    Names after a "+" are added to those that are there already, or else to the ten. Each has its paper's own settings where the protocol
    is that paper's.
    """
    given = [] if asked is None else list(asked) if isinstance(asked, Sequence) and not isinstance(asked, str) else [asked]
    adds = bool(given) and isinstance(given[0], str) and given[0].startswith("+")
    methods: dict[str, Method] = {}
    if asked is None or adds:
        methods = {method.name: method for method in there or (load_method(name).for_protocol(protocol) for name in PAPER_METHODS)}
    for entry in given:
        if isinstance(entry, str) and entry.startswith("+") and not adds:
            raise ValueError(f"methods {listed([str(entry) for entry in given])}: give all of them after a +, to add them, or none")
        for method in _named_methods(entry.removeprefix("+") if isinstance(entry, str) else entry):
            if method.name in BASELINES or "|" in method.name:
                raise ValueError(
                    f"method name {method.name!r}: expected a name without '|' and other than {' and '.join(BASELINES)}, which a "
                    "comparison has of itself"
                )
            if adds and method.name in methods:
                _check_unchanged(methods[method.name], method.for_protocol(protocol))
                continue  # the same command goes on with what it began
            if (not isinstance(entry, str) or entry not in MANY) and method.name in methods:
                raise ValueError(f"method {method.name!r} is given twice: give each once (a file with another name is another method)")
            methods[method.name] = method.for_protocol(protocol)
    if not methods:
        raise ValueError("no methods: give at least one name that `likewise methods` lists, papers, or all")
    return tuple(methods.values())


def _check_unchanged(there: Method, given: Method) -> None:
    """Refuses a method of a name that is taken, so that no score of one is shown as the other's."""
    differences = differing(as_table(replace(there, grid={})), as_table(replace(given, grid={})))
    if differences:
        first = differences[0]
        what = f"its {first.name} is {first.before} there and {first.now} here"
        raise ValueError(f"method {given.name!r} is there already, and another: {what}; give the file another name to add it beside")


def _named_methods(entry: MethodAsked) -> list[Method]:
    if not isinstance(entry, str) or entry not in MANY:
        return [load_method(entry)]
    return [method for method in map(load_method, METHODS) if entry == "all" or method.paper not in OF_OTHERS]


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


def with_suited_protocol(
    request: Request, datasets: Mapping[str, Dataset], *, there: Plan | None = None
) -> tuple[Request, tuple[str, ...]]:
    """The request with the protocol and weights that suit the data, where no protocol is asked for; what the user should know of it.

    there: the plan of a comparison that is there already, whose protocol is meant, whatever would suit this machine.
    """
    if request.protocol is not None:
        return request, ()
    if there is not None:
        return _with_protocol_of(request, there), ()
    suited = [suited_protocol(dataset, weights=request.weights, device=request.device) for dataset in datasets.values()]
    names = sorted({load_protocol(choice.protocol).name for choice in suited})
    if len(names) > 1:
        raise ValueError(f"these data sets suit different protocols ({', '.join(names)}): choose one for all with --protocol")
    notes = dict.fromkeys(note for choice in suited for note in choice.notes)
    return replace(request, protocol=suited[0].protocol, weights=suited[0].weights), tuple(notes)


def _with_protocol_of(request: Request, there: Plan) -> Request:
    """By name where it has one, so that settings which differ are still noticed; weights only where the protocol names none."""
    name = there.protocol.name
    protocol = load_protocol(name) if name in PROTOCOLS else there.protocol
    weights = next((weights.name for weights in WEIGHTS.values() if weights.sha256 == there.weights), None)
    return replace(request, protocol=protocol, weights=request.weights or (None if weights == protocol.weights else weights))


def make_plan(
    request: Request, datasets: Mapping[str, Dataset], specs: Mapping[str, str], *, there: Plan | None = None, told: Sequence[str] = ()
) -> Plan:
    """Everything decided, for these data sets (see `read_datasets`). What cannot work is refused here, before anything is trained.

    there: the plan of a comparison that is there already, which has what the request leaves open.  told: notes of it from the start.
    """
    request, of_choice = with_suited_protocol(request, datasets, there=there)
    assert request.protocol is not None
    chosen = load_protocol(request.protocol).for_weights(request.weights)
    of_methods = divided(request.settings, protocol=Protocol, method=Method)["method"]
    if of_methods:
        what = f"setting {min(of_methods)!r} is a method's, and a comparison sets what is equal for all"
        raise ValueError(f"{what}: put it into a method file and give that file among the methods")
    protocol = with_settings(chosen, ({} if request.equal is None else {"equal": request.equal}) | dict(request.settings))
    if protocol.steps == 0:
        raise ValueError(
            "steps=0: a comparison trains, and the network as it starts is in every table anyway: give at least 1; "
            "`likewise train METHOD DATA --set steps=0 --set head.kind=none` scores features without training"
        )
    weights = protocol.weights_file(request.weights)
    methods = methods_of(request.methods, chosen.name, there=() if there is None else there.compared)
    methods, left_out = _that_fit(methods, protocol)
    if (request.tune or (protocol if there is None else there).tune) != "grid":
        methods = tuple(replace(method, grid={}) for method in methods)
    sweeps = checked_sweeps(request.sweeps, methods, protocol, pretrained=weights is not None)
    usual: Protocol | Plan = protocol if there is None else there
    tune = request.tune or usual.tune
    num_folds = usual.folds if request.folds is None else request.folds
    trials = usual.trials if request.trials is None else request.trials
    check_trials(trials, tune)
    has_features = weights is not None or all(map(_is_of_vectors, datasets.values()))
    trained_on: dict[str, list[Labels]] = {}  # by data set: in the end, and in each fold of tuning
    sources, untuned, of_size = [], [], []
    for name, dataset in datasets.items():
        parts = split(dataset, seed=SPLIT_SEED)
        trained_on[name] = [_checked_training(name, dataset, parts, methods, protocol)]
        little = training_notes(trained_on[name][0], batch=protocol.batch, kind=dataset.kind)
        little += judged_notes(parts.num_test_classes, part="test", other=ADAPT) if has_features else []
        of_size += [f"{name}: {note}" for note in little]
        sources.append(Source(name, specs[name], parts.to_json()))
        try:
            held_out = tuning_folds(parts.train_part(dataset), num_folds) if trials else []
            trained_on[name] += [_checked_fold(name, trained_on[name][0], fold, methods, protocol) for fold in held_out]
        except ValueError as fault:
            if request.trials is not None or request.folds is not None or there is not None:
                raise
            untuned.append(f"{CANNOT_TUNE}: {fault}")
    if untuned:
        trials = 0
    protocol.check_time(is_measured=trials > 0)
    fine_tunes = weights is not None and not protocol.frozen
    searched = [_with_batches(method, protocol, [labels for sides in trained_on.values() for labels in sides]) for method in methods]
    return Plan(
        data=tuple(sources),
        methods=(*methods, *baselines(has_features=has_features)),
        protocol=protocol,
        trials=trials,
        folds=num_folds,
        tune=tune,
        seeds=usual.seeds if request.seeds is None else request.seeds,
        sweeps=sweeps,
        levels=request.levels,
        weights="" if weights is None else file_digest(weights),
        device=there.device if there is not None and request.device == "auto" else device_kind(request.device),
        sets={method.name: draw_sets(method, trials=trials, tune=tune, pretrained=fine_tunes) for method in searched} if trials else {},
        notes=(*told, *of_choice, *left_out, *absence_notes(sweeps, methods), *untuned, *of_size),
    )


def _that_fit(methods: Sequence[Method], protocol: Protocol) -> tuple[tuple[Method, ...], tuple[str, ...]]:
    """The methods that a frozen backbone's features are enough for, and a note on the others."""
    fit = tuple(method for method in methods if not protocol.frozen or method.head.levels == ("high",))
    others = [method.name for method in methods if method not in fit]
    if not others:
        return fit, ()
    whose = f"{listed(others)} {'has' if len(others) == 1 else 'have'} heads at several levels of the network"
    what = f"{whose}, and protocol {protocol.name} trains on the features of the last"
    remedy = "--set frozen=false trains the backbone too"
    if not fit:
        raise ValueError(f"{what}: take other methods, or {remedy}")
    return fit, (f"{what}, so that {'it was' if len(others) == 1 else 'they were'} left out; {remedy}",)


def _is_of_vectors(dataset: Dataset) -> bool:
    return isinstance(dataset.items, Features)


def _with_batches(method: Method, protocol: Protocol, trained_on: Sequence[Labels]) -> Method:
    """The method without choices of its sampler's settings that these classes cannot fill a batch with: to try them would tell nothing."""

    def fits(name: str, value: Any) -> bool:
        try:
            for labels in trained_on:
                with_settings(method, {name: value}).make_sampler(labels, protocol.batch, few_classes=protocol.few_classes)
        except ValueError:
            return False
        return True

    search: dict[str, Uniform | Choice] = {}
    for name, kind in method.search.items():
        if name.startswith("sampler.") and isinstance(kind, Choice):
            kind = Choice(tuple(value for value in kind.choices if fits(name, value)))
            if len(kind.choices) < 2:
                continue
        search[name] = kind
    grid = {
        name: tuple(value for value in values if not name.startswith("sampler.") or fits(name, value))
        for name, values in method.grid.items()
    }
    return replace(method, search=search, grid=grid)


def _checked_training(name: str, dataset: Dataset, parts: Split, methods: Sequence[Method], protocol: Protocol) -> Labels:
    """The labels of the training items, where something can be learned from them and found among the test items."""
    labels = dataset.labels[parts.train]
    if np.unique(labels, return_counts=True)[1].max() < 2:
        raise ValueError(f"{name}: every training class has a single item: metric learning needs at least two of a class")
    if not parts.num_matched:
        raise ValueError(
            f"{name}: none of the {parts.test.num_items:,} test items has another one of its class to find, so no method could be "
            "scored: test classes need at least two items"
        )
    _check_batches(f"{name} has {len(np.unique(labels))} training classes", methods, protocol, labels)
    return labels


def _checked_fold(name: str, labels: Labels, fold: Fold, methods: Sequence[Method], protocol: Protocol) -> Labels:
    """The labels that a fold of the training items with these labels is trained on, where its held-out side can be scored."""
    what = f"{name} has {len(np.unique(labels))} training classes and a fold of tuning has fewer of them"
    _check_batches(what, methods, protocol, labels[fold.train])
    if np.unique(labels[fold.validation], return_counts=True)[1].max() < 2:
        raise ValueError(f"{what}: every class that it holds out has a single item")
    return labels[fold.train]


def _check_batches(what: str, methods: Sequence[Method], protocol: Protocol, labels: Labels) -> None:
    """Refuses what leaves no method a batch to train on, as a data set of few classes does. A single such method is noted later."""
    faults = []
    for method in methods:
        try:
            method.make_sampler(labels, protocol.batch, few_classes=protocol.few_classes)
        except ValueError as fault:
            faults.append(fault)
    if len(faults) == len(methods):
        raise ValueError(f"{what}: {faults[0]}")
