"""Reader: one way to get a Dataset, with typed options, and how to tell that a path is its kind."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from likewise.checks import known_name
from likewise.data.dataset import Dataset

_TRUE, _FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0")


@dataclass(frozen=True)
class Reader:
    """`read` takes the path first, if the reader has one; its keyword-only arguments are the options."""

    about: str
    read: Callable[..., Dataset]
    recognises: Callable[[Path], bool] | None = None  # is this path laid out as this reader expects?
    has_path: bool = True
    gives_labels: bool = True  # if not, it is for what is embedded only

    @property
    def options(self) -> dict[str, Any]:
        """Name -> type."""
        hints = typing.get_type_hints(self.read)
        parameters = inspect.signature(self.read).parameters.values()
        return {parameter.name: hints[parameter.name] for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY}

    def parse(self, name: str, option: str, value: Any) -> Any:
        """The value of an option as its type; text is read as that type."""
        kinds = self.options
        if not kinds:
            raise ValueError(f"{name} has no options, but {option}={value!r} was given: leave it out")
        try:
            known_name(f"option of {name}", option, kinds)
        except ValueError as fault:
            raise ValueError(f"{fault} (options: {', '.join(kinds)})") from None
        kind = kinds[option]
        allowed = typing.get_args(kind) if isinstance(kind, types.UnionType) else (kind,)
        if type(value) in allowed:
            return value
        if Path in allowed and isinstance(value, str | Path):
            return Path(value).expanduser()
        if float in allowed and type(value) is int:
            return float(value)
        text = str(value)
        for wanted in allowed:
            if wanted is bool and text.lower() in _TRUE + _FALSE:
                return text.lower() in _TRUE
            if wanted in (int, float) and isinstance(value, str):
                try:
                    return wanted(text)
                except ValueError:
                    continue
        expected = " or ".join(_WORDS.get(wanted, wanted.__name__) for wanted in allowed if wanted is not type(None))
        raise ValueError(f"{name}: {option}={value!r}: expected {expected}")


_WORDS = {int: "a whole number", float: "a number", bool: "true or false", str: "text", Path: "a path"}
