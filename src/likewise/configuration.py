"""Configuration: a TOML table as a frozen dataclass. Unknown keys, wrong types and wrong names are errors that say what to do."""

from __future__ import annotations

import tomllib
import types
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from likewise.checks import close_name, known_name
from likewise.formats.settings_files import not_finite, toml_value
from likewise.wording import quoted, shortened

T = TypeVar("T")


@dataclass(frozen=True)
class Named:
    """Something out of a registry with its settings: `[loss]` with `name = "raw"` and `alpha = 2.0`."""

    name: str
    settings: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Uniform:
    """A range that tuning draws from."""

    low: float
    high: float
    log: bool = False


@dataclass(frozen=True)
class Choice:
    """A few values that tuning chooses from."""

    choices: tuple[Any, ...]


def from_table(kind: type[T], table: Mapping[str, Any], *, where: str) -> T:
    """The dataclass `kind` of this table. `where` names the file, for messages."""
    hints = get_type_hints(kind)
    names = [entry.name for entry in fields(kind)]  # type: ignore[arg-type]
    for key in table:
        known_name(f"key of {where}", key, names)
    missing = [entry.name for entry in fields(kind) if entry.name not in table and not _has_default(entry)]  # type: ignore[arg-type]
    if missing:
        raise ValueError(f"{where}: {', '.join(missing)} missing")
    return kind(**{key: converted(value, hints[key], f"{where}: {key}") for key, value in table.items()})


def converted(value: Any, hint: Any, where: str) -> Any:
    """The value as a field of this type holds it; a ValueError if it cannot."""
    origin, arguments = get_origin(hint), get_args(hint)
    unsound = next(not_finite(value, where), None)
    if unsound is not None:
        raise ValueError(f"{shortened(unsound, most=300)} is NaN or infinite: expected a number")
    if hint is Any:
        return value
    if hint is Named:
        return _named(value, where)
    if origin in (Union, types.UnionType):
        return _one_of(value, arguments, where)
    if origin is Literal:
        if value in arguments:
            return value
        raise ValueError(f"{where} is {quoted(value)}: expected one of {', '.join(map(repr, arguments))}")
    if origin is tuple and isinstance(value, (list, tuple)):
        return tuple(converted(entry, arguments[0], where) for entry in value)
    if origin is dict and isinstance(value, Mapping):
        return {str(key): converted(entry, arguments[1], f"{where}.{shortened(str(key))}") for key, entry in value.items()}
    if is_dataclass(hint) and isinstance(value, Mapping):
        return from_table(hint, value, where=where)  # type: ignore[arg-type]
    if is_dataclass(hint) and isinstance(value, hint):  # type: ignore[arg-type]
        return value
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint is int and isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(hint, type) and isinstance(value, hint) and (hint is bool or not isinstance(value, bool)):
        return value
    if is_dataclass(hint):
        names = [entry.name for entry in fields(hint)]
        within = where.rpartition(": ")[2]
        meant = next((name for name, kind in get_type_hints(hint).items() if get_origin(kind) is Literal and value in get_args(kind)), None)
        if meant is not None:
            raise ValueError(
                f"{where} is {quoted(value)}: write {within}.{meant}={value}, as {within} has settings of its own ({', '.join(names)})"
            )
        raise ValueError(
            f"{where} is {quoted(value)}: expected a table of {', '.join(names)}; to set one of them, name it: {within}.{names[0]}"
        )
    raise ValueError(f"{where} is {quoted(value)}: expected {getattr(hint, '__name__', str(hint))}")


def with_settings(config: T, settings: Mapping[str, Any]) -> T:
    """The configuration with these values at these dotted names: {"loss.margin": 0.3, "rates.head": 1}."""
    for name, value in settings.items():
        config = _with(config, name.split("."), value, name)
    return config


