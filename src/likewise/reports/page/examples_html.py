"""The test items in the page: a map of them, ranked lists of the same queries by every method, and all their thumbnails in one picture."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image

from likewise.comparison.results import MethodResult, TestItems
from likewise.reports.drawing import MethodLine
from likewise.reports.embedding_map import PLANE, EmbeddingMap
from likewise.reports.markup import Markup, breakable, join, tag
from likewise.reports.page.leaderboard_html import swatch
from likewise.reports.ranked_lists import RankedLists
from likewise.wording import count_of, percent, printable

MAP_REMARK = "Distances between far groups mean little in such a map."
PLANE_REMARK = "It is the plane itself, before rows are brought to length 1, each method on a scale of its own."
LONGEST_NAME = 80  # of an item in the page: the end of a path says more than its beginning
SMALLEST_SIDE, LARGEST_SIDE = 40, 112  # of a thumbnail in the page, in pixels
PIXELS_A_BYTE = 4  # of photographs in the best quality, about
QUALITIES = (82, 70, 55, 40, 25)


@dataclass(frozen=True, eq=False)
class Sprite:
    """Tiles in rows of `columns`; `place` says which tile an item is."""

    uri: str
    columns: int
    rows: int
    side: int
    place: dict[int, int]


def make_sprite(thumbnails: npt.NDArray[np.uint8], items: npt.NDArray[np.int64], *, most_bytes: int) -> Sprite:
    """The thumbnails of these items, as large and in as good a quality as keeps the picture below `most_bytes`, or else the lowest."""
    room = int(math.sqrt(PIXELS_A_BYTE * most_bytes / max(1, len(items))))
    side = min(max(SMALLEST_SIDE, min(LARGEST_SIDE, room)), thumbnails.shape[1])
    columns = max(1, math.ceil(math.sqrt(len(items))))
    rows = max(1, math.ceil(len(items) / columns))
    sheet = Image.new("RGB", (columns * side, rows * side), "white")
    for place, item in enumerate(items.tolist()):
        tile = Image.fromarray(np.ascontiguousarray(thumbnails[item]))
        if tile.size != (side, side):
            tile = tile.resize((side, side), Image.Resampling.LANCZOS)
        sheet.paste(tile, (place % columns * side, place // columns * side))
    content = b""
    for quality in QUALITIES:
        written = BytesIO()
        sheet.save(written, format="WEBP", quality=quality, method=4)
        content = written.getvalue()
        if len(content) <= most_bytes:
            break
    uri = "data:image/webp;base64," + base64.b64encode(content).decode()
    return Sprite(uri, columns, rows, side, {item: place for place, item in enumerate(items.tolist())})


def shown_items(shown_map: EmbeddingMap, lists: RankedLists | None) -> npt.NDArray[np.int64]:
    """All items on the map or in a list, in order."""
    in_lists = [] if lists is None else [lists.queries, *(array.ravel() for array in lists.neighbours.values())]
    return np.unique(np.concatenate([shown_map.items, *in_lists]))


def items_data(items: TestItems, shown: npt.NDArray[np.int64], shown_map: EmbeddingMap, sprite: Sprite | None) -> dict[str, Any]:
    """What the page's script knows of the items; everywhere an item is its place among those shown."""
    place = {item: i for i, item in enumerate(shown.tolist())}
    labels, of = np.unique(items.labels[shown], return_inverse=True)
    return {
        "classes": [printable(items.class_names[label]) for label in labels.tolist()],
        "label": of.tolist(),
        "names": [_short(items.names[item]) for item in shown.tolist()],
        "map": [place[item] for item in shown_map.items.tolist()],
        "places": {name: array.ravel().tolist() for name, array in shown_map.places.items()},
        "sprite": None if sprite is None else {"columns": sprite.columns, "side": sprite.side},
    }


