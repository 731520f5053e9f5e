"""Sweeps: settings of methods or of the protocol that are varied, each alone or several together.

A sweep is a name with its values, {"loss.alpha": (1.0, 1.2)}, or several names with a value of each for every point,
{"loss.alpha x loss.margin": ((1.0, 0.2), (1.2, 0.2))}. A point of it is named by its settings, "loss.alpha=1 x loss.margin=0.2"; what it
does not name is as it is without the sweep, but for the steps: as many images are seen with any batch, unless the point names steps too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from functools import lru_cache
from itertools import product
from typing import Any, TypeAlias

from likewise.checks import known_name
from likewise.comparison.baselines import competes, is_baseline
from likewise.configuration import divided, value_of, with_settings
from likewise.methods import Method, at, has_setting, typed
from likewise.protocols import Protocol
from likewise.wording import listed

TOGETHER = " x "
# Of a protocol: what the data are, and how a comparison is judged. Of a method: what it is called, and what tuning may try.
NOT_OF_PROTOCOLS = (
    *("name", "about", "data", "weights", "validation", "validate_every", "ks", "metrics"),
    *("equal", "tune", "trials", "folds", "seeds"),
)
NOT_OF_METHODS = (
    *("name", "title", "paper", "summary", "search", "grid", "published", "under"),
    *("loss", "mining", "sampler", "head", "rates", "ensemble"),  # tables
)

Settings: TypeAlias = dict[str, Any]
Sweeps: TypeAlias = dict[str, tuple[Any, ...]]


def parsed_sweep(text: str) -> tuple[str, list[Any]]:
    """A sweep as a command line has it: "loss.alpha=1,1.2", or every combination of "loss.alpha=1,1.2 x loss.margin=.2,.4"."""
    names, values = [], []
    for part in re.split(r"\s+x\s+", text.strip()):
        name, equals, listing = part.partition("=")
        entries = [entry.strip() for entry in re.findall(r'(?:\[[^\]]*\]|"[^"]*"|[^,])+', listing)]
        if not equals or not name.strip() or not any(entries):
            raise ValueError(f"--sweep {text!r}: expected NAME=VALUE,VALUE such as dim=64,128 or loss.alpha=1,1.2,1.4")
        names.append(name.strip())
        values.append([value_of(_with_zero(entry)) for entry in entries])
    return TOGETHER.join(names), values[0] if len(names) == 1 else list(product(*values))


def _with_zero(text: str) -> str:
    """A number that begins with its point, as TOML has it."""
    return re.sub(r"^(-?)(?=\.\d)", r"\g<1>0", text)


def points_of(sweep: str, values: Sequence[Any]) -> list[Settings]:
    """The settings at each point of a sweep."""
    names = names_in(sweep)
    if len(names) == 1:
        return [{names[0]: value} for value in values]
    for value in values:
        if not isinstance(value, list | tuple) or len(value) != len(names):
            raise ValueError(f"sweep {sweep}: {value!r} is no point of it: expected {len(names)} values, one of each name")
    return [dict(zip(names, value, strict=True)) for value in values]


def names_in(sweep: str) -> list[str]:
    """What is varied in a sweep."""
    return [name.strip() for name in sweep.split(TOGETHER)]


def point_in_words(settings: Mapping[str, Any]) -> str:
    """ "dim=64"; empty outside of sweeps. It names the point in the store, and `settings_of` reads it again."""
    return TOGETHER.join(f"{name}={as_written(value)}" for name, value in settings.items())


def settings_of(point: str) -> Settings:
    """What a point's name says."""
    settings = {}
    for part in point.split(TOGETHER) if point else ():
        name, _, value = part.partition("=")
        settings[name] = value_of(value)
    return settings


