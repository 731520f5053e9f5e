"""How the house is built: layers that import one way, one name a module, rich and typer at the top alone, a package that loads lazily."""

from __future__ import annotations

import ast
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "likewise"

# The modules and packages at the top, each on a floor: it imports from the floors before its own, and from its own without a cycle.
LAYERS: tuple[tuple[str, ...], ...] = (
    (
        "addresses",
        "argument_types",
        "checks",
        "files",
        "downloads",
        "environment",
        "wording",
        "progress",
        "configuration",
        "ray_session",
        "chained_lines",
        "sealing",
        "limits",
        "formats",
        "own_code",
        "registries",
    ),
    (
        "pairs",
        "rows",
        "relations",
        "losses",
        "mining",
        "references",
        "collective",
        "engines",
        "objectives",
        "joint_objective",
        "pair_weighting",
        "unit_vectors",
    ),
    ("samplers",),
    ("data",),
    ("evaluation",),
    ("models",),
    ("methods", "protocols"),
    ("training",),
    ("adaptation",),
    ("comparison",),
    ("reports",),
    ("explanation", "search", "reproductions", "discovery"),
    ("exporting", "serving"),
    ("integrity",),
    ("terminal",),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: floor for floor, rooms in enumerate(LAYERS) for room in rooms}
TERMINAL_LIBRARIES = {"rich", "typer"}

PUBLIC = (
    "LOSSES",
    "MINERS",
    "RERANKERS",
    "Calibration",
    "DesignedByWeights",
    "Embedder",
    "Explanation",
    "Index",
    "Objective",
    "__version__",
    "adapt",
    "calibrate",
    "check",
    "compare",
    "discover",
    "evaluate",
    "explain",
    "export",
    "nearest",
    "objective",
    "pair_weights",
    "reproduce",
    "rerank",
    "train",
    "trust",
    "verdict",
    "whiten",
)


@cache
def modules() -> dict[str, Path]:
    """Every module but the package itself, named from below `likewise`."""
    paths = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        if name:
            paths[name] = path
    return paths


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imported(path: Path) -> tuple[str, ...]:
    """The full names of the modules that this file imports anywhere, inside functions and for type checkers too."""
    return tuple(imported_by(ast.walk(parsed(path))))


def imported_by(nodes: Iterable[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where they lead: write the whole name"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names) if node.module == "likewise" else (node.module,)


def rooms_imported(path: Path) -> set[str]:
    """The modules and packages at the top of likewise that the file imports."""
    names = (name.split(".") for name in imported(path))
    return {parts[1] for parts in names if parts[0] == "likewise" and len(parts) > 1}


def test_every_room_is_on_a_floor() -> None:
    assert {name.split(".")[0] for name in modules()} == set(FLOOR)


def test_imports_lead_down() -> None:
    upward = {
        f"{name} -> {room}" for name, path in modules().items() for room in rooms_imported(path) if FLOOR[room] > FLOOR[name.split(".")[0]]
    }
    assert upward == set()


def test_no_cycle_of_packages() -> None:
    """Rooms of one floor, too, can be put in an order in which each imports only those before it."""
    needs: dict[str, set[str]] = {room: set() for room in FLOOR}
    for name, path in modules().items():
        room = name.split(".")[0]
        needs[room] |= {other for other in rooms_imported(path) if FLOOR[other] <= FLOOR[room]} - {room}
    while free := {room for room, others in needs.items() if not others}:
        needs = {room: others - free for room, others in needs.items() if room not in free}
    assert not needs


def test_rich_and_typer_are_for_the_terminal_alone() -> None:
    imports = {
        f"{name} -> {whole.split('.')[0]}"
        for name, path in modules().items()
        for whole in imported(path)
        if whole.split(".")[0] in TERMINAL_LIBRARIES and name.split(".")[0] not in ("terminal", "cli")
    }
    assert imports == set()


def test_no_module_needs_what_windows_lacks() -> None:
    """At its top; inside functions, behind a look at the platform, it may."""
    for name, path in modules().items():
        assert not set(imported_by(parsed(path).body)) & {"fcntl", "grp", "pwd", "resource", "termios"}, name


def test_a_folder_holds_about_a_dozen_modules() -> None:
    """But for the package itself, and for the families that have a registry: one loss, one reader or one command a file."""
    counts = Counter(path.parent for path in modules().values())
    crowded = {folder.relative_to(SOURCE).as_posix() for folder, count in counts.items() if count > 14}
    assert crowded - {".", "losses", "data/readers", "terminal/commands"} == set()


def test_no_two_modules_have_one_name() -> None:
    counts = Counter(name.split(".")[-1] for name in modules())
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_two_classes_have_one_name() -> None:
    """But for the loss n_pair and the sampler n_pair, whose name stands in every checkpoint."""
    counts = Counter(
        node.name
        for path in modules().values()
        for node in parsed(path).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    assert [name for name, count in counts.items() if count > 1] == ["NPair"]


def test_the_public_names() -> None:
    import likewise

    assert dir(likewise) == sorted(PUBLIC) == sorted(likewise.__all__)
    assert likewise.__version__[0].isdigit()
    namespace: dict[str, object] = {}
    exec("from likewise import *", namespace)
    assert {name for name in namespace if name != "__builtins__"} == set(PUBLIC)
    with pytest.raises(AttributeError, match="has no attribute 'objectiv'"):
        _ = likewise.objectiv  # type: ignore[attr-defined]


def run_python(program: str) -> None:
    subprocess.run([sys.executable, "-c", program], check=True, timeout=200)


@pytest.mark.parametrize("module", ["likewise", "likewise.cli", "likewise.environment", "likewise.files", "likewise.wording"])
def test_torch_is_imported_by_what_needs_it(module: str) -> None:
    run_python(f"import sys, {module}\nassert not {{'torch', 'numpy', 'rich', 'matplotlib'}} & set(sys.modules), sorted(sys.modules)")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_no_module_takes_the_place_of_a_public_name(seed: int) -> None:
    """Whatever is imported first: a submodule that is imported becomes an attribute of its package."""
    names = [name for name in modules() if name != "__main__"]
    random.Random(seed).shuffle(names)
    run_python(
        "import importlib, types, likewise\n"
        f"for name in {names!r}:\n"
        "    try:\n"
        "        importlib.import_module('likewise.' + name)\n"
        "    except ModuleNotFoundError as fault:  # of an extra that is not installed\n"
        "        assert not fault.name.startswith('likewise'), name\n"
        "for name in likewise.__all__:\n"
        "    assert not isinstance(getattr(likewise, name), types.ModuleType), name\n"
    )
