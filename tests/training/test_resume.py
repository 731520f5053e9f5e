"""A training that was stopped, or killed, goes on as if it had never been."""

from __future__ import annotations

import csv
import json
import multiprocessing
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from likewise.methods import Method
from likewise.training.loop import Listener, Training
from likewise.training.runs.checkpoints import Checkpoints
from likewise.training.train import train

from .tiny import PROTOCOL, assert_equal_weights, likewise, method, pictures, protocol_file, training, vectors_file, weights_of

METHODS: dict[str, Method] = {
    "rows": method("raw_vthm"),
    "drawing miner": method("margin"),
    "memory": method("contrastive", memory=40, memory_warm_up=0.2),
    "hard classes": method("raw", sampler__name="hard_classes"),
    "episodes": method("prototypical"),
    "proxies": method("proxy_nca"),
    "ensemble": method("dreml", ensemble__members=2),
    "multilevel": method("ranked_list_multilevel"),
    "parts": method("bier"),
    "running means": method("htl"),
    "loss that learns": method("pddm"),
}
AUGMENTED = replace(
    PROTOCOL, train_augmentation="resized28", test_augmentation="whole28", steps=18, validate_every=4, frozen_batch_norm=False
)


class StopsAt(Listener):
    """Keeps its checkpoint in a file, as a run does."""

    def __init__(self, folder: Path, training: Training, step: int) -> None:
        self.kept_in, self.training, self.at = Checkpoints(folder), training, step

    def wants_to_stop(self) -> bool:
        return self.training.step == self.at

    def save(self, state: dict[str, Any]) -> None:
        self.kept_in.save(state)


STARTED: dict[str, Any] = {"head_start": "whitening", "decay_towards": "start", "weight_decay": 3.0}


@pytest.mark.parametrize("chosen", METHODS.values(), ids=METHODS)
@pytest.mark.parametrize("changes", [{"optimizer": "adamw"}, {"optimizer": "sgd"}, STARTED], ids=["adamw", "sgd", "from a whitening"])
def test_a_stopped_training_goes_on_bit_for_bit(chosen: Method, changes: dict[str, Any], tmp_path: Path) -> None:
    """Stopped within an epoch and at the end of one, before and after a validation; weights, proxies, log and best step are the same."""
    protocol = replace(AUGMENTED, **changes)

    def fresh() -> Training:
        return training(chosen, protocol, held_out=pictures(classes=4, seed=1))

    whole = fresh()
    assert whole.run()
    assert whole.epoch > 0
    stopped = fresh()
    for step in (1, 5, len(stopped.sampler), 15):
        listener = StopsAt(tmp_path, stopped, step)
        assert not stopped.run(listener)
        torch.manual_seed(step)  # what the process did meanwhile does not matter
        torch.rand(3)
        stopped = fresh()
        state = listener.kept_in.load()
        assert state is not None
        stopped.load_state_dict(state)
        assert stopped.step == step
    assert stopped.run()
    assert_equal_weights(stopped.network.state_dict(), whole.network.state_dict())
    assert_equal_weights(stopped.objectives.state_dict(), whole.objectives.state_dict())
    untimed = [[{k: v for k, v in row.items() if "second" not in k} for row in one.rows] for one in (stopped, whole)]
    assert untimed[0] == untimed[1]
    assert (stopped.best_step, stopped.best) == (whole.best_step, whole.best)


STEPS = 400
SETTINGS = {"sampler.name": "hard_classes", "memory": 64, "memory_warm_up": 0.01}  # with margin's miner, which draws: all that has a state


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("resume")
    vectors_file(folder / "vectors.npz", classes=32)
    protocol_file(folder, steps=STEPS, validate_every=100)
    return folder


def in_python(place: Path, out: Path, *, resume: bool = False) -> dict[str, Any]:
    """What `train` is given."""
    shared = {"method": "margin", "data": place / "vectors.npz", "protocol": place / "tiny.toml", "settings": SETTINGS}
    return {**shared, "out": out, "resume": resume, "seed": 3, "device": "cpu", "checkpoint_every": 2}


@pytest.fixture(scope="module")
def uninterrupted(place: Path) -> Path:
    return train(**in_python(place, place / "whole")).folder


def start(place: Path, out: Path) -> subprocess.Popen[str]:
    """The same at the command line."""
    sets = [part for name, value in SETTINGS.items() for part in ("--set", f"{name}={value}")]
    common = ("--seed", "3", "--device", "cpu", "--checkpoint-every", "2")
    return likewise("train", "margin", place / "vectors.npz", "--protocol", place / "tiny.toml", "--out", out, *common, *sets)