def as_written(value: Any) -> str:
    """A value as people write it, and `value_of` reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}" if float(f"{value:g}") == value else repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(json.dumps(entry) if isinstance(entry, str) else as_written(entry) for entry in value)}]"
    return "none" if value is None else str(value)


@lru_cache(maxsize=1024)
def protocol_at(protocol: Protocol, point: str) -> Protocol:
    """The protocol at a point. As many images are seen with any batch, unless the point says how many steps there are."""
    settings = divided(settings_of(point), protocol=Protocol, method=Method)["protocol"]
    changed = with_settings(protocol, settings)
    if "batch" in settings and "steps" not in settings:
        changed = replace(changed, steps=max(1, round(protocol.steps * protocol.batch / changed.batch)))
    return changed


def method_at(method: Method, point: str) -> Method:
    """A method at a point."""
    if not point:
        return method
    settings = divided(settings_of(point), protocol=Protocol, method=Method)["method"]
    return with_settings(method, {name: typed(method, name, value) for name, value in settings.items()}) if settings else method


def reduced(point: str, method: Method, protocol: Protocol, *, tuned: Sequence[str] = ()) -> str:
    """The point without settings that a method and the protocol have anyway, so that nothing is trained twice; empty if it has all.

    tuned: settings whose value is only known once it is chosen.
    """
    if not point:
        return point
    settings = settings_of(point)
    of_methods = divided(settings, protocol=Protocol, method=Method)["method"]
    there, changed = protocol_at(protocol, point), method_at(method, point)

    def is_other(name: str) -> bool:
        if name in of_methods:
            return name in tuned or as_written(at(changed, name)) != as_written(at(method, name))
        return bool(getattr(there, name) != getattr(protocol, name))

    kept = {name for name in settings if is_other(name)}
    if "batch" in kept and "steps" in settings:  # which is then more than the value: they do not follow the batch
        kept.add("steps")
    return point_in_words({name: value for name, value in settings.items() if name in kept})


def why_absent(method: Method, point: str) -> str:
    """Why a method has no place at a point; empty if it has one."""
    if not point:
        return ""
    settings = settings_of(point)
    of_methods = divided(settings, protocol=Protocol, method=Method)["method"]
    if competes(method) or (is_baseline(method) and of_methods):
        return "nothing is trained for it"
    missing = [name for name in of_methods if not has_setting(method, name)]
    if missing:
        return f"no setting {listed(missing)}"
    if "dim" in settings and method.head.dim is not None and "head.dim" not in settings:
        return f"a dimension of its own, {method.head.dim:,}"
    try:
        changed = method_at(method, point)
        changed.make_loss(num_classes=2)
        changed.make_miner()
    except ValueError as fault:
        return str(fault)
    return ""


def checked_sweeps(asked: Mapping[str, Sequence[Any]], methods: Sequence[Method], protocol: Protocol, *, pretrained: bool) -> Sweeps:
    """The sweeps with values of the types that their settings have; a ValueError where one could not be, or no method takes part."""
    sweeps: Sweeps = {}
    for sweep, values in asked.items():
        names = names_in(sweep)
        for name in names:
            _check_name(name, methods)
        if len(set(names)) < len(names):
            raise ValueError(f"sweep {sweep}: expected different names")
        points = [_checked_point(sweep, settings, methods, protocol, pretrained=pretrained) for settings in points_of(sweep, values)]
        words = [point_in_words(settings) for settings in points]
        if not points or len(set(words)) < len(words):
            raise ValueError(f"sweep {sweep}={','.join(map(str, values))}: expected at least one value, and different ones")
        found = [tuple(settings.values()) for settings in points]
        sweeps[TOGETHER.join(names)] = tuple(value[0] for value in found) if len(names) == 1 else tuple(found)
    return sweeps


def _check_name(name: str, methods: Sequence[Method]) -> None:
    dotted = dict.fromkeys(known for method in methods for known in method.dotted_names)
    owner = next(owner for owner, part in divided({name: None}, dotted=dotted, protocol=Protocol, method=Method).items() if part)
    refused = NOT_OF_PROTOCOLS if owner == "protocol" else NOT_OF_METHODS
    if name in refused:
        within = [known for known in dotted if known.startswith(f"{name}.")]
        if within or name in ("loss", "mining", "sampler"):
            raise ValueError(f"sweep {name!r}: it has settings of its own; name one of them: {', '.join(within) or f'{name}.name'}")
        raise ValueError(f"sweep {name!r}: it is no part of a training; make a comparison of its own for each value")
    if owner == "method" and not any(has_setting(method, name) for method in methods):
        known_name("setting of these methods", name, [*dotted, *_plain_names()])


def _plain_names() -> list[str]:
    """Of methods, without a dot."""
    return [entry.name for entry in fields(Method) if entry.name not in NOT_OF_METHODS]


def _checked_point(sweep: str, settings: Settings, methods: Sequence[Method], protocol: Protocol, *, pretrained: bool) -> Settings:
    parts = divided(settings, protocol=Protocol, method=Method)
    having = [method for method in methods if all(has_setting(method, name) for name in parts["method"])]
    if not having:
        raise ValueError(f"sweep {sweep}: none of the methods has {listed(list(parts['method']))} together; sweep one at a time")
    typed_settings = [{name: typed(method, name, value) for name, value in parts["method"].items()} for method in having]
    there = with_settings(protocol, parts["protocol"])
    there.check_time(is_measured=True)
    if there.steps < 1:
        raise ValueError(f"sweep {sweep}: steps={there.steps}: expected at least 1; the network as it starts is in every table anyway")
    if pretrained and there.backbone != protocol.backbone:
        raise ValueError(f"sweep {sweep}: the weights are of {protocol.backbone}; make a comparison of its own for each backbone")
    if there.frozen and not (pretrained or protocol.frozen):
        raise ValueError(f"sweep {sweep}: a frozen backbone needs pretrained weights: give --weights")
    values = {name: getattr(there, name) if name in parts["protocol"] else typed_settings[0][name] for name in settings}
    point = point_in_words(values)
    if "|" in point or settings_of(point) != {name: _as_read(value) for name, value in values.items()}:
        raise ValueError(f"sweep {sweep}: {point!r} cannot be written as NAME=VALUE: expected numbers, words, true or false, or lists")
    faults = [why_absent(method, point) for method in having]
    if all(faults):
        raise ValueError(f"sweep {sweep}: no method can be at {point}: {faults[0]}")
    return values


def _as_read(value: Any) -> Any:
    return [_as_read(entry) for entry in value] if isinstance(value, list | tuple) else "none" if value is None else value
