"""Kills at any moment, several processes at once: the table is the same to the last digit."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import psutil
import pytest

from likewise.comparison.folder import find_folder
from likewise.comparison.results import ComparisonResults

from .tiny import DATA, openings_of, table_of, tiny_compare

KILLS = 10
NUM_PIECES = 32  # of the tiny comparison


def in_child(out: Path) -> int:
    """A process that runs the tiny comparison. Forked, so that it starts without importing everything again."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            tiny_compare(out)
            code = 0
        finally:
            os._exit(code)
    return pid


def finished_pieces(out: Path) -> int:
    folder = find_folder(out)
    if folder is None:
        return 0
    with closing(folder.store()) as store:
        return sum(claim.finished is not None for claim in store.claims().values())


def seconds_a_piece(results: ComparisonResults) -> float:
    """About, on this machine as busy as it is."""
    return sum(results.time_spent[kind] for kind in ("training", "evaluation", "saving", "database")) / NUM_PIECES


def test_killed_at_ten_moments(finished: ComparisonResults, tmp_path: Path) -> None:
    out = tmp_path / "out"
    moments = random.Random(6)
    slowness = max(1.0, seconds_a_piece(finished) / 0.1)
    done = []
    for number in range(KILLS):
        pid = in_child(out)
        time.sleep(slowness * moments.uniform(0.05, 0.8))
        while number == KILLS - 1 and not finished_pieces(out):  # however busy the machine is
            time.sleep(0.05)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        done.append(finished_pieces(out))
    assert done == sorted(done)  # what was finished stays
    assert done[-1] > 0
    found = tiny_compare(out)
    assert table_of(found) == table_of(finished)
    granted = [opening for opening in found.guard_record if opening["event"] in ("opened", "resumed")]
    assert len({opening["run"] for opening in granted}) == 9
    assert len({(opening["run"], opening["decided"]) for opening in granted}) == 9
    assert "refused" not in openings_of(found)


def test_two_processes_at_once(finished: ComparisonResults, tmp_path: Path) -> None:
    out = tmp_path / "out"
    children = [in_child(out) for _ in range(2)]
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0]
    found = tiny_compare(out)
    assert table_of(found) == table_of(finished)
    assert openings_of(found).count("opened") == 9  # each piece once
    assert "resumed" not in openings_of(found)
    folder = find_folder(out)
    assert folder is not None
    with closing(folder.store()) as store:
        assert len({claim.owner for claim in store.claims().values()}) == 2


def test_two_workers_one_killed(finished: ComparisonResults, tmp_path: Path) -> None:
    """`--jobs 2`; a worker that is killed is replaced, and its piece done by another."""
    killed: list[int] = []

    def kill_one(progress: object) -> None:
        if not killed and any(claim.finished is None for claim in progress.claims.values()):  # type: ignore[attr-defined]
            workers = [child for child in psutil.Process().children() if "likewise.comparison.running.workers" in child.cmdline()]
            workers[0].kill()
            killed.append(workers[0].pid)

    found = tiny_compare(tmp_path / "out", jobs=2, on_progress=kill_one)
    assert killed
    assert table_of(found) == table_of(finished)
    assert not [child for child in psutil.Process().children() if "likewise.comparison.running.workers" in child.cmdline()]


def started(out: Path, jobs: int) -> tuple[subprocess.Popen[str], list[psutil.Process]]:
    """The command, at work, and its workers; in a process group of its own, as from a terminal."""
    words = ["compare", DATA, "--methods", "contrastive", "--seeds", "200", "--jobs", str(jobs), "--out", str(out), "--device", "cpu"]
    words += ["--set", "steps=2", "--set", "batch=16", "--set", "dim=8"]
    process = subprocess.Popen(
        [sys.executable, "-m", "likewise", *words], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, start_new_session=True
    )
    while finished_pieces(out) == 0:
        assert process.poll() is None
        time.sleep(0.1)
    return process, psutil.Process(process.pid).children()


@pytest.mark.parametrize("jobs", [1, 2])
def test_interrupted(tmp_path: Path, jobs: int) -> None:
    """Ctrl-C: what is finished stays, it is said how to go on, and nothing is left running."""
    process, workers = started(tmp_path / "out", jobs)
    assert len(workers) == (0 if jobs == 1 else jobs)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to all of them
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "the same command goes on from there" in said
    assert "Traceback" not in said
    assert not psutil.wait_procs(workers, timeout=10)[1]


def test_workers_end_with_a_killed_comparison(tmp_path: Path) -> None:
    process, workers = started(tmp_path / "out", 2)
    process.kill()
    process.communicate()
    assert not psutil.wait_procs(workers, timeout=30)[1]
