"""FileFinding: what a check says of one file."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

State = Literal["whole", "damaged", "missing", "not verifiable"]


@dataclass(frozen=True)
class FileFinding:
    path: str  # from the folder that was checked
    state: State
    what: str = ""  # what is wrong with it, or why it cannot be told
    mend: str = ""


@dataclass(frozen=True)
class CheckedFolder:
    """All that was found in a folder."""

    folder: Path
    kind: str  # a name of KINDS
    findings: tuple[FileFinding, ...]

    @property
    def is_whole(self) -> bool:
        """Whether nothing is damaged or missing."""
        return not self.of("damaged") and not self.of("missing")

    def of(self, state: State) -> tuple[FileFinding, ...]:
        return tuple(finding for finding in self.findings if finding.state == state)

    def as_json(self) -> dict[str, Any]:
        return {
            "folder": str(self.folder),
            "kind": self.kind,
            "is_whole": self.is_whole,
            "findings": [asdict(finding) for finding in self.findings],
        }