def map_section(shown_map: EmbeddingMap, methods: list[MethodResult], items: TestItems, *, key: str) -> Markup:
    options = [tag("option", {"value": method.name}, method.title) for method in methods]
    num_classes = len(np.unique(items.labels[shown_map.items]))
    pictures = (
        tag("label", {"class": "check"}, Markup('<input type="checkbox" class="pictures"> '), "pictures")
        if items.thumbnails is not None
        else ""
    )
    controls = tag(
        "div",
        {"class": "controls"},
        tag("label", {}, "method ", tag("select", {"class": "map-method"}, *options)),
        tag("button", {"type": "button", "class": "step", "data-step": -1, "aria-label": "method before"}, "\N{LEFTWARDS ARROW}"),
        tag("button", {"type": "button", "class": "step", "data-step": 1, "aria-label": "next method"}, "\N{RIGHTWARDS ARROW}"),
        pictures,
    )
    label = "Map of test embeddings. Arrow keys go from item to item, N and P to the next method and the one before."
    canvas = tag("canvas", {"tabindex": 0, "role": "application", "aria-label": label})
    card = tag("div", {"class": "card", "hidden": True, "role": "status"})
    whole = len(shown_map.items) == len(items.labels)
    how_many = count_of(len(shown_map.items), "test item", "test items") + ("" if whole else f" of {len(items.labels):,}")
    kind, remark = ("The embeddings", PLANE_REMARK) if shown_map.kind == PLANE else (shown_map.kind, MAP_REMARK)
    note = (
        f"{kind} of {how_many} in {count_of(num_classes, 'class', 'classes')}, the same for every method; colour and shape stand "
        f"for the class. Point at an item (or use the arrow keys) to see it and its class, or at a class to see where it lies. {remark}"
    )
    classes = tag("ul", {"class": "classes", "aria-label": "classes on the map"})
    stage = tag("div", {"class": "beside"}, tag("div", {"class": "stage"}, canvas, card), classes)
    holder = tag("div", {"class": "map", "data-items": key}, controls, stage)
    return join([holder, tag("p", {"class": "note"}, note)])


def lists_section(
    lists: RankedLists,
    methods: list[MethodResult],
    items: TestItems,
    *,
    lines: Mapping[str, MethodLine],
    shown: npt.NDArray[np.int64],
    sprite: Sprite | None,
    key: str,
) -> Markup:
    place = {item: i for i, item in enumerate(shown.tolist())}

    def tile(item: int) -> Markup:
        if sprite is None:
            return tag("span", {"class": "word"}, items.class_names[items.labels[item]])
        at = sprite.place[item]
        return tag("i", {"class": "thumb", "style": f"--c:{at % sprite.columns};--r:{at // sprite.columns}"})

    picks, panels = [], []
    for i, query in enumerate(lists.queries.tolist()):
        name, file = items.class_names[items.labels[query]], breakable(_short(items.names[query]))
        label = f"query {i + 1}, class {name}"
        attributes: dict[str, str | float | bool] = {"type": "button", "role": "tab", "aria-label": label, "aria-selected": "false"}
        picks.append(tag("button", attributes | {"data-i": place[query]}, tile(query)))
        rows = []
        for method in methods:
            near = lists.neighbours[method.name][i]
            is_right = (items.labels[near] == items.labels[query]).tolist()
            cells = []
            for item, right in zip(near.tolist(), is_right, strict=True):
                sign = tag("b", {}, "✓" if right else "✗", tag("span", {"class": "hidden"}, "right" if right else "wrong"))
                cells.append(tag("li", {"class": "hit" if right else "miss", "data-i": place[item]}, tile(item), sign))
            head = tag("div", {"class": "who"}, swatch(lines[method.name]), tag("bdi", {}, method.title))
            tally = tag("span", {"class": "tally"}, f"{sum(is_right)}/{len(cells)}")
            rows.append(tag("div", {"class": "list", "data-method": lines[method.name].number}, head, tally, tag("ol", {}, *cells)))
        about = tag(
            "div",
            {"class": "query", "data-i": place[query]},
            tile(query),
            tag("p", {}, tag("bdi", {"class": "name"}, breakable(name)), Markup("<br>"), tag("small", {}, tag("bdi", {}, file))),
            tag("p", {}, tag("small", {}, f"average precision {percent(float(lists.precision[i]), digits=1)} %, the mean over methods")),
        )
        panels.append(tag("div", {"class": "panel", "role": "tabpanel", "aria-label": label}, about, tag("div", {"class": "lists"}, *rows)))
    note = (
        f"Of {lists.num_scored:,} queries, by average precision, the mean over all methods: those nearest to the median, those on which "
        "the methods differ most, and the lowest, one a class. "
        "Each row holds a method's nearest items, the nearest first; ✓ is of the query's class, ✗ is not."
    )
    kinds = []
    for kind, count in lists.kinds.items():
        kinds.append(tag("div", {"class": "kind", "role": "presentation"}, tag("span", {"class": "group"}, kind), *picks[:count]))
        picks = picks[count:]
    picker = tag("div", {"class": "picks", "role": "tablist", "aria-label": "queries"}, *kinds)
    return join([tag("p", {"class": "note"}, note), tag("div", {"class": "examples", "data-items": key}, picker, *panels)])


def _short(name: str) -> str:
    text = printable(name)
    return text if len(text) <= LONGEST_NAME else "…" + text[1 - LONGEST_NAME :]
