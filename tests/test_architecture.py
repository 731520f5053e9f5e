"""docs/architecture.md is true: its layers are the house's, and every path, module and function it names exists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from .test_house import LAYERS, SOURCE

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
NAMED = re.compile(r"`([^`\n]+)`")
A_PATH = re.compile(r"(src|tests|docs|benchmarks)/[\w./-]*|[\w./-]+\.(py|md|toml|css|js|html|txt)")
# What CONTRIBUTING tells its reader to write.
TO_BE_ADDED = (
    "src/likewise/losses/mean_ratio.py",
    "src/likewise/samplers/two_classes.py",
    "src/likewise/models/backbones/patches.py",
)


def section(title: str) -> str:
    """What stands under a heading of the document."""
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", TEXT, flags=re.DOTALL | re.MULTILINE)
    assert found is not None, f"there is no section {title!r}"
    return found[1]


def table(title: str) -> list[list[str]]:
    """The cells of the rows of the section's table, without its heading."""
    rows = [line.strip("|").split(" | ") for line in section(title).splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in rows[2:]]


def tree() -> dict[str, str]:
    """Path -> what the tree says about it, folders with a slash at the end."""
    block = re.search(r"^```text\n(.*?)^```", section("The tree"), flags=re.DOTALL | re.MULTILINE)
    assert block is not None
    above: dict[int, str] = {}
    entries = {}
    for line in block[1].splitlines():
        indent = len(line) - len(line.lstrip())
        name, _, about = line.strip().partition(" ")
        path = above.get(indent, "") + name
        if name.endswith("/"):
            above[indent + 2] = path
        entries[path] = about.strip()
    return entries


def test_the_layers_are_those_that_imports_keep_to() -> None:
    assert tuple(tuple(NAMED.findall(row[0])) for row in table("Layers")) == LAYERS


def test_the_tree_is_what_is_there() -> None:
    """Everything in it exists. A folder stands for what is in it, or lists every file."""
    entries = tree()
    assert len(entries) > 80
    for path, about in entries.items():
        exists = (ROOT / path).is_dir() if path.endswith("/") else (ROOT / path).is_file()
        assert exists, f"docs/architecture.md has {path} in its tree, which is not there"
        lists = any(other != path and other.startswith(path) for other in entries)
        assert about or lists, f"docs/architecture.md does not say what {path} is"
    listing = {path.rstrip("/").rpartition("/")[0] for path in entries}  # folders whose files have lines of their own
    for folder in sorted({SOURCE, *(file.parent for file in SOURCE.rglob("*.py"))}):
        if folder.relative_to(ROOT).as_posix() in listing:
            for entry in sorted(folder.iterdir()):
                path = entry.relative_to(ROOT).as_posix() + "/" * entry.is_dir()
                counts = (entry / "__init__.py").is_file() or entry.suffix in (".py", ".html", ".css", ".js")
                counts = counts and (entry.name != "__init__.py" or folder == SOURCE)
                assert path in entries or not counts, f"{path} is not in the tree of docs/architecture.md: add a line that says what it is"


@pytest.mark.parametrize("document", ["docs/architecture.md", "docs/style.md", "CONTRIBUTING.md"])
def test_paths_that_documents_name_exist(document: str) -> None:
    """From the repository, from the package, or from the document's own folder."""
    text = (ROOT / document).read_text(encoding="utf-8")
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    links = [link for link in re.findall(r"\]\(([^)#\s]+)\)", prose) if "://" not in link]
    named = [name for name in NAMED.findall(prose) if A_PATH.fullmatch(name)]
    assert links + named
    absent = [name for name in links + named if not any((place / name).exists() for place in (ROOT, SOURCE, (ROOT / document).parent))]
    assert [name for name in absent if name not in TO_BE_ADDED] == []


@pytest.mark.parametrize("walk", ["One call of an objective", "`likewise.train`", "`likewise compare`"])
def test_walks_name_functions_that_exist(walk: str) -> None:
    steps = table(walk)
    assert len(steps) > 10
    for where, what, does in steps:
        (module,), (function,) = NAMED.findall(where), NAMED.findall(what)
        assert function in functions(SOURCE / module), f"docs/architecture.md, {walk}: {module} has no {function}"
        assert does


def test_changes_name_registries_that_exist() -> None:
    rows = table("What to touch for what change")
    assert len(rows) > 12
    for change, touched, held_by in rows:
        for registry in re.findall(r"`([A-Z][A-Za-z]+|__all__|_WHERE)`", touched):
            files = [ROOT / name for name in NAMED.findall(touched) if name.endswith(".py")]
            assert any(re.search(rf"^(class )?{registry}\b", file.read_text(), flags=re.MULTILINE) for file in files), (change, registry)
        assert NAMED.findall(held_by), f"no test holds {change}"


def functions(module: Path) -> set[str]:
    """Functions, and methods as Class.method, that a module defines."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef
    names = set()
    for node in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(node, kinds):
            names.add(node.name)
        elif isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, kinds)}
    return names
