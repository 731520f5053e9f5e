"""A full disk and a database that is gone, in the middle: told in words, no method is blamed, and the same command goes on."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
import sqlalchemy as sql
from typer.testing import CliRunner

from likewise.cli import app
from likewise.comparison.folder import DATABASE
from likewise.comparison.plan_progress import Progress
from likewise.comparison.results import ComparisonResults
from likewise.comparison.running.database import sqlite_url
from likewise.comparison.running.store import Store
from likewise.comparison.running.workers import LocalRunner, Orders

from .test_plan import plan_of
from .tiny import DATA, table_of, tiny_compare

GO_ON = "What was finished is kept: .*give the same command again"


@contextmanager
def files_no_larger_than(size: int) -> Iterator[None]:
    """As on a disk that fills up: this process and those that it starts cannot write beyond."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_disk_that_is_full_for_networks(finished: ComparisonResults, tmp_path: Path, jobs: int) -> None:
    """Tuning fits on it, a network does not: no method has failed, and with room again the table is as without a break."""
    out = tmp_path / "out"
    with pytest.raises(OSError, match=rf"(?s)the comparison in {out} stopped: .*File too large.*{GO_ON}"), files_no_larger_than(500_000):
        tiny_compare(out, jobs=jobs)
    again = tiny_compare(out)
    assert table_of(again) == table_of(finished)
    assert again.notes == finished.notes


def test_a_database_file_that_is_removed(tmp_path: Path) -> None:
    def remove(progress: Progress) -> None:
        if any(claim.finished is not None for claim in progress.claims.values()):
            (tmp_path / "out" / DATABASE).unlink(missing_ok=True)

    with pytest.raises(OSError, match=rf"(?s)its database {tmp_path}/out/{DATABASE} is gone.*{GO_ON}"):
        tiny_compare(tmp_path / "out", on_progress=remove)


def test_a_server_that_goes_away(tmp_path: Path, server: str, postgresql: str) -> None:
    dropped: list[str] = []

    def drop(progress: Progress) -> None:
        if not dropped and any(claim.finished is not None for claim in progress.claims.values()):
            dropped.append(str(sql.make_url(postgresql).database))
            engine = sql.create_engine(server, isolation_level="AUTOCOMMIT")
            with engine.connect() as connection:
                connection.execute(sql.text(f"DROP DATABASE {dropped[0]} WITH (FORCE)"))
            engine.dispose()

    with pytest.raises(OSError, match=rf"(?s)its database postgresql.* fails: .*{GO_ON}"):
        tiny_compare(tmp_path / "out", store=postgresql, on_progress=drop)


def test_the_command_tells_it(tmp_path: Path) -> None:
    words = ["compare", DATA, "--methods", "contrastive", "--seeds", "1", "--jobs", "1", "--out", str(tmp_path / "out"), "--device", "cpu"]
    with files_no_larger_than(100_000):
        done = CliRunner().invoke(app, [*words, "--set", "steps=2", "--set", "batch=16", "--set", "dim=8"])
    assert done.exit_code == 2
    assert "give the same command again" in done.output
    assert "Traceback" not in done.output


def test_a_limit_of_processor_time_is_no_fault_of_a_method(tmp_path: Path) -> None:
    """A worker that the system has ended for it is not begun again until its piece counts as failed: the comparison stops, and says why."""
    url = sqlite_url(tmp_path / "store.sqlite")
    script = "import os, signal; os.kill(os.getpid(), signal.SIGXCPU)"
    runner = LocalRunner(1)
    with closing(runner), closing(Store(url, "one")) as store:
        store.create(plan_of().as_table(), {"command": ""})
        runner._workers = [subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE)]
        runner._workers[0].wait()
        with pytest.raises(OSError, match=r"processor time .*\(ulimit -t\) is used up"):
            runner._watch(Orders(None, url, "one"), store, store.progress)  # type: ignore[arg-type]
        assert store.claims() == {}
