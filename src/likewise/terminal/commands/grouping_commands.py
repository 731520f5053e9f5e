"""The commands `likewise duplicates` and `likewise cluster`: groups of images as a table, a page or JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.text import Text

from likewise.files import check_output, write_whole
from likewise.search.grouping.contact_pages import copies_in_words, copies_page, groups_in_words, groups_page
from likewise.search.grouping.near_copies import GroupedImage
from likewise.search.index import Index
from likewise.terminal.path_table import PathTable
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.screen import Screen
from likewise.wording import listed, printable

MOST_LISTED = 20  # groups in the terminal
MOST_NAMED = 3  # images and classes of each


def run_duplicates(
    folder: Path, *, similarity: float | None, where: Sequence[str], html: Path | None, show: int, as_json: bool, device: str
) -> None:
    """Prints the groups of copies."""
    if html is not None:
        check_output(html)
    index = Index.load(folder, device)
    with progress_bar() as on_progress:
        copies = index.duplicates(similarity, where, on_progress=on_progress)
        if html is not None:
            write_whole(html, copies_page(f"Copies in {folder}", copies, most=show, on_progress=on_progress).encode())
    if as_json:
        groups = [{**asdict(group), "across_classes": group.is_across_classes} for group in copies.groups]
        facts = {"images": copies.num_images, "threshold": copies.threshold, "spare": copies.num_spare, "notes": copies.notes}
        print(json.dumps({"index": str(folder), "where": list(where), **facts, "groups": groups}, indent=1, allow_nan=False))
        return
    rows = [
        (
            "the same file" if group.kind == "file" else f"near, {group.similarity:.3f}",
            len(group.images),
            f"different classes: {listed(group.labels)}" if group.is_across_classes else listed(group.labels or ("",)),
            group.images,
        )
        for group in copies.groups
    ]
    _show([*copies_in_words(copies), *copies.notes], ("copies", "images", "class", "paths"), rows, html)


def run_cluster(
    folder: Path,
    *,
    k: int | None,
    similarity: float | None,
    where: Sequence[str],
    seed: int,
    html: Path | None,
    show: int,
    as_json: bool,
    device: str,
) -> None:
    """Prints the groups."""
    if html is not None:
        check_output(html)
    index = Index.load(folder, device)
    with progress_bar() as on_progress:
        groups = index.cluster(k, similarity, where, seed=seed, on_progress=on_progress)
        if html is not None:
            write_whole(html, groups_page(f"Groups of {folder}", groups, most=show, on_progress=on_progress).encode())
    if as_json:
        told = [{**asdict(group), "labels": group.labels} for group in groups.groups]
        facts = {"images": groups.num_images, "threshold": groups.threshold, "scores": groups.scores, "notes": groups.notes}
        print(json.dumps({"index": str(folder), "where": list(where), **facts, "groups": told}, indent=1, allow_nan=False))
        return
    rows = []
    for group in groups.groups:
        classes = [f"{label} ({count:,})" for label, count in group.labels.items()]
        more = [f"{len(classes) - MOST_NAMED:,} more"] if len(classes) > MOST_NAMED else []
        rows.append((f"{group.similarity:.3f}", len(group.images), listed([*classes[:MOST_NAMED], *more] or [""]), group.images))
    _show([*groups_in_words(groups), *groups.notes], ("similarity", "images", "classes", "most typical"), rows, html)


def _show(
    words: Sequence[str],
    heads: Sequence[str],
    rows: Sequence[tuple[str, int, str, Sequence[GroupedImage]]],
    html: Path | None,
) -> None:
    console = Screen(highlight=False)
    for sentence in words:
        console.print(sentence)
    has_classes = any(classes for _, _, classes, _ in rows)
    cells, paths = [], []
    for first, count, classes, images in rows[:MOST_LISTED]:
        names = [printable(min(image.path, os.path.relpath(image.path), key=len)) for image in images[:MOST_NAMED]]
        more = [f"and {count - len(names):,} more"] if count > len(names) else []
        cells.append([Text(first), Text(f"{count:,}"), *([Text(printable(classes))] if has_classes else [])])
        paths.append(Text("\n".join([*names, *more])))
    if rows:
        console.print(PathTable(heads[:3] if has_classes else heads[:2], cells, paths, heads[3], numbers=("images",)))
    if len(rows) > MOST_LISTED:
        console.print(f"and {len(rows) - MOST_LISTED:,} more groups: --json names them, --html shows them", style="dim")
    if html is not None:
        console.print(f"contact sheets: {html}", soft_wrap=True)
