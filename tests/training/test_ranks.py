"""Two processes train to the weights that one process trains to, and write one run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from likewise.training.train import train

from .ranks_worker import METHODS, trained
from .tiny import likewise, protocol_file, vectors_file, weights_of

WORKER = Path(__file__).with_name("ranks_worker.py")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory: pytest.TempPathFactory) -> list[dict[tuple[str, int | None], dict[str, Any]]]:
    """What each of two processes trained; they are started once for all tests."""
    folder = tmp_path_factory.mktemp("ranks")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(WORKER), str(folder)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    found = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert found.returncode == 0, found.stderr
    return [torch.load(folder / f"{rank}.pt") for rank in range(2)]


@cache
def trained_alone(name: str) -> dict[str, Any]:
    return trained(name, None)


@pytest.mark.parametrize("micro_batch", [None, 3], ids=["whole", "micro-batches"])
@pytest.mark.parametrize("name", METHODS)
def test_two_processes_train_to_the_weights_of_one(
    ranks: list[dict[tuple[str, int | None], dict[str, Any]]], name: str, micro_batch: int | None
) -> None:
    expected = trained_alone(name)
    for rank in ranks:
        found = rank[name, micro_batch]
        assert found["best_step"] == expected["best_step"]
        for row, wanted in zip(found["rows"], expected["rows"], strict=True):
            assert row == pytest.approx(wanted, rel=1e-4, abs=1e-5)
        for part in ("network", "objectives"):
            assert found[part].keys() == expected[part].keys()
            for key, value in expected[part].items():
                torch.testing.assert_close(found[part][key], value, rtol=1e-3, atol=1e-5, msg=lambda text, key=key: f"{key}: {text}")
    for part in ("network", "objectives"):  # no rank drifts from the other
        for key, value in ranks[0][name, micro_batch][part].items():
            assert torch.equal(ranks[1][name, micro_batch][part][key], value), key


def test_the_command_under_torchrun_writes_one_run(tmp_path: Path) -> None:
    data = vectors_file(tmp_path / "vectors.npz", classes=32)
    protocol = protocol_file(tmp_path, steps=8, validate_every=4, optimizer="sgd")
    process = likewise("train", "raw", data, "--protocol", protocol, "--out", tmp_path / "two", "--device", "cpu", ranks=2)
    told, said = process.communicate(timeout=200)
    assert process.returncode == 0, said
    alone = train("raw", data, protocol=protocol, out=tmp_path / "one", device="cpu")
    for name, value in weights_of(tmp_path / "one").items():
        torch.testing.assert_close(weights_of(tmp_path / "two")[name], value, rtol=1e-3, atol=1e-5)
    scores = json.loads((tmp_path / "two" / "scores.json").read_text())["scores"]
    assert scores == pytest.approx(alone.scores, abs=0.02)
    openings = [json.loads(line)["event"] for line in (tmp_path / "two" / "test_openings.jsonl").read_text().splitlines()]
    assert openings == ["key", "opened"]
    assert len((tmp_path / "two" / "log.csv").read_text().splitlines()) == 9
    assert len(list((tmp_path / "two" / "tensorboard").iterdir())) == 1
    assert told.count("R@1") == 1
    config = [json.loads((tmp_path / run / "config.json").read_text()) for run in ("one", "two")]
    assert config[0] == config[1]
