"""Own code by address: what a registry does not have, out of a file or a package of the user's.

    my_losses.py:TupletMargin       a name in a file; the path is seen from the file that names it, or from where the command is given
    my_package.losses:PNP           a name in an installed module

An address is resolved once, where the user gives it, to one that has the digest of the code in it: my_losses.py:TupletMargin@3f2a9c1b2d4e.
So changed code is another method, wherever a method is named by its content. The text of a file, and of those in its folder that it
imports, travels with a plan to workers and to other machines, which need not have it; of a module only its name does.

Nothing that was received is ever run: code is known to a process because its user gave it, as an address, by `trust`, or in
LIKEWISE_OWN_CODE. A run, an embedder or a database names code by its digest alone.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import inspect
import linecache
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from likewise.argument_types import checked_arguments
from likewise.checks import close_name

TRUSTED = "LIKEWISE_OWN_CODE"  # the environment's list of files, divided as PATH is
_ADDRESS = re.compile(r"(?P<place>[^:@]*\.py|[^\W\d]\w*(\.[^\W\d]\w*)*):(?P<name>[^\W\d]\w*)(@(?P<digest>[0-9a-f]{12}))?")
_SEPARATORS = tuple(filter(None, (os.sep, os.altsep)))


class CodeAddress(NamedTuple):
    """place: a .py file, or a module.  digest: of its code; empty before it is resolved."""

    place: str
    name: str
    digest: str

    @property
    def is_of_file(self) -> bool:
        return self.place.endswith(".py")

    def __str__(self) -> str:
        return f"{self.place}:{self.name}" + (f"@{self.digest}" if self.digest else "")


@dataclass(frozen=True)
class Code:
    """The code behind a digest: texts of a file and of its neighbours that it imports, those first; or the name of a module alone."""

    place: str
    texts: tuple[tuple[str, str], ...]  # module name -> text; the last is the file itself


_known: dict[str, Code] = {}  # by digest: what this process's user gave, or the process that started this one was given
_modules: dict[str, ModuleType] = {}  # by digest


def is_address(name: str) -> bool:
    """Whether it names code in a file or a module; a name of timm or of the Hugging Face hub does not."""
    return _ADDRESS.fullmatch(name) is not None and not name.startswith(("timm:", "hf:"))


def resolved_address(given: str, *, folder: Path | None = None) -> str:
    """The address with the digest of its code, which this process knows from now on. One that has a digest stays as it is.

    folder: where a relative path is looked for first, that of the file which names it.
    """
    address = _parsed(given)
    if address.digest:
        return given
    if not address.is_of_file:
        return str(address._replace(digest=_know_module(address.place)))
    path = _file_of(address.place, folder)
    named = address._replace(place=path.name, digest=_know_file(path))
    at_address(str(named))  # a file that cannot be run, or lacks the name, is told now
    return str(named)


def at_address(resolved: str) -> Any:
    """What stands at a resolved address."""
    address = _parsed(resolved)
    if not is_known(resolved):
        raise ValueError(
            f"the code of {address.place} (version {address.digest or 'unknown'}) is not known here: give its file again, with the method "
            f"that names it, by likewise.trust('{address.place}'), or in the environment as {TRUSTED}={address.place}"
        )
    module = _module(address)
    if not hasattr(module, address.name):
        names = [name for name, thing in vars(module).items() if inspect.isclass(thing) or inspect.isfunction(thing)]
        close = close_name(address.name, names)
        hint = f"did you mean {close}?" if close else f"it has {', '.join(names) or 'no classes and no functions'}"
        raise ValueError(f"{address.place} has no {address.name}: {hint}")
    return getattr(module, address.name)


def is_known(resolved: str) -> bool:
    """Whether the code of a resolved address is known to this process, or to be found in LIKEWISE_OWN_CODE."""
    digest = _parsed(resolved).digest
    if digest not in _known:
        for path in filter(None, os.environ.get(TRUSTED, "").split(os.pathsep)):
            trust(path)
    return digest in _known


@checked_arguments
def trust(path: str | Path) -> None:
    """Makes the code of a .py file, as it is now, known to this process, for models and runs that name it."""
    _know_file(_file_of(str(path), None))


def address_of_class(kind: type) -> str:
    """A resolved address of a class that stands in a file, in a module, or in the script or notebook that is being run.

    Of a script only what the class is made of is taken, not what the script does.
    """
    if "." in kind.__qualname__:
        raise ValueError(f"{kind.__qualname__} is defined inside of something: write it at the top of a file, so that others can import it")
    if kind.__module__ != "__main__":
        own = next((digest for digest, module in _modules.items() if module.__name__ == kind.__module__), None)
        if own is not None:
            return str(CodeAddress(_known[own].place, kind.__qualname__, own))
    try:
        path = inspect.getsourcefile(kind)
        source = Path(path or "").read_text(encoding="utf-8")
    except (OSError, TypeError):
        raise ValueError(f"{kind.__name__} is defined where there is no file: write it into a .py file and import it from there") from None
    if kind.__module__ != "__main__" and _is_importable(kind.__module__):
        return str(CodeAddress(kind.__module__, kind.__name__, _know_module(kind.__module__)))
    assert path is not None
    if kind.__module__ == "__main__":
        source = _definitions(source, kind.__name__)
    return str(CodeAddress(Path(path).name, kind.__name__, _know(Path(path), source)))


def known_code() -> dict[str, Code]:
    """All code that this process knows, for another process."""
    return dict(_known)


def take_over(known: Mapping[str, Code]) -> None:
    """Knows what the process that started this one, or sent it work, knew."""
    _known.update(known)


def _parsed(given: str) -> CodeAddress:
    match = _ADDRESS.fullmatch(given)
    if match is None:
        raise ValueError(f"{given!r} is no address of code: expected FILE.py:Name or package.module:Name")
    return CodeAddress(match["place"], match["name"], match["digest"] or "")


def _file_of(place: str, folder: Path | None) -> Path:
    tried = [base / Path(place).expanduser() for base in ([folder] if folder else []) + [Path.cwd()]]
    path = next((path for path in tried if path.is_file()), None)
    if path is None:
        places = " or ".join(dict.fromkeys(str(path.parent) for path in tried))
        raise ValueError(f"there is no file {Path(place).name} in {places}: expected the Python file that is meant")
    return path


def _know_file(path: Path) -> str:
    try:
        return _know(path, path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as fault:
        raise ValueError(f"{path} cannot be read as Python ({fault}): expected a text in UTF-8") from fault


def _know(path: Path, source: str) -> str:
    """Remembers a file's text with those of its neighbours; their digest."""
    texts: dict[str, str] = {}
    _gather(path.stem, source, path.parent, texts)
    digest = hashlib.sha256(repr(sorted(texts.items())).encode()).hexdigest()[:12]
    _known[digest] = Code(path.name, tuple(texts.items()))
    return digest


