"""What a name means: an entry of a registry, or code of the user's by its address."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from likewise.argument_types import require_kinds
from likewise.checks import known_name
from likewise.limits import require_within
from likewise.own_code import at_address, is_address, is_known, resolved_address

Entry = TypeVar("Entry")
Made = TypeVar("Made")


def registered(kind: str, name: str, registry: Mapping[str, Entry]) -> Entry:
    """The registry's entry of this name, or what stands at this address."""
    if is_address(name):
        entry: Entry = at_address(resolved_address(name))
        return entry
    return registry[known_name(kind, name, registry)]


# Settings that memory is taken for when a loss is made, and the limits that they have.
SIZES = {"num_classes": "classes", "dim": "dim", "num_centers": "members"}


def checked_name(kind: str, name: str, registry: Mapping[str, Any], *, folder: Path | None = None) -> str:
    """The name, if the registry has it; an address resolved (see `own_code`)."""
    return resolved_address(name, folder=folder) if is_address(name) else known_name(kind, name, registry)


def is_here(name: str) -> bool:
    """Whether what the name means can be had in this process; an address out of a run or a database may not."""
    return not is_address(name) or is_known(resolved_address(name))


def from_registry(
    kind: str,
    name: str,
    registry: Mapping[str, Callable[..., Made]],
    settings: Mapping[str, Any],
    *,
    where_taken: Mapping[str, Any] | None = None,
) -> Made:
    """What the entry of this name makes of the settings; those in `where_taken` reach it only if it takes them."""
    make = registered(kind, name, registry)
    accepted = inspect.signature(make).parameters
    for setting in settings:
        known_name(f"setting of {name}", setting, accepted)
    require_kinds(name, make.__init__ if isinstance(make, type) else make, settings)  # type: ignore[misc]
    given = {**settings, **{setting: value for setting, value in (where_taken or {}).items() if setting in accepted}}
    for setting, limit in SIZES.items():
        size = given.get(setting)
        if isinstance(size, int):
            if size < 1:
                raise ValueError(f"{name}: {setting}={size}: expected at least 1")
            require_within(limit, size, f"{name}: {setting} is")
    return make(**given)
