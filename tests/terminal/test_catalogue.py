from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from likewise.cli import app
from likewise.configuration import from_table
from likewise.methods import METHODS, Method, load_method
from likewise.protocols import PROTOCOLS, Protocol, load_protocol
from likewise.terminal.catalogue import PAPERS, methods_by_paper, protocols_by_origin


def told(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments), env={"COLUMNS": "140"})
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    return result.stdout


def test_methods_are_listed_with_one_line_each() -> None:
    lines = told("methods").splitlines()
    for name in METHODS:
        found = [line for line in lines if line.split()[:1] == [name]]
        assert len(found) == 1
        assert load_method(name).summary in found[0]
    assert next(line for line in lines if line.startswith("raw_vthm ")).split()[-1] == "66.85"
    assert len([line for line in lines if line.strip()]) == len(METHODS) + len(PAPERS) + 1  # and the names of the columns


def test_protocols_are_listed_with_one_line_each() -> None:
    lines = told("protocols").splitlines()
    for name in PROTOCOLS:
        protocol = load_protocol(name)
        found = [line for line in lines if line.split()[:1] == [name]]
        assert len(found) == 1
        assert protocol.about in found[0]
        assert found[0].split()[-2:] == [str(protocol.batch), f"{protocol.steps:,}"]


@pytest.mark.parametrize(("groups", "names"), [(methods_by_paper(), METHODS), (protocols_by_origin(), PROTOCOLS)])
def test_each_is_in_one_group(groups: dict[str, list[str]], names: tuple[str, ...]) -> None:
    assert sorted(name for group in groups.values() for name in group) == sorted(names)
    assert all(groups.values())


def test_methods_stand_under_their_papers() -> None:
    groups = methods_by_paper()
    assert list(groups) == list(PAPERS.values())
    assert groups[PAPERS["nonlinear rank"]] == ["nonlinear_rank", "softmax"]
    assert "paper-nra-cub" in protocols_by_origin()[PAPERS["nonlinear rank"]]


def test_json_holds_all_settings() -> None:
    methods, protocols = json.loads(told("methods", "--json")), json.loads(told("protocols", "--json"))
    assert {name: from_table(Method, table, where=name) for name, table in methods.items()} == {name: load_method(name) for name in METHODS}
    assert {name: from_table(Protocol, table, where=name) for name, table in protocols.items()} == {
        name: load_protocol(name) for name in PROTOCOLS
    }
