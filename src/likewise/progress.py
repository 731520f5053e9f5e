"""Progress: how work tells how far it is. Whoever calls it hands in a function; what is drawn, if anything, is the caller's business."""

from __future__ import annotations

from collections.abc import Callable

# Called with what is under way, how many of its items are done, and of how many; of 0 where nobody knows: on_progress("packing", 64, 200).
# What is told to be done in whole is over.
ProgressCallback = Callable[[str, int, int], None]
