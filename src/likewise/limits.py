"""Limits: how much of anything data may ask for before it is refused, in one place.

Each limit is a field of `Limits`. The environment changes it: `LIKEWISE_MAX_` and the field's name in capitals, so that processes started
later have the same limits. `with limited(pixels=10**9):` does that from Python, for as long as the block lasts. What is over a limit is
refused before memory is taken for it, by a message that names the value, the limit and the variable that raises it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import lru_cache

PREFIX = "LIKEWISE_MAX_"


def _limit(default: int, about: str) -> int:
    entry: int = field(default=default, metadata={"about": about})
    return entry


@dataclass(frozen=True)
class Limits:
    """The policy. docs/limits.md is made from it."""

    # images
    pixels: int = _limit(178_956_970, "pixels of an image, as it is stored and as it is resized: half a GiB of RGB")
    width: int = _limit(200_000, "pixels of an image from left to right")
    height: int = _limit(200_000, "pixels of an image from top to bottom")
    aspect: int = _limit(100, "times that the longer side of an image may be the shorter one, where it is resized by the shorter one")
    image_bytes: int = _limit(2**29, "bytes of the file of one image")
    chunk_bytes: int = _limit(2**28, "bytes of decoded pixels that a packing process holds; what is beyond is decoded again to be written")
    packed_bytes: int = _limit(2**40, "bytes of the packed images of one data set")
    # files
    file_bytes: int = _limit(2**38, "bytes of a file of vectors, of weights or of an annotated data set")
    text_bytes: int = _limit(2**30, "bytes of a table or a list as text")
    settings_bytes: int = _limit(2**26, "bytes of a JSON or TOML file")
    expansion: int = _limit(200, "times its own size that a compressed file may unpack to, where that is more than 64 MiB")
    nesting: int = _limit(100, "tables and lists within each other in JSON and TOML")
    parser_seconds: int = _limit(120, "seconds of the process that parses a MATLAB file")
    parser_bytes: int = _limit(2**32, "bytes of memory of the process that parses a MATLAB file")
    # data
    rows: int = _limit(100_000_000, "rows of a table, or vectors of a file")
    columns: int = _limit(200_000, "columns of a table, or arrays of an archive")
    classes: int = _limit(10_000_000, "classes of a data set")
    # settings
    dim: int = _limit(65_536, "dimensions of a vector or of an embedding")
    members: int = _limit(1_000, "networks of an ensemble")
    memory: int = _limit(10_000_000, "embeddings of earlier batches that a method keeps")
    batch: int = _limit(1_000_000, "items of a batch")
    views: int = _limit(10_000, "views of an image that a frozen backbone sees")
    steps: int = _limit(1_000_000_000, "steps of a training")
    jobs: int = _limit(1_000, "processes of a comparison on this machine")
    trials: int = _limit(100_000, "trials, folds or seeds of a comparison")

    def __post_init__(self) -> None:
        for entry in fields(self):
            value = getattr(self, entry.name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise ValueError(f"the limit {entry.name} is {value!r}: expected a whole number of at least 1")


class OverLimit(ValueError):
    """More than a limit allows; the message says how to raise it."""


def current_limits() -> Limits:
    """The limits as the environment has them now."""
    return _of_environment(tuple((name, value) for name, value in os.environ.items() if name.startswith(PREFIX)))


@contextmanager
def limited(**limits: int) -> Iterator[Limits]:
    """These limits inside the block, also for the threads and processes that are started in it."""
    Limits(**limits)  # refuses what is none
    before = {variable_of(name): os.environ.get(variable_of(name)) for name in limits}
    os.environ.update({variable_of(name): str(value) for name, value in limits.items()})
    try:
        yield current_limits()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def variable_of(name: str) -> str:
    """The variable of the environment that sets a limit."""
    return PREFIX + name.upper()


def require_within(limit: str, value: int | float, what: str) -> None:
    """An OverLimit where the value is more than the limit of that name. `what` begins the sentence: "photo.png has a width of"."""
    most = getattr(current_limits(), limit)
    if value > most:
        raise OverLimit(f"{what} {_in_digits(value)}, more than the limit of {most:,}{how_to_raise(limit)}")


def how_to_raise(limit: str) -> str:
    """The end of a message."""
    return f" ({variable_of(limit)} raises it)"


def _in_digits(value: int | float) -> str:
    return f"{value:,.0f}" if value < 10**18 else "over 10^18"


@lru_cache(maxsize=64)
def _of_environment(given: tuple[tuple[str, str], ...]) -> Limits:
    names = [entry.name for entry in fields(Limits)]
    values = {}
    for variable, text in given:
        name = variable.removeprefix(PREFIX).lower()
        if name not in names or variable != variable_of(name):
            from likewise.checks import known_name  # here, as it brings torch along

            known_name("limit in the environment", variable, map(variable_of, names))
        try:
            values[name] = int(text) if text.strip().lstrip("+-").replace("_", "").isdigit() else int(float(text))
        except (ValueError, OverflowError):
            raise ValueError(f"{variable}={text!r}: expected a whole number, such as 200_000_000 or 2e8") from None
    return Limits(**values)
