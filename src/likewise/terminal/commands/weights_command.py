"""The command `likewise weights`: which pretrained weights there are, and getting them."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from likewise.data.packing.cache import cache_folder
from likewise.models.weights.pretrained import WEIGHTS, AtAddress, PretrainedWeights, get_weights
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.screen import Screen, say

SHORT = 8  # digits of a digest that are shown


def run_weights(*, as_json: bool) -> None:
    """Prints what the registry has, and what of it is here."""
    if as_json:
        print(json.dumps({name: _told(weights) for name, weights in WEIGHTS.items()}, indent=2, allow_nan=False))
    else:
        Screen().print(weights_view())


def run_weights_get(name: str) -> None:
    """Fetches the weights unless they are here, and prints where they are."""
    with progress_bar() as on_progress:
        file = get_weights(name, on_progress=on_progress)
    say(f"{name} is here: {file.path} (sha256 {file.digest[:16]}...)")
    say(f"use it with --weights {name}")


def weights_view() -> RenderableType:
    """A line for each of the registry, and what else --weights takes."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("name", no_wrap=True, style="bold")
    table.add_column("backbone", no_wrap=True)
    table.add_column("MB", justify="right", no_wrap=True)
    for column in ("licence", "from"):
        table.add_column(column, overflow="fold")
    table.add_column("sha256", no_wrap=True)
    table.add_column("here", no_wrap=True)
    for weights in WEIGHTS.values():
        here = Text("yes", style="green") if weights.source.path is not None else Text("no", style="dim")
        backbone = "same" if weights.backbone == weights.name else weights.backbone
        size = f"{weights.num_bytes / 1e6:.0f}"
        table.add_row(weights.name, backbone, size, weights.licence, _place(weights), weights.sha256[:SHORT], here)
    others = "--weights also takes timm:NAME and hf:OWNER/REPO[/FILE], through their own packages, and any .safetensors or .pth file"
    notes = ("likewise weights get NAME fetches one", others, f"what is fetched lies in {cache_folder() / 'weights'}")
    return Group(table, Text(), *(Text(note, style="dim", overflow="fold") for note in notes))


def _place(weights: PretrainedWeights) -> str:
    return urlsplit(weights.source.address).netloc.removeprefix("download.") if isinstance(weights.source, AtAddress) else "package"


def _told(weights: PretrainedWeights) -> dict[str, Any]:
    here = weights.source.path
    return {
        **asdict(weights),
        "source": str(weights.source),
        "here": here is not None,
        "path": None if here is None else str(here),
        "get": weights.how_to_get,
    }
