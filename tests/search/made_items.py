"""Made items with vectors, and the plainest search there is: what stores are held to."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from likewise.search.filters import parse_filter
from likewise.search.item import Item, Value

# What file names and tables may hold. The last but one is a name that is no text, as Python reads it from a disk.
HOSTILE = (
    "'; DROP TABLE items; --",
    'a"b""c',
    "back\\slash \\x00 \\N \\.",
    "per%cent %s %(name)s {name} {condition}",
    "tab\tline\nreturn\r",
    "",
    " spaces ",
    "NULL",
    "nul\0in the middle\0",
    "\x10\x00\x10",
    "Größe ΣΑΣ İI ﬁ",
    "\U0001f426 \u202e\u0000",
    "caf\udce9\udcff",
    "x" * 3000 + "".join(chr(33 + (i * i) % 900) for i in range(2000)),
)


def made(number: int, width: int, *, seed: int = 0, prefix: str = "/pictures") -> tuple[list[Item], npt.NDArray[np.float32]]:
    """Items of classes, with metadata of every kind, and vectors around the classes' centres. Some vectors are copies of others."""
    rng = np.random.default_rng(seed)
    num_classes = max(1, number // 20)
    classes = rng.integers(0, num_classes, number)
    centres = np.random.default_rng(99).standard_normal((num_classes, width))
    vectors = centres[classes] + 0.8 * rng.standard_normal((number, width))
    for copy, original in rng.integers(0, number, (number // 10, 2)):
        vectors[copy] = vectors[original]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    items = [
        Item(f"{prefix}/{seed}/{place}.jpg", f"{seed:08x}{place:08x}", None if place % 7 == 0 else f"Class {kind}", metadata_of(place))
        for place, kind in enumerate(classes.tolist())
    ]
    return items, vectors.astype(np.float32)


def metadata_of(place: int) -> dict[str, Value]:
    years: tuple[Value, ...] = (1990 + place % 40, f" {1990 + place % 40} ", 2001.5, "unknown", None, True, float("inf"), "1e3")
    values: dict[str, Value] = {"year": years[place % len(years)], "Ort": ("Hafen", "HAFEN süd", "straße", "")[place % 4]}
    if place % 3 == 0:
        values["label"] = "of the table, and hidden by the class"
    return values if place % 5 else {}


FILTERS = [
    ["label=Class 1"],
    ["label!=Class 1"],
    ["label="],
    ["label!="],
    ["label~CLASS"],
    ["path~/7"],
    ["path>=/pictures/0/5"],
    ["year=2001"],
    ["year!=2001"],
    ["year=2001.50"],
    ["year>=2000"],
    ["year<2000"],
    ["year>unknow"],
    ["year=true"],
    ["year=inf"],
    ["year=1000"],
    ["year="],
    ["Ort=Hafen"],
    ["Ort~hafen"],
    ["Ort~STRASSE"],
    ["Ort="],
    ["Ort!="],
    ["Ort>=I"],
    ["nothing="],
    ["nothing!=x"],
    ["nothing=x"],
    ["nothing~"],
    ["year>=2000", "Ort~hafen", "label!=Class 2"],
]


class PlainStore:
    """Items and vectors in dictionaries; searched by a loop."""

    def __init__(self) -> None:
        self.items: dict[int, Item] = {}
        self.vectors: dict[int, npt.NDArray[np.float64]] = {}

    def add(self, ids: Sequence[int], items: Sequence[Item], vectors: npt.NDArray[np.float32]) -> None:
        paths = {item.path for item in items}
        self.remove([number for number, item in self.items.items() if item.path in paths])
        for number, item, vector in zip(ids, items, vectors, strict=True):
            self.items[int(number)], self.vectors[int(number)] = item, vector.astype(np.float64)

    def remove(self, ids: Sequence[int]) -> None:
        for number in ids:
            del self.items[number], self.vectors[number]

    def ids(self, where: Sequence[str] = ()) -> list[int]:
        conditions = parse_filter(where)
        return sorted(number for number, item in self.items.items() if all(condition.holds(item) for condition in conditions))

    def similarities(self, query: npt.NDArray[np.float32], where: Sequence[str] = ()) -> dict[int, float]:
        return {number: cosine(query, self.vectors[number]) for number in self.ids(where)}


def cosine(a: npt.NDArray[np.floating], b: npt.NDArray[np.floating]) -> float:
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.sum(a * b) / np.sqrt(np.sum(a * a) * np.sum(b * b)))
