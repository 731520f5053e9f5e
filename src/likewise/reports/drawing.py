"""Drawing: what a chart is, the colours and lines that all share, and how it becomes a file or a part of the page, the same every time.

A chart is drawn once, by matplotlib. It is written to files as it is, and into the page with its colours replaced by the page's own
variables, so that it follows light and dark (see page.css, which gives the same colours to the same names).
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from likewise.files import write_whole
from likewise.reports.markup import Markup, escape
from likewise.reports.weight_curves import COLOURS as PAIR_COLOURS
from likewise.wording import printable

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Dashes = Literal["-", "--", ":", "-."]
# Okabe and Ito's colours, which the colour-blind can tell apart, the light ones darkened for a white ground.
METHOD_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00", "#56b4e9", "#6f4aa8", "#4d4d4d")
DASHES: tuple[Dashes, ...] = ("-", "--", ":", "-.")  # beyond eight methods the colours come again with another line
INK, FAINT, RULE = "#1b2530", "#5c6671", "#dde2e7"
PAGE_COLOURS = {
    **{colour: f"var(--m{i})" for i, colour in enumerate(METHOD_COLOURS)},
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    RULE: "var(--rule)",
    PAIR_COLOURS["positive"]: "var(--positive)",
    PAIR_COLOURS["negative"]: "var(--negative)",
}
SETTINGS: dict[Any, Any] = {
    "text.parse_math": False,  # a name may hold dollars
    "font.size": 9.0,
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.titlesize": 9.5,
    "axes.linewidth": 0.7,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "lines.linewidth": 1.7,
    "legend.frameon": False,
    "svg.fonttype": "none",
}
WIDE, SMALL = (5.2, 3.3), (2.9, 2.0)  # inches, of a chart
MARGINS = (0.62, 0.12, 0.42, 0.3)  # inches left, right, below and above of small charts


@dataclass(frozen=True)
class MethodLine:
    """How a method is drawn, everywhere the same."""

    number: int  # of the method in the comparison

    @property
    def colour_number(self) -> int:
        return self.number % len(METHOD_COLOURS)

    @property
    def colour(self) -> str:
        return METHOD_COLOURS[self.colour_number]

    @property
    def dashes(self) -> Dashes:
        return DASHES[self.number // len(METHOD_COLOURS) % len(DASHES)]

    @property
    def mark(self) -> str:
        """Carried through matplotlib as an id, so that the page knows whose line it is."""
        return f"method-{self.number}"


@dataclass(frozen=True)
class Chart:
    """One chart: how it is drawn and what it says to those who cannot see it."""

    title: str
    draw: Callable[[Axes], None]
    label: str
    note: str = ""
    size: tuple[float, float] = WIDE


def method_lines(names: Sequence[str]) -> dict[str, MethodLine]:
    return {name: MethodLine(i) for i, name in enumerate(dict.fromkeys(names))}


@contextmanager
def drawing() -> Iterator[None]:
    """Our settings, and no word about letters that matplotlib's font lacks: a browser has others."""
    from matplotlib import rc_context  # here, because importing it takes longer than all of likewise

    with rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def panels(count: int, *, columns: int, size: tuple[float, float], fixed: bool = False) -> tuple[Figure, list[Axes]]:
    """A figure of so many charts of this size in inches; call within `drawing`.

    fixed: the same margins around each, for charts that are alike: to fit the margins to the words, everything has to be drawn twice.
    """
    from matplotlib.figure import Figure

    columns = min(columns, count)
    rows = -(-count // columns)
    figure = Figure(figsize=(size[0] * columns, size[1] * rows), facecolor="white", layout=None if fixed else "constrained")
    axes: list[Axes] = list(figure.subplots(rows, columns, squeeze=False).flatten())
    if fixed:
        left, right, bottom, top = MARGINS
        width, height = size[0] * columns, size[1] * rows
        for i, axis in enumerate(axes):
            row, column = divmod(i, columns)
            x, y = column * size[0] + left, (rows - 1 - row) * size[1] + bottom
            axis.set_position((x / width, y / height, (size[0] - left - right) / width, (size[1] - bottom - top) / height))
    for axis in axes[count:]:
        axis.set_axis_off()
    return figure, axes[:count]


def inline(chart: Chart, *, name: str) -> Markup:
    """For the page, which writes the title itself."""
    with drawing():
        figure, (axis,) = panels(1, columns=1, size=chart.size, fixed=chart.size == SMALL)
        chart.draw(axis)
        return inline_svg(figure, name=name, label=chart.label)


def write_picture(charts: Sequence[Chart], path: Path, *, lines: Mapping[str, MethodLine], titles: Mapping[str, str], legend: bool) -> None:
    """All charts of a kind in one figure, as PNG and SVG; with `legend` it names the methods' lines."""
    from matplotlib.lines import Line2D

    with drawing():
        figure, axes = panels(len(charts), columns=2 if legend else 4, size=charts[0].size, fixed=charts[0].size == SMALL)
        for chart, axis in zip(charts, axes, strict=True):
            chart.draw(axis)
            if chart.title:
                axis.set_title(one_line(chart.title), y=1.0)  # where it is anyway: left to itself it measures every tick
        if legend:
            handles = [
                Line2D([], [], color=line.colour, linestyle=line.dashes, label=one_line(titles[name])) for name, line in lines.items()
            ]
            figure.legend(handles=handles, loc="outside lower center", ncols=min(3, len(handles)), fontsize=8)
        save_figure(figure, path)


def inline_svg(figure: Figure, *, name: str, label: str) -> Markup:
    """The chart for the page: colours are the page's, lines know their method, ids are none but those the chart needs itself."""
    text = _svg(figure, name, transparent=True)
    text = text[text.index("<svg") :]
    text = re.sub(r"<!--.*?-->|<metadata>.*?</metadata>|<style.*?</style>", "", text, flags=re.DOTALL)
    referenced = set(re.findall(r"#([\w-]+)", text))
    text = re.sub(r">\s+<", "><", re.sub(r"<[^>]+>", lambda match: _page_tag(match[0], referenced), text))
    box = re.search(r'viewBox="[^"]*"', text)
    opening = f'<svg {box[0] if box else ""} role="img" aria-label="{escape(label)}">'
    return Markup(opening + text[text.index(">") + 1 :])


def _page_tag(text: str, referenced: set[str]) -> str:
    """One tag of a chart, as the page needs it. What stands between tags are words and stays."""
    text = re.sub(r' id="method-(\d+)"', r' data-method="\1"', text)
    text = re.sub(r' id="([^"]*)"', lambda match: match[0] if match[1] in referenced else "", text)
    text = re.sub(r"(\d\.\d)\d+", r"\1", text)
    for colour, variable in PAGE_COLOURS.items():
        text = text.replace(colour, variable)
    return text


def save_figure(figure: Figure, path: Path, *, svg: bool = True) -> None:
    """As `path`.png, and `path`.svg unless that is not wanted."""
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=144, metadata={"Software": None})
    write_whole(path.with_suffix(".png"), picture.getvalue())
    if not svg:
        return
    figure.set_layout_engine("none")  # everything has its place now
    write_whole(path.with_suffix(".svg"), _svg(figure, path.name, transparent=False).encode())


def one_line(text: str) -> str:
    """A name as a chart can write it: matplotlib stops at some control characters, and one line is all it has."""
    line = printable(text)
    return line if len(line) <= 40 else line[:39] + "…"


def _svg(figure: Figure, salt: str, *, transparent: bool) -> str:
    from matplotlib import rc_context

    written = BytesIO()
    stamps: dict[str, Any] = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with rc_context({"svg.hashsalt": salt}):  # the same ids every time, others in every chart
        figure.savefig(written, format="svg", transparent=transparent, metadata=stamps)
    return written.getvalue().decode()
