"""Every public function meets bad values of every argument: a result, or one sentence. A new function fails until it is given a call."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import likewise
from likewise.models.embedder import Embedder
from likewise.models.network import NetworkSpec, make_network

from .bad_files import sound
from .guard import told

VECTORS = torch.randn(12, 4, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(12) % 3
ABSENT = "/nowhere/at all"  # what is long at work gets this as its data, so that it ends when all else is checked

# Arguments with which each function works, or ends at data that are not there. What is not here takes no call of its own: see below.
CALLS: dict[str, dict[str, Any]] = {
    "adapt": {"data": ABSENT, "out": ABSENT},
    "calibrate": {"embeddings": VECTORS, "labels": LABELS},
    "check": {"folders": ABSENT},
    "compare": {"methods": ["raw"], "data": ABSENT, "out": ABSENT},
    "discover": {"data": ABSENT, "out": ABSENT},
    "evaluate": {"embeddings": VECTORS, "labels": LABELS, "ks": (1,), "metrics": ("R@K", "RP")},
    "explain": {"model": ABSENT, "a": ABSENT, "b": ABSENT},
    "export": {"model": ABSENT, "folder": ABSENT},
    "nearest": {"queries": VECTORS, "gallery": VECTORS, "k": 3},
    "objective": {"loss": "raw"},
    "pair_weights": {"objective": None, "embeddings": VECTORS, "labels": LABELS},
    "reproduce": {"items": "no such paper", "out": ABSENT},
    "rerank": {"queries": VECTORS, "gallery": VECTORS, "k": 3},
    "train": {"method": "raw", "data": ABSENT, "out": ABSENT},
    "trust": {"path": ABSENT},
    "verdict": {"scores": {"a": np.arange(12.0).reshape(3, 4), "b": np.ones((3, 4))}},
    "whiten": {"vectors": VECTORS, "labels": LABELS},
}
# Public methods: of an embedder of vectors, and of an index, whose folder is a bad one wherever it is asked for.
METHODS: dict[str, dict[str, Any]] = {
    "Embedder.load": {"folder": ABSENT},
    "Embedder.pretrained": {"name": "no such weights"},
    "Embedder.embed": {"items": VECTORS},
    "Embedder.embed_levels": {"items": VECTORS},
    "Index.load": {"folder": ABSENT},
    "Index.build": {"model": ABSENT, "images": ABSENT},
    "Index.create": {"model": ABSENT},
}

# What takes long to call meets each value in some of its arguments, and in each argument some of the values.
TURNS = 5
BY_TURNS = {"adapt", "compare", "discover", "explain", "export", "reproduce", "train", "Index.build", "Index.create", "Index.load"}
NOT_BAD = {("reproduce", "items", "an empty list")}  # which asks for all papers


def _bad_values(folder: Path) -> dict[str, object]:
    """By what is wrong with them, whatever they are given for."""
    files = {f"a file of {name}": folder / f"bad.{name}" for name in ("npz", "csv", "toml", "png")}
    for path in files.values():
        if not path.exists():
            path.write_bytes(sound("npz")[:100])
    if not (folder / "pipe").exists():
        os.mkfifo(folder / "pipe")
    return {
        "None": None,
        "an object": object(),
        "a type": int,
        "a function": lambda: None,
        "True": True,
        "0": 0,
        "-1": -1,
        "10^12": 10**12,
        "10^30": 10**30,
        "half": 0.5,
        "NaN": float("nan"),
        "infinity": float("inf"),
        "no text": "",
        "some text": "no such thing",
        "a text with a null": "a\0b",
        "a text that is not Unicode": "\ud800",
        "a long text": "x" * 5000,
        "bytes": b"raw",
        "an empty list": [],
        "a list of all kinds": [1, "a", None],
        "an empty dict": {},
        "a dict of odd names": {1: 2, None: object()},
        "an empty array": np.zeros((0, 4), np.float32),
        "an array of NaN": np.full((12, 4), np.nan, np.float32),
        "a tensor of infinity": torch.full((12, 4), torch.inf),
        "an array of one": np.ones(1),
        "an array of objects": np.array([None] * 12, dtype=object),
        "an array of times": np.array(["2020-01-01"] * 12, dtype="datetime64[D]"),
        "complex numbers": np.ones((12, 4), dtype=complex),
        "no dimension": torch.tensor(3.0),
        "five dimensions": torch.zeros(1, 1, 1, 1, 1),
        "longdouble": np.ones((12, 4), np.longdouble),
        "half precision": VECTORS.half(),
        "a sparse tensor": VECTORS.to_sparse(),
        "a tensor without data": torch.empty(12, 4, device="meta"),
        "labels of another number": LABELS[:5],
        "a path that is not there": Path(ABSENT),
        "a folder": folder / "empty",
        "a pipe": folder / "pipe",
        "a device": Path("/dev/zero"),
        **files,
    }


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("bad")
    (place / "empty").mkdir()
    return place


@pytest.fixture(autouse=True)
def _nothing_is_written_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no workers are started, which would take a second for every value."""

    def refuse(*_: object) -> None:
        raise ValueError("no workers here")

    monkeypatch.chdir(folder / "empty")
    monkeypatch.setattr("likewise.comparison.compare._runner", refuse)


