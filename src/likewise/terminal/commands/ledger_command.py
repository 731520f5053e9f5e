"""The command `likewise ledger`: every look at a test set that is on record."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from likewise.data.ledger import Ledger, Look, read_ledger
from likewise.data.readers import read
from likewise.data.splits import SPLIT_SEED, split
from likewise.terminal.screen import Screen
from likewise.wording import count_of, printable

SHORT = 8  # digits of a digest that tell test sets of one name apart


def run_ledger(data: str | None, *, as_json: bool) -> None:
    """Prints all looks, or those at the test set of DATA."""
    try:
        ledger = read_ledger()
    except (OSError, RuntimeError) as fault:
        raise ValueError(f"the ledger cannot be read ({fault}): set LIKEWISE_STATE to the folder that it is in") from fault
    looks, of = ledger.looks, ""
    if data is not None:
        dataset = read(data)
        test = split(dataset, seed=SPLIT_SEED).test.items_digest
        looks, of = tuple(look for look in looks if look.test == test), f" of {dataset.name}"
    if as_json:
        told = {
            "file": str(ledger.path),
            "looks": list(map(asdict, looks)),
            "damaged": list(ledger.damaged),
            "changed": list(ledger.changed),
        }
        print(json.dumps(told, indent=2, allow_nan=False))
    else:
        Screen().print(ledger_view(ledger, looks, of=of))


def ledger_view(ledger: Ledger, looks: Sequence[Look], *, of: str = "") -> RenderableType:
    """The looks by test set, the first looked at first, and what is wrong with the file."""
    parts: list[RenderableType] = []
    if looks:
        parts.append(_table(looks))
    else:
        parts.append(Text(f"no look at the test classes{printable(of)} is on record"))
    parts.append(Text(f"{count_of(len(ledger.looks), 'look', 'looks')} in all, in {ledger.path}", style="dim", overflow="fold"))
    parts += [Text(f"! {problem}", style="yellow") for problem in ledger.damaged]
    parts += [Text(f"! {problem}", style="bold red") for problem in ledger.changed]
    if ledger.changed:
        parts.append(Text("! looks may be missing, so that a count of them is a lower bound", style="bold red"))
    return Group(*parts)


def _table(looks: Sequence[Look]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
    table.add_column("test set", overflow="fold")
    table.add_column("look", justify="right", no_wrap=True)
    for name in ("when (UTC)", "what"):
        table.add_column(name, no_wrap=True)
    table.add_column("folder", overflow="fold")
    order = list(dict.fromkeys(look.test for look in looks))
    shown = ""
    for look in sorted(looks, key=lambda look: order.index(look.test)):
        name = f"{printable(look.data)} {look.test[:SHORT]}, {count_of(look.num_items, 'item', 'items')}".strip()
        when = look.time[:16].replace("T", " ")
        table.add_row(Text("" if look.test == shown else name), str(look.number), when, look.what, Text(look.place))
        shown = look.test
    return table
