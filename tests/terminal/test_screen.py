"""What a label, a path or a message holds reaches a terminal as letters: no code in it is obeyed."""

from __future__ import annotations

import io
import re

import pytest
from rich.progress import Progress, TextColumn
from rich.table import Table
from rich.text import Text

from likewise.terminal.screen import Screen, say
from likewise.wording import printable_lines

from ..test_house import SOURCE

NAMES = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b[2J\x1b[1;1H",
    "\x9b31m",
    "over\rwritten",
    "back\x08\x08",
    "\u202egnp.exe",
    "\u2066hidden\u2069",
    "\udcff not UTF-8",
    "\x00",
]
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def screen(*, is_terminal: bool) -> tuple[Screen, io.StringIO]:
    written = io.StringIO()
    return Screen(file=written, force_terminal=is_terminal, width=60, color_system="standard" if is_terminal else None), written


@pytest.mark.parametrize("name", NAMES)
def test_no_code_of_a_text_reaches_a_terminal(name: str) -> None:
    console, written = screen(is_terminal=True)
    table = Table(title=Text(name), caption=name.replace("[", ""))
    table.add_column(Text(name))
    table.add_row(Text(name, style="bold red"))
    console.print(table, Text(name), style="green")
    console.print(name, markup=False, soft_wrap=True)
    with Progress(TextColumn("{task.description}", markup=False), console=console) as bar:
        bar.add_task(name)
        bar.console.print(Text(name))
    shown = written.getvalue()
    assert "\x1b[32m" in shown  # rich's own
    assert not OBEYED.search(re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown).replace("\r", "")), repr(shown)
    assert name not in shown
    for part in ("[31mred", "]0;title", "[2J", "31m", "overwritten"):  # a mark stands before each, no code of theirs is left
        assert f"\x1b{part}" not in shown
        assert f"\x9b{part}" not in shown


def test_what_is_shown_is_what_rich_shows_of_other_text() -> None:
    console, written = screen(is_terminal=False)
    console.print(Text("a \N{LATIN SMALL LETTER U WITH DIAERESIS}\tb\nc \N{CJK UNIFIED IDEOGRAPH-4E00}"), "[bold]d[/bold]")
    assert written.getvalue() == "a \u00fc     b\nc \u4e00 d\n"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("err", [False, True])
def test_lines_are_without_them_too(name: str, err: bool, capsys: pytest.CaptureFixture[str]) -> None:
    say(f"first\n\t{name}: postgresql://user:secret@host/db", err=err)
    told = capsys.readouterr()
    text = told.err if err else told.out
    assert (told.out if err else told.err) == ""
    assert text.startswith("first\n\t")
    assert text.endswith(": postgresql://user:***@host/db\n")
    assert not OBEYED.search(text.replace("\n", "").replace("\t", ""))
    assert printable_lines(name).count("\N{REPLACEMENT CHARACTER}") == len(OBEYED.findall(name))


def test_nothing_reaches_a_terminal_in_another_way() -> None:
    """But for JSON, which has no such character."""
    lines = [
        f"{path.name}: {line.strip()}"
        for room in ("terminal", "cli")
        for path in sorted((SOURCE / room).rglob("*.py"))
        if path.name not in ("screen.py", "streams.py")
        for line in path.read_text(encoding="utf-8").splitlines()
        if re.search(r"(?<![\w.])(print|Console)\(|typer\.s?echo\(", line) and not re.search(r"json\.dumps|to_json\(\)", line)
    ]
    assert [line for line in lines if "printable_lines(" not in line and '"error: "' not in line and "__version__" not in line] == []
