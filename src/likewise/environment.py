"""Environment: the versions, processor cores, threads and devices that a result depends on. Torch is imported where it is asked."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from likewise.wording import quoted

PACKAGES = ("likewise", "torch", "numpy", "scipy", "scikit-learn", "lightning-fabric", "safetensors", "optuna")


def versions() -> dict[str, str]:
    """Python, the platform and the packages that results may depend on."""
    of_packages = {package: installed_version(package) for package in PACKAGES}
    return {"python": platform.python_version(), "platform": platform.platform(), **of_packages}


def installed_version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "not installed"


def num_cores() -> int:
    """The cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def num_ranks(variable: str = "WORLD_SIZE") -> int:
    """The processes that share one training, as torchrun tells each of them."""
    given = os.environ.get(variable)
    if given is None:
        return 1
    if not given.isdecimal() or int(given) < 1:
        raise ValueError(f"{variable} is {given!r} in the environment: expected a whole number above 0; torchrun sets it, else unset it")
    return int(given)


def check_alone(what: str) -> None:
    """A ValueError where this is one of several ranks: for what runs each training in one process."""
    if num_ranks() > 1:
        raise ValueError(
            f"WORLD_SIZE={num_ranks()} in the environment asks for so many processes in one training, and {what} runs each of its "
            "trainings in one: start it without torchrun, or unset WORLD_SIZE"
        )


@contextmanager
def num_threads(number: int | None) -> Iterator[None]:
    """Torch with so many threads inside; None: as they are. Sums of several threads differ in the last bit."""
    import torch

    before = torch.get_num_threads()
    if number is not None:
        torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def checked_device(name: str) -> str:
    """cpu or cuda[:N]; auto is cuda where there is one."""
    import torch

    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cpu" or (name.split(":")[0] == "cuda" and torch.cuda.is_available()):
        return name
    raise ValueError(f"device is {quoted(name)}: expected cpu, auto, or cuda where there is a GPU")


def device_kind(name: str) -> Literal["cpu", "cuda"]:
    """What kind of device it is, whichever of several."""
    return "cuda" if checked_device(name).startswith("cuda") else "cpu"
