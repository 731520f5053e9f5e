"""A table whose rows name files: paths stand beside the rows where the window is wide enough, else below them, each whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

GAP = 2  # spaces between columns
INDENT = 3  # of paths below a row


@dataclass(frozen=True)
class PathTable:
    """Rows of cells, and of each the lines of paths."""

    heads: Sequence[str]
    rows: Sequence[Sequence[Text]]
    paths: Sequence[Text]  # of each row
    paths_head: str
    numbers: Sequence[str] = ()  # the heads of columns that stand to the right

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        beside = self._beside()
        fits = Measurement.get(console, options.update(max_width=10_000), beside).maximum <= options.max_width
        yield beside if fits else self._below()

    def _beside(self) -> Table:
        table = Table(box=None, padding=(0, GAP, 0, 0), header_style="dim", pad_edge=False)
        for head in self.heads:
            table.add_column(head, justify=self._side(head))
        table.add_column(self.paths_head, overflow="fold")
        for cells, paths in zip(self.rows, self.paths, strict=True):
            table.add_row(*cells, paths)
        return table

    def _below(self) -> RenderableType:
        """The last of the cells has what room the others leave."""
        heads = [Text(head, style="dim") for head in self.heads]
        columns = zip(heads, *self.rows, strict=True)
        widths = [max(cell.cell_len for cell in column) for column in columns][:-1]
        parts: list[RenderableType] = [self._line(heads, widths)]
        for cells, paths in zip(self.rows, self.paths, strict=True):
            parts += [self._line(cells, widths), Padding(paths, (0, 0, 0, INDENT))]
        return Group(*parts)

    def _line(self, cells: Sequence[Text], widths: Sequence[int]) -> Table:
        line = Table.grid(padding=(0, GAP, 0, 0), pad_edge=False)
        for head, width in zip(self.heads, [*widths, None], strict=True):
            line.add_column(width=width, justify=self._side(head), overflow="fold")
        line.add_row(*cells)
        return line

    def _side(self, head: str) -> JustifyMethod:
        return "right" if head in self.numbers else "left"