def wait_for_checkpoint(out: Path, *, other_than: int = 0) -> int:
    """When the last checkpoint was written, as soon as there is another one."""
    for _ in range(120_000):
        found = written_at(out)
        if found not in (0, other_than):
            return found
        time.sleep(0.001)
    raise AssertionError(f"no checkpoint in {out}")


def written_at(out: Path) -> int:
    try:
        return (out / "checkpoints" / "last.ckpt").stat().st_mtime_ns
    except FileNotFoundError:
        return 0


def assert_same_run(found: Path, expected: Path) -> None:
    bundles = [(run / "embedder" / "model.safetensors").read_bytes() for run in (found, expected)]
    assert_equal_weights(weights_of(found), weights_of(expected))
    assert bundles[0] == bundles[1]
    ends = [json.loads((run / "scores.json").read_text()) for run in (found, expected)]
    for name in ("scores", "best_step", "validation", "num_test_items"):
        assert ends[0][name] == ends[1][name], name
    logs = [list(csv.DictReader((run / "log.csv").read_text().splitlines())) for run in (found, expected)]
    for name in ("step", "loss", "R@1", "MAP@R"):
        assert [row[name] for row in logs[0]] == [row[name] for row in logs[1]], name
    assert [int(row["step"]) for row in logs[0]] == sorted({int(row["step"]) for row in logs[0]})


SIGNALS = {"SIGTERM": signal.SIGTERM, "Ctrl-C": signal.SIGINT}


@pytest.fixture(scope="module")
def signalled(place: Path) -> dict[signal.Signals, tuple[int, str]]:
    """How a run ended that got this signal, and what it said. They run at the same time, as they mostly import."""
    processes = {number: start(place, place / number.name) for number in SIGNALS.values()}
    with ThreadPoolExecutor() as threads:
        list(threads.map(lambda number: (wait_for_checkpoint(place / number.name), processes[number].send_signal(number)), processes))
    said = {number: process.communicate(timeout=60)[1] for number, process in processes.items()}
    return {number: (process.returncode, said[number]) for number, process in processes.items()}


@pytest.mark.parametrize("number", SIGNALS.values(), ids=SIGNALS)
def test_a_signal_finishes_the_step_saves_and_says_how_to_go_on(
    number: signal.Signals, signalled: dict[signal.Signals, tuple[int, str]], place: Path, uninterrupted: Path
) -> None:
    code, said = signalled[number]
    out = place / number.name
    assert code == 130
    assert "finishing the step, then saving" in said
    kept = Checkpoints(out / "checkpoints").load()
    assert kept is not None
    assert 0 < kept["step"] < STEPS
    assert f"stopped after step {kept['step']} of {STEPS}; the same command with --resume goes on from there" in said
    assert not (out / "scores.json").exists()
    assert_same_run(train(**in_python(place, out, resume=True)).folder, uninterrupted)


def test_killed_twenty_times_in_a_row(place: Path, uninterrupted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """kill -9, at whatever the run is doing then: in a step, between two, in the middle of writing a checkpoint or the log.

    Each run is a process of its own, forked from one that has only imported what a training needs: that saves seconds a start.
    """
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["likewise.training.train", "likewise.engines", "lightning_fabric"])
    draw = random.Random(0)
    out = place / "killed"
    reached = []
    for kills in range(20):
        before = written_at(out)
        process = server.Process(target=train, kwargs=in_python(place, out, resume=kills > 0))
        process.start()
        wait_for_checkpoint(out, other_than=before)
        time.sleep(draw.uniform(0, 0.03))
        process.kill()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        kept = Checkpoints(out / "checkpoints").load()
        assert kept is not None
        reached.append(kept["step"])
    assert reached == sorted(set(reached)), "every start got further"
    assert not (out / "scores.json").exists()
    assert_same_run(train(**in_python(place, out, resume=True)).folder, uninterrupted)


def test_a_finished_run_is_not_run_again(uninterrupted: Path, place: Path) -> None:
    """resume of a run that has ended gives its scores, and changes nothing."""
    held = {path: path.read_bytes() for path in uninterrupted.rglob("*") if path.is_file()}
    found = train(**in_python(place, uninterrupted, resume=True))
    assert found.scores == json.loads((uninterrupted / "scores.json").read_text())["scores"]
    assert {path: path.read_bytes() for path in uninterrupted.rglob("*") if path.is_file()} == held
