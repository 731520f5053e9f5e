"""The command `likewise search`: what is most like some images, as a table, a page or JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from likewise.data.packing.packed import NoneDecoded, left_out
from likewise.data.readers.class_folders import images_below
from likewise.files import check_output, write_whole
from likewise.search.hits import Hits
from likewise.search.index import Index
from likewise.search.likeness import NOT_CALIBRATED, PERHAPS, PROBABLY, UNKNOWN, UNLIKELY, VERY_LIKELY
from likewise.search.search_page import search_page
from likewise.terminal.path_table import PathTable
from likewise.terminal.screen import Screen, say
from likewise.wording import NONE, count_of, printable

STYLES = {VERY_LIKELY: "bold green", PROBABLY: "green", PERHAPS: "yellow", UNLIKELY: "dim"}


def run_search(
    folder: Path, queries: Sequence[str], *, k: int, where: Sequence[str], html: Path | None, as_json: bool, device: str
) -> None:
    """Prints the k images of the index that are most like each query; with `html` they are also a page."""
    given = [path for query in queries for path in _images(query)]
    if html is not None:
        check_output(html)
    index = Index.load(folder, device)
    is_calibrated = index.calibration is not None
    index.filter(where)  # what is wrong with it is told before anything is embedded
    try:
        vectors, places, skipped = index.embed_files(given)
    except NoneDecoded as fault:
        first = fault.problems[0]
        words = f"{first.path} cannot be searched with: {first.reason}"
        raise ValueError(
            words if len(given) == 1 else f"none of {len(given):,} queries can be searched with; the first: {first}"
        ) from fault
    if skipped:
        say(f"note: {left_out(skipped)}", err=True)
    paths = [given[place] for place in places]
    found = list(zip(paths, index.search_vectors(vectors, k, where), strict=True))
    if k > len(index):
        say(f"note: k is {k}, and {folder} holds {count_of(len(index), 'image', 'images')}: all are listed", err=True)
    if html is not None:
        write_whole(html, search_page(f"Search in {folder}", found, conditions=where, is_calibrated=is_calibrated).encode())
    if as_json:
        told = [{"query": path, "is_known": hits.is_known, "hits": [hit.as_json() for hit in hits]} for path, hits in found]
        facts = {
            "index": str(folder),
            "k": k,
            "where": list(where),
            "calibrated": is_calibrated,
            "skipped": [one.as_json() for one in skipped],
        }
        print(json.dumps({**facts, "queries": told}, indent=2))
        return
    console = Screen()
    for path, hits in found:
        console.print(hits_view(path, hits))
    if not is_calibrated:
        console.print(Text(NOT_CALIBRATED, style="dim"))
    if html is not None:
        console.print(f"pictures: {html}", soft_wrap=True, highlight=False)


def hits_view(query: str, hits: Hits) -> RenderableType:
    """A line a hit; what no hit has is no column."""
    title = Text(printable(query), style="bold", overflow="fold")
    if not hits:
        return Group(title, Text("no image fulfils the conditions"))
    has_words, has_labels = (
        any(value is not None for value in values) for values in zip(*((hit.words, hit.label) for hit in hits), strict=True)
    )
    columns = list(dict.fromkeys(name for hit in hits for name, value in hit.metadata.items() if value is not None))
    heads = ["", "similarity", *(["meaning"] if has_words else []), *(["label"] if has_labels else []), *map(printable, columns)]
    rows = []
    for place, hit in enumerate(hits, start=1):
        words = [Text(hit.words or NONE, style=STYLES.get(hit.words or "", ""))] if has_words else []
        label = [Text(printable(hit.label or NONE))] if has_labels else []
        cells = [Text(printable(str(hit.metadata.get(name, NONE)))) for name in columns]
        rows.append([Text(str(place), style="dim"), Text(f"{hit.similarity:.3f}"), *words, *label, *cells])
    table = PathTable(heads, rows, [_path(hit.path) for hit in hits], "path", numbers=heads[:2])
    unknown = [Text(UNKNOWN, style="magenta")] if hits.is_known is False else []
    return Group(title, *unknown, table, Text())


def _path(path: str) -> Text:
    """From here, where that is shorter; a file that is gone is said to be."""
    shown = Text(printable(min(path, os.path.relpath(path), key=len)))
    return shown if os.path.exists(path) else shown.append(" (the file is gone)", style="yellow")


def _images(query: str) -> list[str]:
    """The file itself, or the images in the folder and below."""
    path = Path(query).expanduser()
    if not query or not os.path.exists(path):
        raise ValueError(f"{query!r} is not there: expected an image file, or a folder of them")
    if not path.is_dir():
        return [str(path)]
    images = [str(path / image) for image in images_below(path)]
    if not images:
        raise ValueError(f"{path} holds no images to search with: expected an image file, or a folder of them")
    return images
