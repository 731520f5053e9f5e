"""Addresses of databases: what is no address is told, and a password is shown nowhere."""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

import pytest
import sqlalchemy as sql
from typer.testing import CliRunner

from likewise.addresses import Address
from likewise.cli import app
from likewise.comparison.folder import find_folder
from likewise.comparison.running.store import Store
from likewise.comparison.running.workers import Orders

from ..optional import needs_package
from .tiny import DATA, tiny_compare

SECRET = "hunter2secret"


@pytest.mark.parametrize("address", ["nonsense", "postgresql+nothing://here/there", "sqlite:////not/there/at/all.sqlite"])
def test_an_address_that_is_none_is_told(address: str) -> None:
    with pytest.raises(ValueError, match="store"):
        Store(Address(address), "one")


def test_the_extra_that_brings_postgresql_is_named() -> None:
    with pytest.raises(ValueError, match=r"pip install 'likewise\[postgresql\]'"):
        Store(Address("postgresql+nothing://here/there"), "one")


@pytest.mark.parametrize(
    "address", [f"postgresql+psycopg://user:{SECRET}@localhost:1/db", f"postgresql+psycopg://user@localhost:1/db?password={SECRET}"]
)
def test_a_server_that_does_not_answer_is_named_without_its_password(tmp_path: Path, address: str) -> None:
    needs_package("psycopg")
    words = ["compare", DATA, "--methods", "contrastive", "--jobs", "1", "--set", "batch=16", "--out", str(tmp_path / "out")]
    said = CliRunner().invoke(app, [*words, "--store", address])
    assert said.exit_code == 2
    assert "cannot be opened" in said.output
    assert "localhost" in said.output
    assert SECRET not in said.output


@pytest.mark.parametrize("where", ["address", "query"])
def test_a_comparison_never_tells_the_password(tmp_path: Path, postgresql: str, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither its folder, nor its results, nor its database, nor --status, nor its refusals."""
    url = sql.make_url(postgresql)
    url = url.set(password=SECRET) if where == "address" else url.update_query_dict({"password": SECRET})
    store, out = url.render_as_string(hide_password=False), tmp_path / "out"
    assert SECRET in store
    monkeypatch.setattr(sys, "argv", ["likewise", "compare", DATA, f"--store={store}", "--store", store])
    results = tiny_compare(out, methods=["contrastive"], trials=0, seeds=1, store=store, report=True)
    assert results.command.count("//postgres:***@" if where == "address" else "password=***") == 2
    shown = [results.command, *results.notes, *(path.read_text(errors="replace") for path in out.rglob("*") if path.is_file())]
    assert "postgresql+psycopg" in json.loads((out / "comparison.json").read_text())["store"]
    engine = sql.create_engine(store)
    with engine.connect() as connection:
        shown += [str(row) for row in connection.execute(sql.text("SELECT plan, about FROM likewise_comparisons")).all()]
    engine.dispose()
    status = CliRunner().invoke(app, ["compare", "--status", str(out), "--store", store])
    assert status.exit_code == 0
    shown.append(status.output)
    with pytest.raises(ValueError, match="give that address with --store") as refusal:
        tiny_compare(out)
    shown.append(str(refusal.value))
    ledger = Path(os.environ["LIKEWISE_STATE"])
    assert (ledger / "ledger.jsonl").is_file()
    shown += [path.read_text() for path in ledger.rglob("*") if path.is_file()]
    shown += [repr(find_folder(out, store=store)), repr(Orders(None, Address(store), "one"))]  # type: ignore[arg-type]
    assert not [text for text in shown if SECRET in text]


def test_an_address_that_cannot_be_taken_apart_is_not_quoted() -> None:
    """SQLAlchemy's own words would quote what it takes for a port: a piece of the password."""
    with pytest.raises(ValueError, match="is no address of a database") as refusal:
        Store(Address(f"postgresql+psycopg://user:a@b:{SECRET}@host/db"), "one")
    assert SECRET not in "".join(traceback.format_exception(refusal.value))  # as Python shows it to who calls it
