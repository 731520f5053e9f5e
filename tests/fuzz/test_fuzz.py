"""The fuzzer for a few seconds: what failed once, some cases of every format, and that no reader is without one."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import likewise

from .bench import Bench, Case, Outcome, damaged
from .formats import FORMATS, Format
from .kept_cases import FOLDER, MOST_BYTES, kept_cases
from .mutations import KINDS

ROOT = Path(__file__).parents[2]
PACKAGE = Path(likewise.__file__).parent
# What reads a file, as it is written in the package.
READS = re.compile(
    r"\b(np\.load|np\.fromfile|np\.memmap|json\.loads?|tomllib\.loads?|csv\.reader|loadmat|torch\.load|load_file|safe_open|gzip\.open"
    r"|Image\.open|sqlite3\.connect|read_parquet|read_table|ParquetFile|tarfile\.open|zipfile\.ZipFile|faiss\.read_index|pickle\.load)\("
)
# Modules that read something no user hands in: through a pipe of our own, from the package itself, or what its caller has read.
OWN = {
    "comparison/running/workers.py": "orders through the pipe of the process that started it",
    "data/packing/thumbnails.py": "thumbnails that the same process has encoded",
    "exporting": "graphs that the same process has made; npm's package, which npm checks by its digest",
    "formats": "the readers themselves, through which those of the formats above go",
    "reports": "what the comparison's files hold, read before",
    "reproductions/verdicts/item_claims.py": "arrays of a comparison, read before",
    "reproductions/pages": "arrays of a comparison, read before",
    "adaptation/mid_maps.py": "a file that the same process has written",
    "samplers/hard_classes.py": "a state out of a checkpoint, which has a digest",
    "search/stores/postgresql_store.py": "where a database is, which needs a server to be tried",
    "sealing.py": "what its callers, which are formats above, have read",
}


def test_whatever_reads_files_is_fuzzed() -> None:
    """A module that reads with any of the usual words is one of a format, or is known to read nothing of a user's."""
    known = {module for form in FORMATS.values() for module in form.modules}
    for path in sorted(PACKAGE.rglob("*.py")):
        name = path.relative_to(PACKAGE).as_posix()
        if READS.search(_code(path)) and name not in known and not any(name == own or name.startswith(f"{own}/") for own in OWN):
            raise AssertionError(f"{name} reads files, and no entry of FORMATS in tests/fuzz/formats.py tries that")
    for module in known:
        assert (PACKAGE / module).is_file(), f"tests/fuzz/formats.py names {module}, which is not there"
    for own in OWN:
        assert (PACKAGE / own).exists(), f"tests/fuzz/test_fuzz.py names {own}, which is not there"


def _code(path: Path) -> str:
    """Without comments and docstrings."""
    return ast.unparse(ast.parse(path.read_text(encoding="utf-8")))


def test_every_kind_of_damage_is_used() -> None:
    assert {kind for form in FORMATS.values() for kind in form.files.values()} == set(KINDS)


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the fuzzer says of the cases that were kept and of a few of every format, in a process of its own."""
    folder = tmp_path_factory.mktemp("fuzz")
    command = [sys.executable, "-m", "tests.fuzz", "--cases", "3", "--seed", "0", "--no-keep"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "TMPDIR": str(folder), "PYTHONPATH": f"{PACKAGE.parent}{os.pathsep}{ROOT}"}
    ran = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, errors="replace", check=False)
    assert ran.returncode in (0, 1), ran.stderr
    return ran.stdout


def test_every_damaged_file_gives_a_result_or_one_sentence(fuzzed: str) -> None:
    assert fuzzed.endswith("no failures\n"), fuzzed
    assert f"of {len(FORMATS)} formats" in fuzzed


def test_kept_cases_are_small_and_of_formats_that_there_are() -> None:
    for case in kept_cases():
        assert case.format in FORMATS, case.name
        assert (FOLDER / f"{case.name}.json").stat().st_size < MOST_BYTES + 2000


# --- the fuzzer itself finds what it should


def _make(folder: Path) -> None:
    (folder / "value.txt").write_text("3")


def _crashes(folder: Path) -> None:
    os.kill(os.getpid(), 11)


def _hangs(folder: Path) -> None:
    while True:
        pass


def _floods(folder: Path) -> int:
    return len(b"x" * (4 << 30))


def _fails(folder: Path) -> None:
    raise KeyError("inside")


def _names_nothing(folder: Path) -> None:
    raise ValueError("something is wrong")


def _refuses(folder: Path) -> None:
    raise ValueError(f"{folder / 'value.txt'} is damaged")


def _reads_whatever_is_there(folder: Path) -> bytes:
    return (folder / "value.txt").read_bytes()


def _is_not_finite(folder: Path) -> object:
    import numpy as np

    return np.array([1.0, np.nan])


FOUND = {
    "crash": (_crashes, False),
    "hang": (_hangs, False),
    "memory": (_floods, False),
    "traceback": (_fails, False),
    "unnamed": (_names_nothing, False),
    "refused": (_refuses, False),
    "changed": (_reads_whatever_is_there, True),
    "result": (_reads_whatever_is_there, False),
    "unsound": (_is_not_finite, False),
}


@pytest.mark.filterwarnings("ignore:.*fork")
@pytest.mark.parametrize("what", FOUND)
def test_what_the_fuzzer_tells(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read, is_sealed = FOUND[what]
    monkeypatch.setitem(FORMATS, "made up", Format(_make, {"value.txt": "bytes"}, {"read": read}, (), is_sealed=is_sealed))
    bench = Bench(tmp_path)
    cases = [Case("made up", 0, number) for number in range(2)]
    outcomes = list(bench.run(cases, seconds=0.4, contents=[("value.txt", b"4"), ("value.txt", b"5")]))
    assert [outcome.what for outcome in outcomes] == [what, what]  # one case that ends its process does not end the others
    assert all(isinstance(outcome, Outcome) for outcome in outcomes)
    assert [damaged(case, bench.sample("made up")) for case in cases] == [damaged(case, bench.sample("made up")) for case in cases]
