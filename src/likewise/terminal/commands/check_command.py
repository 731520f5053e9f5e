"""The command `likewise check`: whether what lies in folders is as it was written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from likewise.integrity import KINDS
from likewise.integrity.check import check
from likewise.integrity.findings import CheckedFolder, State
from likewise.terminal.progress_bar import progress_bar
from likewise.terminal.screen import Screen
from likewise.wording import count_of, listed, printable

STYLES: dict[State, str] = {"damaged": "bold red", "missing": "red", "not verifiable": "yellow", "whole": ""}


def run_check(folders: Sequence[Path], *, as_json: bool) -> bool:
    """Prints what is damaged, missing or cannot be verified; whether nothing is damaged or missing."""
    with progress_bar() as on_progress:
        checked = check(*folders, on_progress=on_progress)
    if as_json:
        print(json.dumps([folder.as_json() for folder in checked], indent=2))
    else:
        screen = Screen()
        for folder in checked:
            screen.print(check_view(folder))
        if not checked:
            screen.print("there is neither a cache nor a ledger yet")
    return all(folder.is_whole for folder in checked)


def check_view(checked: CheckedFolder) -> RenderableType:
    """One folder: what it is, what is wrong with it and how to mend that, and how much was found whole."""
    parts: list[RenderableType] = [Text(f"{KINDS[checked.kind].title} in {printable(str(checked.folder))}", style="bold", overflow="fold")]
    wrong = [finding for finding in checked.findings if finding.state != "whole"]
    if wrong:
        table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", pad_edge=False)
        for name in ("file", "state", "why", "how to mend it"):
            table.add_column(name, overflow="fold", no_wrap=name == "state")
        for finding in wrong:
            shown = Text(finding.state, style=STYLES[finding.state])
            table.add_row(Text(printable(finding.path)), shown, Text(printable(finding.what)), Text(finding.mend))
        parts.append(table)
    counts = [count_of(len(checked.of("whole")), "part is whole", "parts are whole")]
    states: tuple[State, ...] = ("damaged", "missing", "not verifiable")
    counts += [f"{len(checked.of(state)):,} {state}" for state in states if checked.of(state)]
    parts.append(Text(listed(counts), style="green" if checked.is_whole else "red"))
    return Group(*parts)
