"""The same comparison on a Ray cluster and in PostgreSQL."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from likewise.comparison.results import ComparisonResults

from ..optional import needs_package
from .tiny import openings_of, table_of, tiny_compare

ray_warns = pytest.mark.filterwarnings("ignore")  # Ray's own, about sockets and versions


@pytest.fixture
def ray_is_here() -> None:
    needs_package("ray")


def killer(killed: list[int]) -> Iterator[None]:
    """Kills one Ray worker while it is at a piece."""
    while not killed:
        for process in psutil.process_iter(["name", "cmdline"]):
            if any("likewise piece" in part for part in process.info["cmdline"] or []):
                process.kill()
                killed.append(process.pid)
                return
        time.sleep(0.01)
        yield


@ray_warns
@pytest.mark.usefixtures("ray_is_here")
def test_ray_finds_the_same_though_a_worker_is_killed(finished: ComparisonResults, tmp_path: Path) -> None:
    killed: list[int] = []
    over = threading.Event()

    def watch() -> None:
        for _ in killer(killed):
            if over.is_set():
                return

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        found = tiny_compare(tmp_path / "out", ray="local", jobs=2)
    finally:
        over.set()
        thread.join()
    assert killed
    assert table_of(found) == table_of(finished)
    assert openings_of(found).count("opened") == 9
    assert "refused" not in openings_of(found)


@ray_warns
@pytest.mark.usefixtures("ray_is_here")
@pytest.mark.parametrize(
    ("asked", "said"), [({"ray": "nowhere:1"}, "no Ray cluster answers"), ({"ray": "local", "gpu_share": 2.0}, "--gpu-share is 2.0")]
)
def test_ray_that_cannot_be(tmp_path: Path, asked: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        tiny_compare(tmp_path / "out", **asked)


def test_postgresql_finds_the_same(finished: ComparisonResults, tmp_path: Path, postgresql: str) -> None:
    found = tiny_compare(tmp_path / "out", store=postgresql)
    assert table_of(found) == table_of(finished)
    assert not list((tmp_path / "out").glob("*.sqlite"))
    with pytest.raises(ValueError, match="give that address with --store"):
        tiny_compare(tmp_path / "out")
    other = tiny_compare(tmp_path / "other", store=postgresql, methods=["contrastive"], trials=0, seeds=1)  # beside it, in one database
    assert [method.name for method in other.methods] == ["contrastive", "untrained"]
    assert table_of(tiny_compare(tmp_path / "out", store=postgresql)) == table_of(finished)
