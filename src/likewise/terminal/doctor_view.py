"""A dataset report for the terminal."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from likewise.data.doctor.dataset_report import KIND_WORDS, DatasetReport, Duplicate, NamedItem, size_histogram
from likewise.wording import count_of

SHOWN, SHOWN_ITEMS = 8, 4  # of each kind, and of a group of duplicates; --json has all


def report_view(report: DatasetReport) -> RenderableType:
    return Group(*_view(report))


def _view(report: DatasetReport) -> Iterator[RenderableType]:
    yield Text(report.name, style="bold")
    items = count_of(report.num_items, "item", "items")
    yield Text(f"{items}, {count_of(report.num_classes, 'class', 'classes')}, {report.kind}", style="dim")
    if report.parts:
        table = _table("part", "items", "classes")
        for part in report.parts:
            table.add_row(part.part, f"{part.num_items:,}", f"{part.num_classes:,}")
        yield table
    sizes = np.array(report.class_sizes)
    if sizes.min() == sizes.max():
        yield Text(f"\n{count_of(int(sizes[0]), 'item', 'items')} in every class", style="bold")
    else:
        yield _heading(f"Items of a class: {sizes.min():,} to {sizes.max():,}, median {np.median(sizes):,.10g}")
        yield _sizes(report)
    if report.broken:
        yield _heading("Cannot be used")
        table = _table("item", "reason")
        for broken in report.broken[:SHOWN]:
            table.add_row(Text(broken.item.name), Text(broken.reason))
        yield table
        yield from _left_out(len(report.broken))
    if report.blank:
        yield _heading("Blank")
        yield from (Text("  " + item.name) for item in report.blank[:SHOWN])
        yield from _left_out(len(report.blank))
    for title, names in (("Classes of a single item", report.singletons), ("Classes without items", report.empty_classes)):
        if names:
            more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
            yield _heading(title)
            yield Text("  " + ", ".join(names[:SHOWN]) + more)
    if report.duplicates:
        yield _heading("Duplicates")
        for duplicate in report.duplicates[:SHOWN]:
            yield _title(duplicate)
            for item in duplicate.items[:SHOWN_ITEMS]:
                yield Padding(Text(_item(item, duplicate), overflow="fold"), (0, 0, 0, 4))
            if len(duplicate.items) > SHOWN_ITEMS:
                yield Text(f"    and {len(duplicate.items) - SHOWN_ITEMS:,} more", style="dim")
        yield from _left_out(len(report.duplicates))
    yield Text("")
    for remark in report.remarks:
        yield Text(f"- {remark}", style="dim")
    for problem in report.problems:
        yield Text(f"! {problem}", style="yellow")
    if not report.problems:
        yield Text("healthy: no problems found", style="green")


def _sizes(report: DatasetReport, *, width: int = 30) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 2), show_header=False)
    table.add_column(justify="right", no_wrap=True)
    table.add_column(no_wrap=True)
    bins = size_histogram(report)
    highest = max(count for _, _, count in bins)
    for least, most, count in bins:
        bar = "█" * max(round(width * count / highest), count > 0)
        label = f"{least:,}" if least == most else f"{least:,} to {most:,}"
        table.add_row(label, Text.assemble((bar, "cyan"), f" {count:,}" if count else ("0", "dim")))
    return table


def _title(duplicate: Duplicate) -> Text:
    style = "red" if duplicate.across_split else "yellow" if duplicate.across_classes else ""
    likeness = f" ({duplicate.correlation:.4f})" if duplicate.kind == "near" else ""
    return Text.assemble("  ", KIND_WORDS[duplicate.kind], likeness, ", ", (duplicate.place, style))


def _item(item: NamedItem, duplicate: Duplicate) -> str:
    """The name, with what tells this item from the others of its group."""
    about = [item.part] if duplicate.across_split and item.part else []
    if duplicate.across_classes and item.class_name not in item.name:
        about.append(item.class_name)
    return item.name + (f"  ({', '.join(about)})" if about else "")


def _left_out(count: int) -> Iterator[RenderableType]:
    if count > SHOWN:
        yield Text(f"  and {count - SHOWN:,} more (--json and --out list all)", style="dim")


def _heading(words: str) -> Text:
    return Text("\n" + words, style="bold")


def _table(*names: str) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 2), header_style="dim", pad_edge=True)
    for name in names:
        table.add_column(name, justify="right" if name in ("items", "classes") and "part" in names else "left", overflow="fold")
    return table
