"""What may be asked for, and by which names: once, in Request."""

from __future__ import annotations

import inspect
from dataclasses import MISSING, fields

import pytest

import likewise
from likewise.comparison.request import Request


def test_compare_takes_what_a_request_has_and_no_more() -> None:
    """The same names in the same order with the same defaults; None stands for an empty table."""
    beside = ("report", "on_progress")
    parameters = {name: entry for name, entry in inspect.signature(likewise.compare).parameters.items() if name not in beside}
    assert list(parameters) == [entry.name for entry in fields(Request)]
    for entry in fields(Request):
        assert parameters[entry.name].default == (None if entry.default is MISSING else entry.default)
    assert all(f"{name}:" in str(Request.__doc__) or f"{name}," in str(Request.__doc__) for name in parameters)


def test_compare_hands_everything_on(monkeypatch: pytest.MonkeyPatch) -> None:
    received: list[Request] = []
    monkeypatch.setattr("likewise.reports.comparison_report.run_comparison", lambda request, on_progress: received.append(request))
    options = {
        "methods": "raw",
        "data": "digits",
        "protocol": "quick",
        "settings": {"steps": 2},
        "equal": "time",
        "tune": "all",
        "trials": 3,
        "folds": 4,
        "seeds": 5,
        "sweeps": {"dim": [6]},
        "levels": True,
        "weights": "w.pth",
        "jobs": 7,
        "out": "o",
        "store": "s",
        "ray": "local",
        "gpu_share": 0.5,
        "device": "cpu",
        "indifferent": 1.5,
        "keep_networks": True,
        "keep_items": False,
        "minutes": 30.0,
        "command": "c",
    }
    assert options.keys() == {entry.name for entry in fields(Request)}
    likewise.compare(**options, report=False)  # type: ignore[arg-type]
    assert received == [Request(**options)]  # type: ignore[arg-type]


def test_a_request_does_not_show_its_store() -> None:
    assert "secret" not in repr(Request(store="postgresql+psycopg://me:secret@host/base", command="--store secret"))
