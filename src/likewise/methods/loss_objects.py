"""A loss object as a method: what a user who wrote a loss gives instead of a file."""

from __future__ import annotations

import dataclasses
import inspect
import re
from typing import Any

from likewise.configuration import Named
from likewise.losses import LOSSES, AnyLoss
from likewise.losses.loss import checked_loss
from likewise.own_code import address_of_class

PAPER = "your own"  # of methods that no paper has


def named_loss(loss: AnyLoss) -> Named:
    """A loss object by its name in LOSSES, or by the address of its class, with its settings."""
    loss = checked_loss(loss)
    kind = type(loss)
    name = next((name for name, known in LOSSES.items() if known is kind), None) or address_of_class(kind)
    return Named(name, _settings(loss))


def words_of(loss: AnyLoss) -> tuple[str, str, str]:
    """What a method of this loss is called: name, title, and the first line of its class's docstring."""
    title = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", type(loss).__name__)
    written = type(loss).__dict__.get("__doc__") or ""
    generated = f"{type(loss).__name__}("  # what dataclasses write where nothing is written
    line = next(iter(inspect.cleandoc(written).splitlines()), "")
    return title.replace(" ", "_").lower(), title, "" if line.startswith(generated) else line


def _settings(loss: AnyLoss) -> dict[str, Any]:
    """The settings that differ from their defaults, as a method file would have them."""
    if not dataclasses.is_dataclass(loss):
        if inspect.signature(type(loss)).parameters:
            raise ValueError(
                f"{type(loss).__name__} is no dataclass, so that its settings cannot be told from it: give a method file with "
                f'[loss] name = "FILE.py:{type(loss).__name__}" and its settings'
            )
        return {}
    settings = {entry.name: getattr(loss, entry.name) for entry in dataclasses.fields(loss) if entry.init}
    defaults = {entry.name: entry.default for entry in dataclasses.fields(loss)}
    settings = {name: value for name, value in settings.items() if value is not defaults[name] and value != defaults[name]}
    for name, value in settings.items():
        if not isinstance(value, bool | int | float | str | tuple | list):
            raise ValueError(
                f"{type(loss).__name__} {name}={value!r}: expected a number, a text or several of them, as a method file has them"
            )
    return settings
