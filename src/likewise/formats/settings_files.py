"""JSON and TOML: text that becomes tables, lists and values, nested no deeper than a limit."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from likewise.formats.regular_file import UnreadableFile, parsing
from likewise.formats.text_files import read_text
from likewise.limits import current_limits, how_to_raise
from likewise.sealing import check_seal


def read_json(path: Path, *, remedy: str = "write it again") -> Any:
    """What the file holds."""
    return _parsed(json.loads, read_text(path, expected="JSON", limit="settings_bytes"), path, "JSON file", remedy)


def read_json_table(path: Path, *, remedy: str = "write it again") -> dict[str, Any]:
    """What the file holds, which has to be a table."""
    content = read_json(path, remedy=remedy)
    if not isinstance(content, dict):
        raise UnreadableFile(f"{path} holds {_kind(content)} where a table was expected: {remedy}")
    return content


def read_sealed_table(path: Path, *, remedy: str = "write it again") -> dict[str, Any]:
    """The table of a file that `sealed_json` wrote, or an earlier version without a seal; `Damaged` where it differs from its seal."""
    content = read_json_table(path, remedy=remedy)
    check_seal(path.read_bytes(), path, mend=remedy)
    content.pop("seal", None)
    return content


@contextmanager
def naming(file: str) -> Iterator[None]:
    """What is wrong with the values of a file is told with its name."""
    try:
        yield
    except ValueError as fault:
        if file in str(fault):
            raise
        raise ValueError(f"{file}: {fault}") from fault


def read_toml(path: Path) -> dict[str, Any]:
    """The table that the file is."""
    text = read_text(path, expected="TOML", limit="settings_bytes")
    table: dict[str, Any] = _parsed(tomllib.loads, text, path, "TOML file", "correct it")
    return table


def toml_value(text: str) -> Any:
    """What `key = text` would mean; a ValueError where it is no TOML."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except RecursionError as fault:
        raise tomllib.TOMLDecodeError("nested too deep") from fault
    except tomllib.TOMLDecodeError:
        raise
    except ValueError as fault:  # of int(): more digits than Python takes
        raise tomllib.TOMLDecodeError(str(fault)) from fault
    _require_shallow(value)
    return value


def not_finite(content: Any, where: str = "") -> Iterator[str]:
    """The dotted names at which NaN or infinity stands."""
    if isinstance(content, float) and not math.isfinite(content):
        yield where
    elif isinstance(content, dict):
        for name, value in content.items():
            yield from not_finite(value, f"{where}.{name}" if where else str(name))
    elif isinstance(content, (list, tuple)):
        for number, value in enumerate(content):
            yield from not_finite(value, f"{where}[{number}]")


def _parsed(parse: Callable[[str], Any], text: str, path: Path, kind: str, remedy: str) -> Any:
    with parsing(path, kind, remedy):
        content = parse(text)
        _require_shallow(content)
        return content


def _require_shallow(content: Any) -> None:
    """A ValueError where tables and lists are nested deeper than the limit: whoever walks through them would not come back."""
    most = current_limits().nesting
    level = [content]
    for _ in range(most + 1):
        level = [inner for outer in level for inner in _within(outer)]
        if not level:
            return
    raise ValueError(f"nested deeper than the limit of {most}{how_to_raise('nesting')}")


def _within(content: Any) -> list[Any]:
    """The tables and lists right within a table or a list."""
    values = content.values() if isinstance(content, dict) else content if isinstance(content, list) else ()
    return [value for value in values if isinstance(value, (dict, list))]


def _kind(content: Any) -> str:
    return {list: "a list", str: "text", type(None): "nothing"}.get(type(content), f"{content!r}"[:40])
