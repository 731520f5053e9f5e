"""Item: what an index knows of an image besides its vector."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from likewise.data.dataset import Cell

Value = Cell  # of a metadata column


@dataclass(frozen=True)
class Item:
    """An image of an index. Its path is what names it: an index holds one item a path."""

    path: str  # absolute
    digest: str  # of the file's bytes, in hexadecimal: a changed file has another
    label: str | None = None  # its class, where it is known
    metadata: Mapping[str, Value] = field(default_factory=dict)  # further columns of the table it came from

    def value(self, column: str) -> Value:
        """Of "path", "label" or a metadata column; None where it has none."""
        if column == "path":
            return self.path
        return self.label if column == "label" else self.metadata.get(column)
