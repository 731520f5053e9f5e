"""Every reader of a format meets every bad file of it: a result, or one sentence with the file's name. A new format joins by itself."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

import likewise
from likewise.formats import FORMATS
from likewise.formats.idx_files import read_idx
from likewise.formats.numpy_files import open_npz, read_npy
from likewise.limits import limited

from .bad_files import BAD, BAD_OF, bad_files, gzipped_bomb, sound
from .guard import told

NO_FILES = ("missing", "a folder", "a pipe", "a socket", "a link to itself", "a device")
CASES = [(name, words) for name in FORMATS for words in bad_files(name)]


def test_every_format_has_its_table() -> None:
    assert BAD_OF.keys() == FORMATS.keys(), "a format without bad files of its own: add them"
    assert set(NO_FILES) < BAD.keys()


@pytest.mark.parametrize("name", FORMATS)
def test_a_sound_file_is_read(name: str, tmp_path: Path) -> None:
    path = tmp_path / f"file{FORMATS[name].endings[0]}"
    path.write_bytes(sound(name))
    assert len(FORMATS[name].read(path)) > 0


@pytest.mark.parametrize(("name", "words"), CASES, ids=[f"{name}: {words}" for name, words in CASES])
def test_a_bad_file_is_told(name: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / f"file{FORMATS[name].endings[0]}"
    bad_files(name)[words](path)
    sentence = told(lambda: FORMATS[name].read(path), str(path))
    if words in NO_FILES:
        assert sentence is not None, "something was read where no file is"


def test_bombs_are_refused_before_they_are_unpacked(tmp_path: Path) -> None:
    (tmp_path / "i.gz").write_bytes(gzipped_bomb())
    sentence = told(lambda: read_idx(tmp_path / "i.gz", num_dimensions=3), "i.gz")
    assert sentence is not None
    assert "LIKEWISE_MAX_EXPANSION raises it" in sentence
    with limited(expansion=2000):
        assert told(lambda: read_idx(tmp_path / "i.gz", num_dimensions=3)) is None
    bad_files("npz")["a bomb"](tmp_path / "b.npz")
    with open_npz(tmp_path / "b.npz") as archive:
        sentence = told(lambda: archive.array("features"), "b.npz")
        assert archive.array("labels").shape == (8,)
    assert sentence is not None
    assert "LIKEWISE_MAX_EXPANSION" in sentence


def test_limits_are_asked_first(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(sound("npy"))
    with limited(rows=7):
        assert "rows: 8, more than the limit of 7 (LIKEWISE_MAX_ROWS raises it)" in str(told(lambda: read_npy(tmp_path / "a.npy")))
    with limited(file_bytes=100):
        assert "LIKEWISE_MAX_FILE_BYTES raises it" in str(told(lambda: read_npy(tmp_path / "a.npy")))


def test_a_parser_that_crashes_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a signal, as scipy does on some damaged files."""
    (tmp_path / "scipy").mkdir()
    (tmp_path / "scipy" / "__init__.py").write_text("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    (tmp_path / "a.mat").write_bytes(sound("mat"))
    monkeypatch.syspath_prepend(tmp_path)
    sentence = told(lambda: FORMATS["mat"].read(tmp_path / "a.mat"), "a.mat")
    assert sentence is not None
    assert "its parser crashed (SIGSEGV)" in sentence


def test_a_parser_has_its_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scipy").mkdir()
    (tmp_path / "scipy" / "__init__.py").write_text("import time; time.sleep(60)")
    (tmp_path / "a.mat").write_bytes(sound("mat"))
    monkeypatch.syspath_prepend(tmp_path)
    with limited(parser_seconds=1):
        assert "is not read in 1 seconds (LIKEWISE_MAX_PARSER_SECONDS raises it)" in str(
            told(lambda: FORMATS["mat"].read(tmp_path / "a.mat"))
        )


def test_what_is_no_file_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device may do something when it is opened."""

    def opens(*_: object, **__: object) -> int:
        raise AssertionError("it was opened")

    (tmp_path / "a.npy").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "b.npy")
    monkeypatch.setattr(os, "open", opens)
    for name, kind in (("a.npy", "a device"), ("b.npy", "a pipe")):
        assert f"({kind} where a regular file was expected)" in str(told(lambda name=name: read_npy(tmp_path / name), name))


# What hands a path to a parser by itself, and why that is no fault: whatever goes wrong there, the file is made anew or done without.
BESIDE_THE_DOOR = {"search/stores/faiss_index.py", "search/index_folder.py", "chained_lines.py", "reproductions/verdicts/looks.py"}
PARSERS = (
    r"np\.load\((?!io\.BytesIO)|torch\.load\((?!io\.BytesIO|weights_only)|loadmat\(|load_file\("
    r"|parquet\.(read|Parquet)|csv\.reader|gzip\.open"
)
JSON = r"json\.loads?\([^)]*read_(text|bytes)\(|tomllib\.loads?\("


def test_there_is_one_door() -> None:
    """Bytes in memory, which a digest was held against, are another matter."""
    source = Path(likewise.__file__).parent
    beside = {
        path.relative_to(source).as_posix()
        for path in source.rglob("*.py")
        if re.search(f"{PARSERS}|{JSON}", path.read_text(encoding="utf-8")) and path.parent.name != "formats"
    }
    assert beside - BESIDE_THE_DOOR == set()
