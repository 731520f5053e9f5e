"""Paths beside rows or below them, always whole."""

from rich.console import Console
from rich.text import Text

from likewise.terminal.path_table import PathTable

PATHS = ("pictures/003.Sooty_Albatross/Sooty_Albatross_0016_1075.webp", "pictures/a.webp\npictures/b.webp")
ROWS = (("1", "0.98", "003.Sooty_Albatross"), ("10", "0.7", "gull"))
TABLE = PathTable(
    ("", "similarity", "label"),
    [[Text(cell) for cell in row] for row in ROWS],
    [Text(paths) for paths in PATHS],
    "path",
    numbers=("", "similarity"),
)


def lines(width: int) -> list[str]:
    console = Console(width=width)
    with console.capture() as capture:
        console.print(TABLE)
    return [line.rstrip() for line in capture.get().splitlines()]


def test_beside_where_there_is_room() -> None:
    assert lines(120) == [
        "    similarity  label                path",
        " 1        0.98  003.Sooty_Albatross  pictures/003.Sooty_Albatross/Sooty_Albatross_0016_1075.webp",
        "10         0.7  gull                 pictures/a.webp",
        "                                     pictures/b.webp",
    ]


def test_below_where_there_is_none_and_whole() -> None:
    assert lines(80) == [
        "    similarity  label",
        " 1        0.98  003.Sooty_Albatross",
        "   pictures/003.Sooty_Albatross/Sooty_Albatross_0016_1075.webp",
        "10         0.7  gull",
        "   pictures/a.webp",
        "   pictures/b.webp",
    ]