def _gather(name: str, source: str, folder: Path, texts: dict[str, str]) -> None:
    """The text, after those of the files beside it that it imports at its top."""
    for neighbour in _imported(name, source):
        path = folder / f"{neighbour}.py"
        if neighbour != name and neighbour not in texts and path.is_file():
            _gather(neighbour, path.read_text(encoding="utf-8"), folder, texts)
    texts.pop(name, None)
    texts[name] = source


def _imported(name: str, source: str) -> Iterator[str]:
    """The first part of the name of every module that is imported at the top."""
    for node in _tree(name, source).body:
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
            yield node.module.partition(".")[0]


def _tree(name: str, source: str) -> ast.Module:
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as fault:
        raise ValueError(f"{name}.py is not Python that can be run: {fault}") from fault


def _know_module(name: str) -> str:
    """Remembers an installed module; the digest of its file."""
    module = _import(name)
    path = getattr(module, "__file__", None)
    content = name.encode() if path is None else Path(path).read_bytes()
    digest = hashlib.sha256(name.encode() + b":" + content).hexdigest()[:12]
    _known[digest] = Code(name, ())
    _modules[digest] = module
    return digest


def _is_importable(name: str) -> bool:
    """Whether another process finds a module under its name, as it does not a file that this one found beside its script."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None or not sys.argv:
        return False
    script = Path(sys.argv[0]).resolve().parent
    return Path(spec.origin).resolve().parent not in (script, Path.cwd())


def _import(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as fault:  # whatever a module of the user's raises while it is imported
        raise ValueError(f"module {name} cannot be imported ({type(fault).__name__}: {fault}): install it here, or give a file") from fault


def _module(address: CodeAddress) -> ModuleType:
    if address.digest not in _modules:
        code = _known[address.digest]
        if code.texts:
            _modules[address.digest] = _run(code, address.digest)
        elif _know_module(code.place) != address.digest:
            raise ValueError(f"module {code.place} is another version here than the one that is meant: install the same everywhere")
    return _modules[address.digest]


def _run(code: Code, digest: str) -> ModuleType:
    """Runs the texts in order, as modules that no other version shares; while one is run, its neighbours have their own names."""
    made: dict[str, ModuleType] = {}
    for name, text in code.texts:
        module = ModuleType(f"likewise_own_{digest}_{name}")
        module.__file__ = f"<{name}.py, version {digest}>"
        linecache.cache[module.__file__] = (
            len(text),
            None,
            text.splitlines(keepends=True),
            module.__file__,
        )  # for tracebacks and compilers
        sys.modules[module.__name__] = module  # dataclasses look for it there
        with _under_own_names(made):
            try:
                exec(compile(text, module.__file__, "exec"), module.__dict__)
            except Exception as fault:  # whatever it raises is the user's to mend
                del sys.modules[module.__name__]
                raise ValueError(f"{name}.py cannot be run ({type(fault).__name__}: {fault}): mend it, or give another file") from fault
        made[name] = module
    return made[code.texts[-1][0]]


@contextmanager
def _under_own_names(modules: Mapping[str, ModuleType]) -> Iterator[None]:
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


def _definitions(source: str, wanted: str) -> str:
    """The part of a script that a name is made of: imports, and the definitions and assignments that it comes to, in their order."""
    body = _tree(wanted, source).body
    imports = (ast.Import, ast.ImportFrom)
    by_name = {name: node for node in body if not isinstance(node, imports) for name in _names_given(node)}
    needed, open_names = set(), [wanted]
    while open_names:
        node = by_name.get(open_names.pop())
        if node is not None and node not in needed:
            needed.add(node)
            open_names += [part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)]
    return "\n\n".join(ast.unparse(node) for node in body if isinstance(node, imports) or node in needed) + "\n"


def _names_given(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
