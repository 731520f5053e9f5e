"""Which protocol suits a data set, where none is asked for: the same for one training and for a comparison."""

from __future__ import annotations

from likewise.data.dataset import Dataset, Features
from likewise.protocols import PROTOCOLS


def suited_protocol(dataset: Dataset) -> str:
    """The name of the protocol: a published data set's own, or by what the items are."""
    if isinstance(dataset.items, Features):
        return "features"
    if dataset.name == "glyphs":
        return "quick"
    return dataset.name if dataset.name in PROTOCOLS else "folder"
