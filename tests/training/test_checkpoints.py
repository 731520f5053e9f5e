"""Checkpoints: at every moment a whole one is there, and a damaged one is noticed."""

from __future__ import annotations

import errno
import io
import os
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch

from likewise.sealing import Mended
from likewise.training.runs.checkpoints import Checkpoints, DamagedCheckpoint, read_checkpoint


def state(step: int) -> dict[str, Any]:
    return {"step": step, "weights": {"a": torch.arange(5.0) + step}, "rows": [{"loss": 0.1}], "none": None, "text": "é"}


def steps(kept: Checkpoints) -> tuple[int, int]:
    return read_checkpoint(kept.last)["step"], read_checkpoint(kept.previous)["step"]


@pytest.fixture
def kept(tmp_path: Path) -> Checkpoints:
    """With checkpoints of steps 1 and 2."""
    made = Checkpoints(tmp_path / "checkpoints")
    for step in (1, 2):
        made.save(state(step))
    return made


def test_what_was_saved_comes_back(kept: Checkpoints) -> None:
    found = kept.load()
    assert found is not None
    assert torch.equal(found["weights"].pop("a"), torch.arange(5.0) + 2)
    assert found == {**state(2), "weights": {}}
    assert steps(kept) == (2, 1)
    assert sorted(path.name for path in kept.folder.iterdir()) == ["last.ckpt", "previous.ckpt"]


def test_none_is_none(tmp_path: Path) -> None:
    assert Checkpoints(tmp_path).load() is None


@pytest.mark.parametrize("place", ["first", "middle", "last"])
@pytest.mark.parametrize("damage", ["bit", "cut", "empty", "gone"])
def test_a_damaged_last_one_falls_back_to_the_one_before(kept: Checkpoints, place: str, damage: str) -> None:
    content = bytearray(kept.last.read_bytes())
    at = {"first": 0, "middle": len(content) // 2, "last": len(content) - 1}[place]
    if damage == "bit":
        content[at] ^= 1
    if damage == "gone":
        kept.last.unlink()
    else:
        kept.last.write_bytes(content if damage == "bit" else content[:at] if damage == "cut" else b"")
    said = r"last\.ckpt is (damaged|missing).*goes on from previous\.ckpt, of step 1"
    with pytest.warns(Mended, match=said):
        found = kept.load()
    assert found is not None
    assert found["step"] == 1
    kept.save(state(3))
    assert steps(kept) == (3, 1)  # the whole one is kept, not the damaged


def test_two_damaged_ones_are_said(kept: Checkpoints) -> None:
    for path in (kept.last, kept.previous):
        path.write_bytes(b"x" * 100)
    with pytest.raises(DamagedCheckpoint, match=r"last\.ckpt is damaged.*previous\.ckpt is damaged.*another --out"):
        kept.load()


def test_no_code_is_run_from_a_checkpoint(kept: Checkpoints) -> None:
    """Even with a checksum that fits."""
    import hashlib

    buffer = io.BytesIO()
    torch.save({"step": 1, "run": print}, buffer)
    content = buffer.getvalue()
    kept.last.write_bytes(content + hashlib.sha256(content).digest())
    with pytest.raises(Exception, match="Weights only load failed"):
        read_checkpoint(kept.last)


@pytest.mark.parametrize("allowed", range(3))
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_last_one(kept: Checkpoints, call: str, allowed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever call it is that fails: of the file or of its folder, of the file's own renaming or of one of the two that follow."""
    real, calls = getattr(os, call), []

    def full(*given: Any) -> None:
        calls.append(given)
        if len(calls) > allowed:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(*given)

    monkeypatch.setattr(os, call, full)
    if (call, allowed) == ("fsync", 2):  # the folder's, after all is done: the new one is there, though it may not outlast a power cut
        with pytest.raises(OSError, match="make room"):
            kept.save(state(3))
        assert steps(kept) == (3, 2)
        return
    with pytest.raises(OSError, match=r"could not be written to .*checkpoints \(No space left on device\): make room.*--resume"):
        kept.save(state(3))
    monkeypatch.undo()
    with nullcontext() if kept.last.exists() else pytest.warns(Mended, match="is missing; the training goes on from previous"):
        found = kept.load()
    assert found is not None
    assert found["step"] == 2
    kept.save(state(4))
    assert steps(kept) == (4, 2)


def test_a_write_that_was_cut_off_leaves_the_last_one(kept: Checkpoints) -> None:
    """What kill -9 leaves: half a file under another name, or a whole one that was not renamed yet."""
    (kept.folder / ".next.ckpt.0123abcd").write_bytes(kept.last.read_bytes()[:50])
    (kept.folder / "next.ckpt").write_bytes(kept.last.read_bytes())
    assert kept.load()["step"] == 2  # type: ignore[index]
    kept.save(state(3))
    assert steps(kept) == (3, 2)
    assert sorted(path.name for path in kept.folder.iterdir()) == ["last.ckpt", "previous.ckpt"]


def test_a_file_system_without_hard_links(kept: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*given: Any, **settings: Any) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", refused)
    monkeypatch.setattr(os, "symlink", refused)
    for step in (3, 4):
        kept.save(state(step))
        assert steps(kept) == (step, step - 1)


def test_at_every_moment_a_whole_one_is_there(kept: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is killed before or after any of the calls that change the folder can go on from the last step or the new one."""
    found: list[int] = []

    def watched(call: Callable[..., None]) -> Callable[..., None]:
        def between(*given: Any) -> None:
            for act in (lambda: None, lambda: call(*given)):
                act()
                state = Checkpoints(kept.folder).load()
                assert state is not None
                found.append(state["step"])

        return between

    for name in ("fsync", "replace"):
        monkeypatch.setattr(os, name, watched(getattr(os, name)))
    kept.save(state(3))
    assert len(found) == 2 * (3 + 3)  # each is of three things: the file, its folder twice; the file, the last one, the next one
    assert found == sorted(found)
    assert (found[0], found[-1]) == (2, 3)


def test_the_newest_one(kept: Checkpoints, tmp_path: Path) -> None:
    assert kept.newest == kept.last
    kept.last.unlink()
    assert kept.newest == kept.previous
    assert Checkpoints(tmp_path / "none").newest is None
