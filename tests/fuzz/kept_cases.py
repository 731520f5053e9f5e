"""What failed once: small files in tests/fuzz/cases, each tried by the ordinary tests for ever."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent / "cases"
MOST_BYTES = 32_768  # of a file as it is kept; larger damage is found again by its seed


@dataclass(frozen=True)
class KeptCase:
    """A damaged file of a sample. Expected of every reader: a result, or one sentence."""

    format: str
    file: str  # below the sample
    content: bytes
    about: str  # how it once failed

    @property
    def name(self) -> str:
        return hashlib.sha256(f"{self.format} {self.file} ".encode() + self.content).hexdigest()[:12]


def keep(case: KeptCase) -> Path | None:
    """Writes it, if it is small."""
    packed = base64.b85encode(zlib.compress(case.content, 9)).decode()
    if len(packed) > MOST_BYTES:
        return None
    path = FOLDER / f"{case.name}.json"
    FOLDER.mkdir(exist_ok=True)
    path.write_text(json.dumps({"format": case.format, "file": case.file, "about": case.about, "content": packed}, indent=1) + "\n")
    return path


def kept_cases() -> list[KeptCase]:
    found = []
    for path in sorted(FOLDER.glob("*.json")):
        stored = json.loads(path.read_text())
        content = zlib.decompress(base64.b85decode(stored["content"]))
        found.append(KeptCase(stored["format"], stored["file"], content, stored["about"]))
    return found
