"""HTML put together from pieces that are escaped unless they are markup already."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

from likewise.wording import printable

Attributes = Mapping[str, str | float | bool]


class Markup(str):
    """HTML that stands as it is; any other string is text and gets escaped."""

    __slots__ = ()


def escape(text: str) -> Markup:
    return text if isinstance(text, Markup) else Markup(html.escape(printable(text)))


def join(parts: Iterable[str]) -> Markup:
    return Markup("".join(escape(part) for part in parts))


def breakable(name: str) -> Markup:
    """A name of a class or a file, whose lines may break after strokes, stops and slashes, as it has no spaces to break at."""
    parts = re.findall(r"[^_./\\-]+[_./\\-]*|[_./\\-]+", name)
    return Markup("<wbr>".join(escape(part) for part in parts))


def tag(name: str, attributes: Attributes, *children: str) -> Markup:
    """An element. An attribute that is False is left out; one that is True stands without a value."""
    written = "".join(
        f" {key}" if value is True else f' {key}="{html.escape(printable(str(value)))}"'
        for key, value in attributes.items()
        if value is not False
    )
    return Markup(f"<{name}{written}>{join(children)}</{name}>")


def table(attributes: Attributes, heads: Iterable[str], rows: Iterable[Iterable[str]]) -> Markup:
    """A plain table in a box of its own that scrolls; the first cell of a row is its head."""
    head = tag("thead", {}, tag("tr", {}, *(tag("th", {"scope": "col"}, name) for name in heads)))
    body = []
    for first, *rest in rows:
        body.append(tag("tr", {}, tag("th", {"scope": "row"}, first), *(tag("td", {}, cell) for cell in rest)))
    return tag("div", {"class": "scroll", "tabindex": 0}, tag("table", attributes, head, tag("tbody", {}, *body)))


def data_island(name: str, value: Any) -> Markup:
    """A value for the page's script, as JSON that no string in it can break out of.

    A browser ends the script at the first "</script", wherever it stands, and some names of files hold it: so no "<", ">" or "&" is
    written as such. Every letter beyond ASCII is a \\u escape too.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(f'<script type="application/json" id="{html.escape(name)}">{text}</script>')
