"""Rows of features on the disk: whatever happens to their files, or to who writes them, is noticed and mended, and nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from filelock import FileLock

from likewise.data.dataset import Dataset, Files
from likewise.models.frozen import frozen_features as module
from likewise.sealing import Mended

from .made_features import COUNT, Compute, assert_alike, by_hand, rows_files


@pytest.mark.parametrize("damage", ["cut", "empty", "one bit", "other content", "no digest"])
def test_damage_is_noticed_and_mended(damage: str, made: Dataset, compute: Compute, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FILE_ROWS", 8)
    expected = compute(made).vectors
    files = rows_files(home)
    assert len(files) == 3
    for number, path in enumerate(files):
        content = bytearray(path.read_bytes())
        if damage == "one bit":
            content[(number + 1) * len(content) // 4] ^= 16
        changed = {"cut": content[: len(content) // 2], "empty": b"", "other content": b"rows" * 100, "no digest": content[:-32]}
        path.write_bytes(changed.get(damage, content))
    with pytest.warns(Mended, match="was damaged: its features are computed again"):
        assert torch.allclose(compute(made).vectors, expected, atol=1e-5)
    assert compute.decoded == COUNT
    compute(made)
    assert compute.decoded == 0


def test_what_was_done_before_an_interruption_is_kept(made: Dataset, compute: Compute) -> None:
    def interrupt(what: str, done: int, total: int) -> None:
        if done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compute(made, on_progress=interrupt)
    compute(made)
    assert compute.decoded == COUNT - 4


def test_whoever_waits_is_told(made: Dataset, compute: Compute, home: Path) -> None:
    compute(made.subset(np.arange(2)))
    (place,) = home.iterdir()
    lock = FileLock(place / "lock", thread_local=False)
    lock.acquire()
    told: list[str] = []

    def release(what: str, done: int, total: int) -> None:
        told.append(what)
        lock.release()

    compute(made, on_progress=release)
    assert told[0] == "waiting for another process that computes features of made"


def test_a_folder_that_cannot_be_written(made: Dataset, compute: Compute, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match=r"no features can be kept here .*LIKEWISE_CACHE"):
        compute(made, folder=tmp_path / "file")


def test_a_full_disk_is_said(made: Dataset, compute: Compute, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_rows", full)
    with pytest.raises(OSError, match=r"No space left on device for features: free some space"):
        compute(made)


PROCESS = """
import sys, time
from pathlib import Path
import numpy as np
from likewise.data.dataset import Dataset, Files
from likewise.models.frozen import frozen_features as module
from likewise.models.frozen import streaming

images, home, weights, seconds = Path(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
original, module.FILE_ROWS, streaming.BATCH = streaming.loaded, 4, 2

def slowly(image):
    time.sleep(seconds)
    sys.stdout.write(f"decoded {image.path.name}\\n")  # in one piece, as two threads write
    sys.stdout.flush()
    return original(image)

streaming.loaded = slowly
paths = tuple(sorted(images.iterdir()))
data = Dataset("made", Files(paths), np.zeros(len(paths), np.int64), ("a",))
features = module.frozen_features(
    data, backbone="convnet_small", weights=weights, augmentation="centre64", side=64, folder=home, workers=2,
    on_progress=lambda what, done, total: print("told", what, flush=True),
)
print("sum", float(features.vectors.double().sum()))
"""


def start(images: Path, home: Path, weights: Path, *, seconds: float = 0.0) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PROCESS, str(images), str(home), str(weights), str(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})


def lines(process: subprocess.Popen[str], kind: str) -> list[str]:
    output, _ = process.communicate(timeout=60)
    return [line.removeprefix(kind).strip() for line in output.splitlines() if line.startswith(kind)]


@pytest.fixture
def ended() -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that are killed if the test does not end them."""
    processes: list[subprocess.Popen[str]] = []
    yield processes
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("kind", [signal.SIGKILL, signal.SIGINT], ids=["kill -9", "Ctrl-C"])
def test_a_process_that_ended_early_is_gone_on_from(
    kind: signal.Signals, made: Dataset, compute: Compute, home: Path, weights: Path, ended: list[subprocess.Popen[str]]
) -> None:
    assert isinstance(made.items, Files)
    process = start(made.items.paths[0].parent, home, weights, seconds=0.3)
    ended.append(process)
    deadline = time.monotonic() + 60
    while not rows_files(home) and time.monotonic() < deadline:
        time.sleep(0.01)
    process.send_signal(kind)
    decoded = len(lines(process, "decoded "))
    assert process.returncode != 0
    assert 4 <= decoded < COUNT, "it was done before it could be ended"
    (place,) = home.iterdir()
    (place / ".abc.rows.0123abcd").write_bytes(b"unfinished")
    features = compute(made)
    assert compute.decoded <= COUNT - 4  # of what was in a file nothing is lost
    assert_alike(features.vectors, by_hand(made, weights))
    assert not (place / ".abc.rows.0123abcd").exists()


def test_two_processes_at_once_compute_once(made: Dataset, home: Path, weights: Path, ended: list[subprocess.Popen[str]]) -> None:
    assert isinstance(made.items, Files)
    ended.extend(start(made.items.paths[0].parent, home, weights, seconds=0.1) for _ in range(2))
    decoded = [lines(process, "decoded ") for process in ended]
    assert [process.returncode for process in ended] == [0, 0]
    assert sorted(decoded[0] + decoded[1]) == [path.name for path in made.items.paths]
