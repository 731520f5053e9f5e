"""The command `likewise index`: an index made, added to, taken from, and shown."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.table import Table
from rich.text import Text

from likewise.configuration import value_of
from likewise.data.packing.packed import left_out
from likewise.search.adding import Added
from likewise.search.index import Index
from likewise.search.intake import Images, read_images
from likewise.search.likeness import NOT_CALIBRATED
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.screen import Screen, say
from likewise.wording import bytes_in_words, count_of, printable

TITLES = {"labelled": "with a label", "bytes": "on the disk", "width": "numbers a vector"}
SHORT = 12  # digits of a digest that are shown


def run_index(
    model: str, images: Sequence[str], out: Path, *, store: str, store_options: Sequence[str], device: str, ray: str | None, as_json: bool
) -> None:
    """Makes the index, or goes on with it, and says what came of the images."""
    datasets = read_images(images)  # before anything is made
    index = Index.create(model, out=out, store=store, device=device, **_options(store_options))
    before = len(index)
    if before and not as_json:
        say(f"{out} is there already, with {count_of(before, 'image', 'images')}: going on with it")
    _add(index, datasets, prune=False, ray=ray, as_json=as_json)


def run_index_add(folder: Path, images: Sequence[str], *, prune: bool, device: str, ray: str | None, as_json: bool) -> None:
    _add(Index.load(folder, device), images, prune=prune, ray=ray, as_json=as_json)


def run_index_remove(folder: Path, paths: Sequence[str], where: Sequence[str], *, as_json: bool) -> None:
    index = Index.load(folder)
    number = index.remove(paths, where=where)
    if as_json:
        print(json.dumps({"removed": number, "images": len(index), "index": str(folder)}, indent=2))
        return
    say(f"{count_of(number, 'image', 'images')} removed, {len(index):,} left: {folder}")


def run_index_show(folder: Path, *, as_json: bool) -> None:
    """Prints what is in the index."""
    facts = _facts(Index.load(folder))
    if as_json:
        print(json.dumps(facts, indent=2, allow_nan=False))
        return
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    facts["model"]["digest"] = facts["model"]["digest"][:SHORT]
    facts["bytes"] = bytes_in_words(facts["bytes"])
    for name, value in facts.items():
        table.add_row(TITLES.get(name, name), Text("\n".join(printable(line) for line in _lines(value))))
    Screen().print(table)


def _add(index: Index, images: Images, *, prune: bool, ray: str | None, as_json: bool) -> None:
    with progress_bar() as on_progress:
        result = index.add(images, prune=prune, ray=ray, on_progress=on_progress)
    for note in result.notes:
        say(f"note: {note}", err=True)
    if result.skipped:
        say(f"note: {left_out(result.skipped)}", err=True)
    if result.skipped and not result.added + result.changed + result.unchanged:
        raise ValueError(f"none of the images can be used, so that none is added to {index.folder}: give others, or repair them")
    if as_json:
        skipped = [problem.as_json() for problem in result.skipped]
        print(json.dumps({**asdict(result), "skipped": skipped, "images": len(index), "index": str(index.folder)}, indent=2))
        return
    say(f"{_in_words(result)}: {count_of(len(index), 'image', 'images')} in {index.folder}")


def _in_words(result: Added) -> str:
    parts = [f"{result.added:,} added", f"{result.changed:,} changed", f"{result.unchanged:,} unchanged"]
    if result.removed:
        parts.append(f"{result.removed:,} removed, as their files are gone")
    return ", ".join(parts)


def _options(given: Sequence[str]) -> dict[str, Any]:
    options = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not equals or not name:
            raise ValueError(f"--store-option {one!r}: expected NAME=VALUE, such as rows=int8")
        options[name.strip()] = value_of(value.strip())
    return options


def _facts(index: Index) -> dict[str, Any]:
    """By name: a number, a text, several of them, or a table."""
    calibration = index.calibration
    return {
        "index": str(index.folder),
        "images": len(index),
        "labelled": len(index.store.ids(index.filter("label!="))),
        "columns": dict(index.store.columns()),
        "store": {"kind": index.description.store, **index.description.options, **index.store.describe()},
        "bytes": sum(path.stat().st_size for path in index.folder.rglob("*") if path.is_file()),
        "width": index.store.width,
        "model": {
            "digest": index.description.model,
            **{name: value for name, value in index.card.items() if not isinstance(value, dict | list)},
        },
        "calibration": [NOT_CALIBRATED] if calibration is None else list(calibration.words),
    }


def _lines(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [f"{name}: {entry:,}" if isinstance(entry, int) else f"{name}: {entry}" for name, entry in value.items()]
    if isinstance(value, list):
        return value
    return [f"{value:,}" if isinstance(value, int) else str(value)]
