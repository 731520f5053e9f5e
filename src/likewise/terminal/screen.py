"""The screen: the one way by which text reaches a terminal, without what a terminal would obey.

Labels, paths and messages come from files that anybody may have made. An escape code in them would move the cursor, change the title or
write over what stands above; what changes the direction of text would hide what a name is. A mark stands in the place of each.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment

from likewise.addresses import without_secrets
from likewise.wording import printable_lines


class Screen(Console):
    """rich's console. Its own codes reach the terminal, those of the text do not."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable_lines(segment.text), segment.style)


def say(text: Any, *, err: bool = False) -> None:
    """A line on stdout, or on stderr."""
    print(printable_lines(without_secrets(str(text))), file=sys.stderr if err else sys.stdout, flush=err)
