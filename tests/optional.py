"""What some tests need besides the package: without it they are skipped, but where LIKEWISE_CI is set they fail."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

import pytest


def needs_package(name: str) -> None:
    if find_spec(name) is None:
        _missing(f"the package {name}")


def needs_program(name: str) -> str:
    """Its path."""
    path = shutil.which(name)
    if path is None:
        _missing(f"the program {name}")
    return path


def needs_node_modules(*packages: str) -> Path:
    """`node_modules` of the repository, with these packages; for node to find them from elsewhere, it is linked there."""
    folder = Path(__file__).parent.parent / "node_modules"
    for name in packages:
        if not (folder / name / "package.json").is_file():
            _missing(f"the npm package {name} (npm install --no-save {name})")
    return folder


def _missing(what: str) -> NoReturn:
    if os.environ.get("LIKEWISE_CI"):
        pytest.fail(f"{what} is not installed, and LIKEWISE_CI is set")
    pytest.skip(f"{what} is not installed")
