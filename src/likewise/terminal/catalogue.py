"""Catalogue: the methods and the protocols, one line each, as tables for the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from likewise.configuration import as_table
from likewise.methods import METHODS, Method, load_method
from likewise.protocols import PROTOCOLS, Protocol, load_protocol

# What the files' `paper` and the protocols' names stand for, in the order of the table.
PAPERS = {
    "unified view": "A Unified View of Deep Metric Learning via Gradient Analysis",
    "ranked list": "Ranked List Loss for Deep Metric Learning",
    "nonlinear rank": "Deep Metric Learning using Similarities from Nonlinear Rank Approximations",
    "unbiased evaluation": "Unbiased Evaluation of Deep Metric Learning Algorithms",
    "compared with": "Systems that these papers compare with",
    "beyond the papers": "Beyond the papers",
}
ANYWHERE, PRETRAINED = "From scratch, on any machine", "Pretrained networks, equal conditions"
PROTOCOL_PAPERS = {"raw": "unified view", "rll": "ranked list", "nra": "nonlinear rank", "unbiased": "unbiased evaluation"}


def methods_view() -> Group:
    """A line for each method: name, what it does, and the highest R@1 on CUB in the papers' tables."""
    rows = {name: (load_method(name).summary, _published(load_method(name))) for name in METHODS}
    return _view(methods_by_paper(), rows, ("published R@1 on CUB",))


def protocols_view() -> Group:
    """A line for each protocol: name, what it is, images a step, steps."""
    rows = {name: (load_protocol(name).about, f"{load_protocol(name).batch}", f"{load_protocol(name).steps:,}") for name in PROTOCOLS}
    return _view(protocols_by_origin(), rows, ("batch", "steps"))


def settings_of_methods() -> dict[str, Any]:
    """Every method as its file's table, defaults filled in."""
    return {name: as_table(load_method(name)) for name in METHODS}


def settings_of_protocols() -> dict[str, Any]:
    """Every protocol as its file's table, defaults filled in."""
    return {name: as_table(load_protocol(name)) for name in PROTOCOLS}


def methods_by_paper() -> dict[str, list[str]]:
    """The title of a paper -> its methods."""
    return _grouped(((PAPERS.get(method.paper, method.paper), method.name) for method in map(load_method, METHODS)), PAPERS.values())


def protocols_by_origin() -> dict[str, list[str]]:
    """Where protocols come from, the project's own conditions first -> their names."""
    origins = (ANYWHERE, PRETRAINED, *PAPERS.values())
    return _grouped(((_origin(protocol), protocol.name) for protocol in map(load_protocol, PROTOCOLS)), origins)


def _origin(protocol: Protocol) -> str:
    if protocol.name.startswith("paper-"):
        return PAPERS[PROTOCOL_PAPERS[protocol.name.split("-")[1]]]
    return ANYWHERE if protocol.weights == "random" else PRETRAINED


def _grouped(entries: Iterable[tuple[str, str]], order: Iterable[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {title: [] for title in order}
    for title, name in entries:
        groups.setdefault(title, []).append(name)
    return {title: names for title, names in groups.items() if names}


def _published(method: Method) -> str:
    """The highest R@1 on CUB among the papers' tables; they differ in backbone and dimension."""
    published = [scores["R@1"] for protocol, scores in method.published.items() if "-cub" in protocol]
    return f"{max(published):g}" if published else ""


def _view(groups: dict[str, list[str]], rows: Mapping[str, tuple[str, ...]], numbers: tuple[str, ...]) -> Group:
    """A table for each group, all with the same columns: name, one line, numbers."""
    parts: list[RenderableType] = []
    for title, names in groups.items():
        table = Table(box=None, padding=(0, 2, 0, 0), show_header=not parts, header_style="dim", expand=True)
        table.add_column("", min_width=max(map(len, rows)), no_wrap=True, style="bold")
        table.add_column("", ratio=1)
        for name in numbers:
            table.add_column(name, justify="right", min_width=len(name), no_wrap=True)
        for name in names:
            table.add_row(name, *rows[name])
        parts += [Text(f"\n{title}" if parts else title, style="cyan"), table]
    return Group(*parts)
