"""For every kind of folder: a byte flipped in any file, and any file deleted, is reported by the check, and never changes what is read."""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import likewise
from likewise.cli import app
from likewise.integrity import KINDS
from likewise.integrity.check import check, kind_of
from likewise.sealing import Mended

from .made_folders import MADE, Noticed, files_of, flip, without_digests

# What nobody but people reads.
FOR_PEOPLE = ("plots/", "report.html", "leaderboard", "README.md", "log.csv", "tensorboard/", "environment.json", "bench/plots/")
# What was not there from the start, so that nothing misses it: a calibration is added to an embedder later, a cache makes files anew.
NOT_MISSED = {("bundle", "calibration.json"), ("cache", "")}


@pytest.fixture(scope="module", params=list(KINDS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the kind that it is named after."""
    folder = tmp_path_factory.mktemp(request.param) / request.param
    MADE[request.param][0](folder)
    return folder


@pytest.fixture
def copy(made: Path, tmp_path: Path) -> Callable[[], Path]:
    """A fresh copy, in the place where the last one was."""

    def copied() -> Path:
        shutil.rmtree(tmp_path / made.name, ignore_errors=True)
        shutil.copytree(made, tmp_path / made.name)
        for beside in made.parent.iterdir():
            if beside.is_dir() and beside != made and not (tmp_path / beside.name).exists():
                shutil.copytree(beside, tmp_path / beside.name)
        return tmp_path / made.name

    return copied


def told_by(read: Callable[[Path], Any], folder: Path, expected: Any) -> str:
    """How the reader took it: "noticed" or "the same"; what it gives otherwise is an error."""
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always", Mended)
        try:
            found = read(folder)
        except (ValueError, OSError, Noticed):
            return "noticed"
    assert found == expected
    return "noticed" if any(issubclass(one.category, Mended) for one in heard) else "the same"


def damages(folder: Path) -> Iterator[tuple[str, str]]:
    for name in files_of(folder):
        yield "flipped", name
        yield "deleted", name


def test_every_kind_has_a_folder_here() -> None:
    assert set(MADE) == set(KINDS)


def test_a_folder_as_it_was_written_is_whole(made: Path) -> None:
    (checked,) = check(made)
    assert checked.kind == made.name == kind_of(made)
    assert checked.is_whole, checked.of("damaged") + checked.of("missing")
    assert not checked.of("not verifiable")
    assert check(made) == [checked]


def test_no_damage_escapes_the_check(made: Path, copy: Callable[[], Path]) -> None:
    for how, name in damages(made):
        folder = copy()
        if how == "flipped":
            flip(folder / name, name)
        else:
            (folder / name).unlink()
            if (made.name, name) in NOT_MISSED or (made.name, "") in NOT_MISSED:
                continue
        if kind_of(folder) != made.name:  # of two files the one is lost, and the other tells no more what it was
            assert how == "deleted"
            assert len(files_of(folder)) < 3
            continue
        (checked,) = check(folder)
        wrong = [*checked.of("damaged"), *checked.of("missing")]
        assert wrong, f"{name} {how}"
        named = {finding.path.split(":")[0] for finding in wrong}
        if name.endswith(".last.json"):  # of the two nobody can tell which was changed
            name = f"{name.removesuffix('.last.json')}.jsonl" if name not in named else name
        assert any(name.endswith(path) or path.endswith(name) for path in named), f"{name} {how}: {wrong}"
        assert all(finding.what and finding.mend for finding in wrong)


def test_no_damage_changes_what_is_read(made: Path, copy: Callable[[], Path]) -> None:
    read = MADE[made.name][1]
    if read is None:
        return
    expected = read(copy())
    noticed = 0
    for how, name in damages(made):
        if name.startswith(FOR_PEOPLE) or (how == "deleted" and (made.name, name) in NOT_MISSED):
            continue
        if made.name == "benches" and not name.endswith("sqlite"):
            continue  # as in a comparison
        folder = copy()
        if how == "flipped":
            flip(folder / name, name)
        else:
            (folder / name).unlink()
        try:
            noticed += told_by(read, folder, expected) == "noticed"
        except AssertionError as fault:
            raise AssertionError(f"{name} {how}") from fault
    assert noticed


def test_what_an_earlier_version_wrote_is_read_and_told(tmp_path: Path) -> None:
    make, read = MADE["bundle"]
    make(tmp_path / "bundle")
    assert read is not None
    expected = read(tmp_path / "bundle")
    for name in ("embedder.json", "calibration.json"):
        without_digests(tmp_path / "bundle" / name)
    assert read(tmp_path / "bundle") == expected
    (checked,) = likewise.check(tmp_path / "bundle")
    assert checked.is_whole
    assert {finding.path for finding in checked.of("not verifiable")} == {"embedder.json", "calibration.json"}


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    MADE["bundle"][0](tmp_path / "bundle")
    MADE["ledger"][0](tmp_path / "state")
    run = CliRunner().invoke
    whole = run(app, ["check", str(tmp_path / "bundle")])
    assert whole.exit_code == 0
    assert "a saved embedder" in whole.output
    assert "3 parts are whole" in whole.output
    flip(tmp_path / "bundle" / "model.safetensors", "a")
    damaged = run(app, ["check", str(tmp_path / "bundle"), str(tmp_path / "state")])
    assert damaged.exit_code == 1
    assert "model.safetensors" in damaged.output
    assert "damaged" in damaged.output
    asked = run(app, ["check", str(tmp_path / "bundle"), "--json"])
    assert asked.exit_code == 1
    (told,) = json.loads(asked.stdout)
    assert (told["kind"], told["is_whole"]) == ("bundle", False)
    monkeypatch.setenv("LIKEWISE_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("LIKEWISE_CACHE", str(tmp_path / "no cache"))
    ours = run(app, ["check"])
    assert ours.exit_code == 0
    assert "the ledger of looks" in ours.output
    for wrong in (tmp_path / "nothing", tmp_path / "bundle" / "embedder.json", tmp_path):
        refused = run(app, ["check", str(wrong)])
        assert refused.exit_code == 2
        assert "expected the folder of a comparison" in refused.output