def _functions() -> dict[str, Callable[..., Any]]:
    public = {name: getattr(likewise, name) for name in likewise.__all__}
    return {name: value for name, value in public.items() if isinstance(value, types.FunctionType)}


def _classes() -> dict[str, type]:
    public = {name: getattr(likewise, name) for name in likewise.__all__}
    return {name: value for name, value in public.items() if isinstance(value, type)}


@functools.cache
def _embedder() -> Embedder:
    return Embedder(make_network(NetworkSpec("mlp", in_features=4, dim=3), seed=0).eval(), None)


def _called(name: str) -> tuple[Callable[..., Any], dict[str, Any]]:
    """What is called, and arguments that it takes."""
    if name == "check":
        return (lambda folders: likewise.check(folders)), CALLS[name]  # of as many folders as one likes
    if name in CALLS:
        given = CALLS[name]
        return getattr(likewise, name), {**given, "objective": likewise.objective("raw")} if name == "pair_weights" else given
    owner, _, method = name.partition(".")
    known = METHODS[name]
    return getattr(_embedder() if owner == "Embedder" and "items" in known else getattr(likewise, owner), method), known


def test_every_public_function_has_a_call_and_checks_its_arguments() -> None:
    assert _functions().keys() == CALLS.keys(), "a public function without a call: add it"
    for name, function in _functions().items():
        assert hasattr(function, "__wrapped__"), f"{name} does not have @checked_arguments"
    for name in METHODS:
        owner, _, method = name.partition(".")
        assert hasattr(getattr(_classes()[owner], method), "__wrapped__"), f"{name} does not have @checked_arguments"


@pytest.mark.parametrize("name", [*CALLS, *METHODS])
def test_arguments_that_work_do(name: str) -> None:
    function, given = _called(name)
    sentence = told(lambda: function(**given))
    waits = [value for value in given.values() if isinstance(value, str) and value in (ABSENT, "no such paper", "no such weights")]
    assert (sentence is not None) == bool(waits), sentence


@pytest.mark.filterwarnings("ignore")  # of torch and numpy, for what nobody would give
@pytest.mark.parametrize("name", [*CALLS, *METHODS])
def test_every_argument_meets_every_bad_value(name: str, folder: Path) -> None:
    function, given = _called(name)
    faults = []
    for number, (argument, parameter) in enumerate(inspect.signature(function).parameters.items()):
        if parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
            continue
        values = list(_bad_values(folder).items())
        for words, value in values[number % TURNS :: TURNS] if name in BY_TURNS else values:
            if (name, argument, words) in NOT_BAD:
                continue
            if callable(value) and argument.startswith("on_"):
                continue  # what a caller's own function raises is the caller's
            try:
                told(functools.partial(function, **{**given, argument: value}))
            except BaseException as fault:  # all of them are told together
                faults.append(f"{argument}={words}: {type(fault).__name__}: {str(fault)[:150]}")
    assert not faults, "\n".join([f"{len(faults)} of {name}:", *faults])


def test_settings_of_losses_and_miners_are_checked(folder: Path) -> None:
    """Of every loss and miner, each setting with each bad value."""
    faults = []
    registries: dict[str, Mapping[str, Any]] = {"loss": likewise.LOSSES, "mining": likewise.MINERS}
    for kind, registry in registries.items():
        for name, made in registry.items():
            for setting in list(inspect.signature(made).parameters):
                for words, value in _bad_values(folder).items():
                    call = {"loss": name} if kind == "loss" else {"loss": "raw"}
                    try:
                        if kind == "loss":
                            told(functools.partial(likewise.objective, **{"num_classes": 3, "dim": 4, **call, setting: value}))
                        else:
                            told(functools.partial(_mined, name, setting, value))
                    except BaseException as fault:
                        faults.append(f"{name}.{setting}={words}: {type(fault).__name__}: {str(fault)[:100]}")
    assert not faults, "\n".join([f"{len(faults)}:", *faults])


def _mined(name: str, setting: str, value: object) -> object:
    from likewise.mining import make_miner

    return make_miner(name, {setting: value})
