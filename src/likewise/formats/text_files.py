"""Text files: UTF-8, line by line; and tables of text, whose cells a comma or a tab divides."""

from __future__ import annotations

import csv
import io
from collections import Counter
from pathlib import Path

import numpy as np
import numpy.typing as npt

from likewise.formats.regular_file import UnreadableFile, parsing, read_whole
from likewise.limits import require_within

SAVE_TABLE = "save the table again, with a header and as many cells in every row"


def read_text(path: Path, *, expected: str, limit: str = "text_bytes") -> str:
    """The text; `expected` is what the message says of it. A mark of the byte order at its head is left out."""
    with parsing(path, "text file", f"expected {expected}"):
        data = read_whole(path, limit)
        try:
            return data.decode("utf-8-sig")
        except UnicodeDecodeError as fault:
            raise UnreadableFile(f"{path} is not UTF-8 text ({fault.reason} at byte {fault.start}): expected {expected}") from fault


def read_lines(path: Path, *, expected: str) -> list[str]:
    """The lines without what surrounds them, and without empty ones."""
    return [line.strip() for line in read_text(path, expected=expected).splitlines() if line.strip()]


def read_text_labels(path: Path) -> npt.NDArray[np.str_]:
    """One label a line, always as text: 007, 7 and 1_0 are three labels. Empty lines at the end are none."""
    lines = read_text(path, expected="one label a line, or a .npy file").split("\n")
    while lines and not lines[-1].strip():
        lines.pop()
    require_within("rows", len(lines), f"{path} has labels:")
    return np.array([line.strip() for line in lines], dtype=np.str_)


def read_delimited(path: Path, *, delimiter: str) -> dict[str, list[str]]:
    """A table by its columns, whose names are in the first row. Rows that are shorter or longer are a fault, empty ones none."""
    if len(delimiter) != 1 or delimiter in '\r\n"':
        raise ValueError(f"delimiter={delimiter!r}: expected one character, such as ';'")
    with parsing(path, "table", SAVE_TABLE):
        text = read_text(path, expected="a table, saved as UTF-8")
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
        lines = []
        for row in rows:
            if row:
                lines.append(row)
                if len(lines) == 1:
                    require_within("columns", len(row), f"{path} has columns:")
        if not lines:
            raise UnreadableFile(f"{path} is empty: expected a header with the columns path and label")
        require_within("rows", len(lines) - 1, f"{path} has rows:")
        header = [name.strip() for name in lines[0]]
        repeated = [name for name, count in Counter(header).items() if name and count > 1]
        if repeated:
            raise UnreadableFile(f"{path} has several columns {min(repeated)!r}: expected one of each name")
        for i, row in enumerate(lines[1:], start=1):
            if len(row) != len(header):
                raise UnreadableFile(
                    f"{path}, row {i} below the header: {len(row)} values for {len(header)} columns: quote values that hold commas"
                )
        return dict(zip(header, map(list, zip(*lines[1:], strict=True)), strict=True)) if len(lines) > 1 else {name: [] for name in header}