def divided(settings: Mapping[str, Any], *, dotted: Iterable[str] = (), **kinds: type) -> dict[str, dict[str, Any]]:
    """The settings of each kind of configuration: divided({"steps": 3}, method=Method, protocol=Protocol)["protocol"] is {"steps": 3}.

    A name that several kinds have is the first's. dotted: further names, for who leaves out what stands before the dot.
    """
    owners = {entry.name: kind for kind in reversed(kinds) for entry in fields(kinds[kind])}
    parts: dict[str, dict[str, Any]] = {kind: {} for kind in kinds}
    for name, value in settings.items():
        head = name.split(".")[0]
        if head not in owners:
            within = [known for known in dotted if known.rpartition(".")[2] == name]
            if within:
                raise ValueError(f"unknown setting {quoted(head)}: did you mean {' or '.join(map(repr, within))}?")
            close = close_name(head, owners)
            hint = f"did you mean {close!r} ({owners[close]})?" if close else f"known are {', '.join(sorted(owners))}"
            raise ValueError(f"unknown setting {quoted(head)}: {hint}")
        parts[owners[head]][name] = value
    return parts


def as_table(config: Any) -> Any:
    """The configuration as JSON and TOML know it; `from_table` makes it again."""
    if isinstance(config, Named):
        return {"name": config.name, **{key: as_table(value) for key, value in config.settings.items()}}
    if is_dataclass(config):
        return {entry.name: as_table(getattr(config, entry.name)) for entry in fields(config)}
    if isinstance(config, Mapping):
        return {key: as_table(value) for key, value in config.items()}
    if isinstance(config, (list, tuple)):
        return [as_table(entry) for entry in config]
    return config


@dataclass(frozen=True)
class Difference:
    """A setting in which two configurations differ, and both values as a message has them."""

    name: str  # dotted
    before: str
    now: str


def differing(before: Mapping[str, Any], now: Mapping[str, Any], *, within: str = "") -> list[Difference]:
    """Every setting in which two tables (see `as_table`) differ. A name comes before the settings that belong to it.

    None is absent, and so is a table of nothing: whoever wrote the first may not have known of it yet.
    """
    differences = []
    for key in sorted(before.keys() | now.keys(), key=lambda key: (key != "name", key)):
        name, first, second = f"{within}{key}", before.get(key), now.get(key)
        if not first and not second and {type(first), type(second)} <= {type(None), dict}:
            continue
        if isinstance(first, Mapping) and isinstance(second, Mapping):
            differences += differing(first, second, within=f"{name}.")
        elif first != second:
            differences.append(Difference(name, _in_a_message(first), _in_a_message(second)))
    return differences


def _in_a_message(value: Any) -> str:
    if value is None:
        return "absent"
    return repr(value["name"] if isinstance(value, Mapping) and "name" in value else value)


def value_of(text: str) -> Any:
    """What `key=text` on a command line means: a TOML value, or else the text itself."""
    try:
        return toml_value(text)
    except tomllib.TOMLDecodeError:
        return text


def _with(config: Any, path: list[str], value: Any, name: str) -> Any:
    head, *rest = path
    if isinstance(config, Named):
        if rest:
            raise ValueError(f"unknown setting {quoted(name)}: {config.name} has no settings within {head!r}")
        if head == "name":  # another one has settings of its own
            return config if value == config.name else Named(str(value))
        return replace(config, settings=config.settings | {head: converted(value, Any, name)})
    known_name("setting", head, [entry.name for entry in fields(config)])
    hint = get_type_hints(type(config))[head]
    current = getattr(config, head)
    if rest and current is None and Named in get_args(hint):
        if rest != ["name"]:
            raise ValueError(f"setting {name!r}: there is no {head} here; set {head}.name first")
        return replace(config, **{head: Named(str(value))})
    if rest and not is_dataclass(current):
        raise ValueError(f"unknown setting {quoted(name)}: {head} has no settings of its own")
    return replace(config, **{head: _with(current, rest, value, name) if rest else converted(value, hint, name)})


def _named(value: Any, where: str) -> Named:
    if isinstance(value, Named):
        return value
    if isinstance(value, str):
        return Named(value)
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        return Named(value["name"], {key: entry for key, entry in value.items() if key != "name"})
    raise ValueError(f"{where} is {quoted(value)}: expected a table with a name")


def _one_of(value: Any, hints: tuple[Any, ...], where: str) -> Any:
    if type(None) in hints and (value is None or value == "none"):  # TOML has no null
        return None
    faults = []
    for hint in hints:
        if hint is not type(None):
            try:
                return converted(value, hint, where)
            except ValueError as fault:
                faults.append(str(fault))
    raise ValueError(faults[0])


def _has_default(entry: Any) -> bool:
    from dataclasses import MISSING

    return entry.default is not MISSING or entry.default_factory is not MISSING
