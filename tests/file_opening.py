"""The opening comment of a configuration file."""

from pathlib import Path


def opening(path: Path) -> str:
    """The comment at the head of a file, as one line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return " ".join(line.removeprefix("#").strip() for line in lines[: next(i for i, line in enumerate(lines) if not line.startswith("#"))])
