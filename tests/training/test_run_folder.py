"""The folder of a run: refused where it is another's, and never the poorer for a fault."""

from __future__ import annotations

import csv
import errno
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import save_file

from likewise.models.backbones import make_backbone
from likewise.training.runs.run_folder import RunFolder
from likewise.training.train import train
from likewise.training.watchdogs import Diverged

from .test_tensorboard import scalars
from .tiny import HELD_OUT, PROTOCOL, events, pictures


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return train("raw", pictures(noise=150), protocol=HELD_OUT, out=tmp_path_factory.mktemp("runs") / "raw", device="cpu").folder


def test_another_runs_folder_is_left_alone(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    with pytest.raises(ValueError, match=r"holds this run already: add --resume"):
        train("raw", pictures(noise=150), protocol=HELD_OUT, out=run, device="cpu")
    for resume in (False, True):
        with pytest.raises(ValueError, match=r"holds another run: its protocol.steps is 6, now it is 7\. Choose another --out"):
            train("raw", pictures(noise=150), protocol=HELD_OUT, out=run, settings={"steps": 7}, resume=resume, device="cpu")
    with pytest.raises(ValueError, match=r"its data.fingerprint is .* \(1 more fields differ\)"):
        train("raw", pictures(noise=150, seed=1), protocol=HELD_OUT, out=run, seed=3, resume=True, device="cpu")
    with pytest.raises(ValueError, match=r"its method\.loss\.alpha is"):
        train("raw", pictures(noise=150), protocol=HELD_OUT, out=run, settings={"loss.alpha": 3.0}, resume=True, device="cpu")
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_a_run_goes_on_with_its_own_weights_alone(tmp_path: Path) -> None:
    """What the backbone started from is part of the run: another file, or none, is another run."""
    for name in ("own", "other"):
        save_file(make_backbone("convnet_small").state_dict(), tmp_path / f"{name}.safetensors")
    settings: dict[str, Any] = {"protocol": replace(PROTOCOL, weights="optional"), "out": tmp_path / "run", "device": "cpu"}
    result = train("raw", pictures(), weights=tmp_path / "own.safetensors", **settings)
    (tmp_path / "run" / "scores.json").unlink()  # as if it had been stopped before its end
    for weights in (tmp_path / "other.safetensors", None):
        with pytest.raises(ValueError, match=r"holds another run: its weights is '[0-9a-f]{64}', now it is ('[0-9a-f]{64}'|absent)\."):
            train("raw", pictures(), weights=weights, resume=True, **settings)
    (tmp_path / "own.safetensors").rename(tmp_path / "moved.safetensors")  # the content counts, not the name
    assert train("raw", pictures(), weights=tmp_path / "moved.safetensors", resume=True, **settings).scores == result.scores


def test_a_folder_with_other_things_in_it_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(ValueError, match="exists and holds no run: choose a new or empty folder"):
        train("raw", pictures(), protocol=PROTOCOL, out=tmp_path, device="cpu")
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_an_empty_folder_and_what_a_run_killed_at_once_left_are_taken(tmp_path: Path) -> None:
    (tmp_path / ".config.json.0123abcd").write_text("{")
    train("raw", pictures(), protocol=PROTOCOL, out=tmp_path, device="cpu")
    assert RunFolder(tmp_path).scores() is not None
    assert not (tmp_path / ".config.json.0123abcd").exists()


def test_a_run_killed_between_its_card_and_its_scores_ends_when_resumed(tmp_path: Path) -> None:
    result = train("raw", pictures(noise=150), protocol=HELD_OUT, out=tmp_path / "run", device="cpu")
    for name in ("scores.json", "README.md"):
        (tmp_path / "run" / name).unlink()
    again = train("raw", pictures(noise=150), protocol=HELD_OUT, out=tmp_path / "run", resume=True, device="cpu")
    assert again.scores == result.scores
    assert (tmp_path / "run" / "README.md").exists()
    assert events(tmp_path / "run") == ["key", "opened", "key", "resumed"]


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The disk is full from the third checkpoint on."""
    written: list[int] = []
    fsync = os.fsync

    def limited(handle: int) -> None:
        name = Path(os.readlink(f"/proc/self/fd/{handle}")).name
        if name.startswith(".next.ckpt."):
            written.append(handle)
            if len(written) > 2:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(handle)

    monkeypatch.setattr(os, "fsync", limited)
    yield written
    monkeypatch.undo()


def test_a_run_on_a_full_disk_loses_nothing(full_disk: list[int], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    data = pictures(noise=150)
    settings: dict[str, Any] = {"protocol": HELD_OUT, "device": "cpu", "checkpoint_every": 1}
    with pytest.raises(OSError, match=r"No space left on device.*make room there"):
        train("raw", data, out=tmp_path / "run", **settings)
    assert len(full_disk) == 3
    state = RunFolder(tmp_path / "run").checkpoints.load()
    assert state is not None
    assert state["step"] == 2
    monkeypatch.undo()
    resumed = train("raw", data, out=tmp_path / "run", resume=True, **settings)
    whole = train("raw", data, out=tmp_path / "whole", **settings)
    assert resumed.scores == whole.scores
    bundles = [(one.folder / "embedder" / "model.safetensors").read_bytes() for one in (resumed, whole)]
    assert bundles[0] == bundles[1]
    logs = [csv.DictReader((one.folder / "log.csv").read_text().splitlines()) for one in (resumed, whole)]
    losses = [[(row["step"], row["loss"]) for row in log] for log in logs]
    assert losses[0] == losses[1]
    assert [step for step, _ in scalars(resumed.folder / "tensorboard")["loss"]] == [1, 2, 3, 4, 5, 6]


def test_a_divergence_says_where_the_last_good_checkpoint_is(tmp_path: Path) -> None:
    settings = {"learning_rate": 1e30, "optimizer": "sgd"}
    with pytest.raises(Diverged, match=r"The last good checkpoint is .*run/checkpoints/last\.ckpt, of step [1-9]"):
        train("n_pairs", pictures(), protocol=PROTOCOL, out=tmp_path / "run", settings=settings, device="cpu", checkpoint_every=1)
    state = RunFolder(tmp_path / "run").checkpoints.load()
    assert state is not None
    assert all(value.isfinite().all() for name, value in state["network"].items() if value.is_floating_point() and "running" not in name)
